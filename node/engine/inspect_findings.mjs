/**
 * What an inspection found: counted in full, listed in part, and the held rows on their way to quarantine.
 *
 * Twin of src/kfm/validation/findings.py. A violation is [column, rule, mode, message].
 */

import { canonicalText } from "../canonical.mjs";
import { compare } from "../characters.mjs";
import { BadInput } from "../errors.mjs";
import { CONSEQUENCE, EFFECT } from "../generated/inspection.mjs";
import { Finding } from "../records.mjs";

export const MAX_FINDINGS = 200;
export const MAX_NAMES = 1000;
export const BUFFER = 1 << 16;

// What a finding does, the gravest first: when the list is full, the lighter ones give way.
export const SOURCE = 0;
export const NOTE = 2;

/** The bytes cannot be read on from here. Says why; the reader knows in which row. */
export class Unreadable extends Error {
  constructor(rule, message) {
    super(message);
    this.rule = rule;
  }
}

/** A whole number with commas between its thousands. */
export const grouped = (number) => String(number).replace(/\B(?=(?:\d{3})+$)/g, ",");

/** Gathers what the format readers find. `held` is about the whole source, `heldRows` about single rows. */
export class Outcome {
  #kept = new Map(); // by effect, and whether it is about a row: three effects, two each
  #hold;
  #lines = [];
  #waiting = 0;
  #names = new Set();
  #passing = 0;

  constructor(source, hold) {
    this.source = source;
    this.rows = 0;
    this.heldRows = 0;
    this.held = false;
    this.changed = false;
    this.counts = new Map();
    this.partitions = new Set();
    this.#hold = hold;
  }

  add(effect, rule, message, row = 0, column = "") {
    this.counts.set(rule, (this.counts.get(rule) ?? 0) + 1);
    this.held ||= effect === SOURCE;
    const key = effect * 2 + (row > 0 ? 1 : 0);
    if (!this.#kept.has(key)) this.#kept.set(key, []);
    const kept = this.#kept.get(key);
    if (kept.length < MAX_FINDINGS) {
      kept.push(Finding({ source: this.source, rule, message, row, column, held: effect !== NOTE }));
    }
  }

  /** Record a row's violations; true if the row may not pass. `data` is asked only then. */
  judge(row, violations, data) {
    let gravest = NOTE;
    const reasons = [];
    for (const [column, rule, mode, message] of violations) {
      const effect = EFFECT[mode];
      gravest = Math.min(gravest, effect);
      reasons.push({ column, rule });
      this.add(effect, rule, `${message}; ${CONSEQUENCE[mode]}`, row, column);
    }
    if (gravest === NOTE) return false;
    this.#holdRow(row, reasons, data());
    return true;
  }

  /**
   * A column the contract does not name: said once per name, for the first thousand names.
   *
   * Where such columns may pass they are only counted, and reported as one finding.
   */
  otherColumn(name, shown, mode, row) {
    if (this.#names.has(name) || this.#names.size === MAX_NAMES) return;
    this.#names.add(name);
    if (mode === "evolve") {
      this.#passing += 1;
      return;
    }
    const consequence = mode === "discard-value" ? "the column is dropped" : CONSEQUENCE[mode];
    this.add(EFFECT[mode], "column.unknown", `the contract does not name this column; ${consequence}`, row, shown);
  }

  #holdRow(row, reasons, data) {
    this.heldRows += 1;
    let line;
    try {
      line = canonicalText({ row, reasons, data });
    } catch (problem) {
      // As deep as a record may be, and now one level deeper.
      if (!(problem instanceof BadInput)) throw problem;
      line = canonicalText({ row, reasons, data: { "#": canonicalText(data) } });
    }
    this.#lines.push(line);
    this.#waiting += line.length + 1;
    if (this.#waiting >= BUFFER) this.#flush();
  }

  /** What can be said only at the end. `before` rows passed for the version there is now; 0: none are known. */
  finish(contract, before) {
    if (this.#passing) {
      const number = this.#passing < MAX_NAMES ? grouped(this.#passing) : `${grouped(MAX_NAMES)} or more`;
      this.add(NOTE, "column.unknown", `the contract does not name ${number} of the columns; noted only`);
    }
    if (contract.format !== "text" && contract.format !== "bytes") this.#count(contract, before);
    this.#flush();
  }

  #count(contract, before) {
    const { min_rows: least, max_held_rows: most, shrink_limit: limit } = contract;
    const { rows, heldRows } = this;
    const passed = rows - heldRows;
    const hold = (rule, what) => this.add(SOURCE, rule, `${what}; the source is held`);
    if (passed < least) hold("rows.few", `fewer than ${grouped(least)} rows passed`);
    if (most >= 0 && most < heldRows) hold("rows.held", `more than ${grouped(most)} rows are held`);
    if (this.held) return; // for a better reason than these
    if (!passed && !contract.allow_empty) {
      hold("rows.none", rows ? `none of the ${grouped(rows)} rows passed` : "there is no row in it");
    } else if (heldRows && heldRows / rows > contract.max_held_share) {
      hold("rows.share", `${grouped(heldRows)} of ${grouped(rows)} rows are held, more than max_held_share allows`);
    } else if (passed < before && limit < 1 && (before - passed) / before >= limit) {
      hold("rows.shrunk", `${grouped(passed)} rows passed, and ${grouped(before)} in the version before`);
    }
  }

  #flush() {
    if (this.#lines.length) {
      this.#hold(Buffer.from(`${this.#lines.join("\n")}\n`, "utf8"));
      this.#lines = [];
      this.#waiting = 0;
    }
  }

  /** The first finding that holds the source. */
  cause() {
    return this.#kept.get(SOURCE * 2)?.[0] ?? this.#kept.get(SOURCE * 2 + 1)?.[0] ?? null;
  }

  /** At most 200: those that hold the source before those that hold a row before notes; by row, then column. */
  listed() {
    const order = [...this.#kept.keys()].sort((a, b) => a - b);
    const chosen = order.flatMap((key) => this.#kept.get(key)).slice(0, MAX_FINDINGS);
    return chosen.sort((a, b) => a.row - b.row || compare(a.column, b.column) || compare(a.rule, b.rule));
  }
}
