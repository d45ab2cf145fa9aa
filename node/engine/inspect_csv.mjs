/** CSV against its contract. Twin of src/kfm/validation/csv.py, which says what is held and what passes. */

import { strip } from "../characters.mjs";
import { encode, markOf } from "../encodings.mjs";
import { BadInput } from "../errors.mjs";
import { ColumnCheck } from "./inspect_columns.mjs";
import { MAX_FINDINGS, NOTE, SOURCE } from "./inspect_findings.mjs";
import { Partitions } from "./inspect_partitions.mjs";
import { TableReader } from "./inspect_rows.mjs";
import { LIMITS } from "./inspect_text.mjs";

export function inspectCsv(openBody, contract, out, accept, limits = LIMITS) {
  const body = openBody();
  let table;
  let names;
  try {
    table = new TableReader(body, contract, limits);
    names = headerOf(table, contract, out);
    if (names !== null) {
      const accepted = new Accepted(openBody, contract, names, accept, limits);
      const inspector = new Inspector(names, contract, out, accepted);
      for (const rows of table.batches()) inspector.take(rows);
      accepted.end();
      out.changed = accepted.begun;
    }
  } finally {
    body.close();
  }
  if (table.flaw !== null) {
    // Row 0 if not even the header could be read.
    out.add(SOURCE, table.flaw.rule, table.flaw.message, names !== null ? out.rows + 1 : 0);
  }
}

/** The names of the columns, or null if the source cannot be read by columns. */
function headerOf(table, contract, out) {
  if (!contract.header) return contract.columns.map((column) => column.name);
  const names = table.first();
  if (names === null) {
    if (table.flaw === null) out.add(SOURCE, "csv.header", "there is no header; the source is held");
    return null;
  }
  const first = new Map();
  for (const [index, name] of names.entries()) {
    const position = index + 1;
    if ((out.counts.get("csv.header") ?? 0) === MAX_FINDINGS) break;
    if (!strip(name)) {
      out.add(SOURCE, "csv.header", `column ${position} of the header has no name; the source is held`);
    } else if (first.has(name)) {
      const message = `columns ${first.get(name)} and ${position} of the header have one name; the source is held`;
      out.add(SOURCE, "csv.header", message);
    }
    if (!first.has(name)) first.set(name, position);
  }
  if (!out.held) return names;
  table.flaw = null; // what comes after a header that is refused is not looked at
  return null;
}

/** Writes what passed, from the moment that differs from what came. */
class Accepted {
  #openBody;
  #contract;
  #names;
  #accept;
  #limits;
  #kept;
  #mark;
  #special;

  constructor(openBody, contract, names, accept, limits) {
    const known = new Set(contract.columns.map((column) => column.name));
    const drops = contract.other_columns === "discard-value";
    this.#kept = [...names.keys()].filter((at) => !drops || known.has(names[at]));
    this.drops = this.#kept.length < names.length;
    this.begun = false;
    this.#openBody = openBody;
    this.#contract = contract;
    this.#names = names;
    this.#accept = accept;
    this.#limits = limits;
    this.#mark = markOf(contract.encoding);
    this.#special = new RegExp(`["\\r\\n\\u{${contract.delimiter.charCodeAt(0).toString(16)}}]`, "u");
  }

  /** Start with the first `passed` rows, read once more: none of them was changed. */
  begin(passed) {
    this.begun = true;
    if (this.#contract.header) this.write([this.#names]);
    if (!passed) return;
    const body = this.#openBody();
    try {
      const table = new TableReader(body, this.#contract, this.#limits);
      if (this.#contract.header) table.first();
      let left = passed;
      for (const rows of table.batches()) {
        this.write(left < rows.length ? rows.slice(0, left) : rows);
        left -= rows.length;
        if (left <= 0) return;
      }
    } finally {
      body.close();
    }
  }

  write(rows) {
    const { encoding, delimiter } = this.#contract;
    let text = "";
    for (const row of rows) {
      const fields = this.drops ? this.#kept.map((at) => row[at]) : row;
      if (fields.length === 1 && fields[0] === "") text += '""\n';
      else text += `${fields.map((field) => this.#field(field)).join(delimiter)}\n`;
    }
    if (!text) return;
    const body = encode(encoding, text);
    if (body === null) {
      throw new BadInput(`what passed cannot be written in ${encoding} again`, { hint: "declare another encoding" });
    }
    this.#accept(this.#mark.length ? Buffer.concat([this.#mark, body]) : body);
    this.#mark = Buffer.alloc(0);
  }

  #field(field) {
    return this.#special.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
  }

  end() {
    if (this.begun && this.#mark.length) this.#accept(this.#mark);
  }
}

class Inspector {
  #accepted;
  #names;
  #out;
  #checks;
  #unique;
  #ragged;
  #partitions;
  #partition;

  constructor(names, contract, out, accepted) {
    this.#accepted = accepted;
    this.#names = names;
    this.#out = out;
    const place = new Map(names.map((name, at) => [name, at]));
    this.#checks = contract.columns
      .filter((column) => place.has(column.name))
      .map((column) => [place.get(column.name), new ColumnCheck(column)])
      .filter(([, check]) => !check.trivial);
    this.#unique = this.#checks.filter(([, check]) => check.unique);
    const frozen = [contract.other_columns, ...contract.columns.map((column) => column.mode)].includes("freeze");
    const message = "the row has more or fewer fields than there are columns";
    this.#ragged = ["", "csv.ragged", frozen ? "freeze" : "discard-row", message];
    this.#partitions = new Partitions(contract, out);
    this.#partition = place.get(contract.partition_by) ?? -1;
    this.#compare(contract);
    if (accepted.drops && !out.held) accepted.begin(0);
  }

  /** The header against the contract. Unknown names are reported only if the line is certainly a header. */
  #compare(contract) {
    const out = this.#out;
    const present = new Set(this.#names);
    const known = new Set(contract.columns.map((column) => column.name));
    for (const column of contract.columns) {
      if (present.has(column.name)) continue;
      if (column.required && column.mode !== "evolve") {
        out.add(SOURCE, "column.missing", "the column is required and is not there; the source is held", 0, column.name);
      } else out.add(NOTE, "column.missing", "the column is not there; noted only", 0, column.name);
    }
    if (contract.partition_by && !present.has(contract.partition_by)) {
      const message = "the column to partition by is not there; the source is held";
      out.add(SOURCE, "column.missing", message, 0, contract.partition_by);
    }
    if (known.size) {
      const sure = this.#names.some((name) => known.has(name));
      this.#names.forEach((name, at) => {
        if (!known.has(name)) out.otherColumn(name, sure ? name : `#${at + 1}`, contract.other_columns, 0);
      });
    }
  }

  take(rows) {
    const out = this.#out;
    const accepted = this.#accepted;
    const passed = out.rows;
    const [kept, changed] = this.#sift(rows);
    if (out.held || !(changed || accepted.begun)) return;
    if (!accepted.begun) accepted.begin(passed);
    accepted.write(kept);
  }

  /** The rows that pass, and whether anything was discarded. */
  #sift(rows) {
    const out = this.#out;
    const kept = [];
    let changed = false;
    for (const row of rows) {
      out.rows += 1;
      if (row.length !== this.#names.length) {
        out.judge(out.rows, [this.#ragged], () => ({ "#": row }));
        changed = true;
        continue;
      }
      let broken = null;
      for (const [place, check] of this.#checks) {
        const rule = check.brokenRule(row[place]);
        if (rule) (broken ??= []).push([place, check, rule]);
      }
      if (broken !== null) {
        const violations = broken.map(([, check, rule]) => check.violation(rule));
        if (out.judge(out.rows, violations, () => this.#named(row))) {
          changed = true;
          continue;
        }
        for (const [place, check] of broken) {
          if (check.mode === "discard-value") {
            row[place] = "";
            changed = true;
          }
        }
      }
      for (const [place, check] of this.#unique) check.saw(row[place]);
      if (this.#partition >= 0) this.#partitions.add(row[this.#partition]);
      kept.push(row);
    }
    return [kept, changed];
  }

  #named(row) {
    return new Map(this.#names.map((name, at) => [name, row[at]]));
  }
}
