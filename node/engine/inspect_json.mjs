/**
 * JSON, NDJSON, GeoJSON and STAC against their contract, record by record.
 *
 * Twin of src/kfm/validation/json.py, which says what is held and what passes. Objects are read as Maps, so
 * that members keep the order of the text.
 */

import { canonical, decode } from "../canonical.mjs";
import { BadInput } from "../errors.mjs";
import { ColumnCheck, textOf } from "./inspect_columns.mjs";
import { BUFFER, MAX_NAMES, NOTE, SOURCE, Unreadable } from "./inspect_findings.mjs";
import { collectionFlaw, featureFlaw, placeFlaw } from "./inspect_geojson.mjs";
import { Partitions } from "./inspect_partitions.mjs";
import { schemaCheck, splitAtList } from "./inspect_schema.mjs";
import { lines, ListInJson } from "./inspect_split.mjs";
import { stacBreaks, stacFlaw } from "./inspect_stac.mjs";
import { LIMITS } from "./inspect_text.mjs";

/** Any of the four formats. The document's schema is split, so that a list of any length is never held. */
export function inspectJson(openBody, contract, out, accept, limits = LIMITS) {
  let outer = true;
  let each = contract.json_schema;
  let size = [0, null];
  if (contract.format === "json") [outer, each, size] = splitAtList(contract.json_schema, contract.root);
  const places = contract.format === "geojson" || contract.format === "stac";
  const root = places ? "features" : contract.root;
  const alone = contract.format === "stac";
  const inspector = new Inspector(contract, each, out);
  const body = openBody();
  try {
    const found = contract.format === "ndjson" ? null : new ListInJson(body, root, { alone, limits });
    const accepted = new Accepted(openBody, root, found, accept, limits);
    try {
      for (const raw of found === null ? lines(body, limits) : found.records()) {
        const kept = inspector.take(raw);
        if (out.held || (kept === raw && !accepted.begun)) continue;
        if (!accepted.begun) accepted.begin(out.rows - 1);
        if (kept !== null) accepted.add(kept);
      }
    } catch (problem) {
      if (!(problem instanceof Unreadable)) throw problem;
      const row = found !== null && !found.head.length ? 0 : out.rows + 1; // 0: before any record
      out.add(SOURCE, problem.rule, problem.message, row);
      return;
    }
    out.changed = accepted.begun;
    if (found === null) accepted.end(Buffer.alloc(0));
    else if (found.alone !== null) takeAlone(found.alone, inspector, contract, out, accept);
    else {
      around(found, outer, size, contract, out);
      accepted.end(found.tail);
    }
  } finally {
    body.close();
  }
  if (contract.partition_by && out.rows > out.heldRows && !inspector.partitioned) {
    const message = "no record has the member to partition by; the source is held";
    out.add(SOURCE, "column.missing", message, 0, contract.partition_by);
  }
}

/** A document that is one record: it passes whole or not at all. */
function takeAlone(body, inspector, contract, out, accept) {
  inspector.each = schemaCheck(contract.json_schema);
  inspector.alone = true;
  const kept = inspector.take(body);
  if (kept === null && !out.held) {
    out.add(SOURCE, "json.record", "the document is one record, and that is held; the source is held");
  }
  if (kept !== null && kept !== body && !out.held) {
    out.changed = true;
    accept(kept);
  }
}

/** What stands around the list: read with the list emptied. */
function around(found, outer, size, contract, out) {
  let document;
  try {
    document = decode(Buffer.concat([found.head, found.tail]), "what surrounds the records", { maps: true });
  } catch (problem) {
    if (!(problem instanceof BadInput)) throw problem;
    out.add(SOURCE, "json.malformed", `${problem.message}; the source is held`);
    return;
  }
  const flaw = contract.format === "geojson" || contract.format === "stac" ? collectionFlaw(document) : null;
  if (flaw !== null) out.add(SOURCE, flaw[0], `${flaw[1]}; the source is held`);
  const at = contract.root ? `/${contract.root}` : "";
  const broken = schemaCheck(outer)(document);
  if (out.rows < size[0]) broken.push([at, "minItems"]);
  if (size[1] !== null && out.rows > size[1]) broken.push([at, "maxItems"]);
  for (const [pointer, keyword] of broken) {
    out.add(SOURCE, `schema.${keyword}`, `${breaks(keyword)}; the source is held`, 0, pointer);
  }
}

const breaks = (keyword) => `it breaks \`${keyword}\` of the JSON schema`;

/** Writes what passed, from the moment that differs from what came. */
class Accepted {
  #openBody;
  #root;
  #found;
  #accept;
  #limits;
  #between = false;
  #parts = [];
  #waiting = 0;

  constructor(openBody, root, found, accept, limits) {
    this.begun = false;
    this.#openBody = openBody;
    this.#root = root;
    this.#found = found;
    this.#accept = accept;
    this.#limits = limits;
  }

  /** Start with the first `passed` records, read once more: none of them was changed. */
  begin(passed) {
    this.begun = true;
    if (this.#found !== null) this.#put(this.#found.head);
    if (!passed) return;
    const body = this.#openBody();
    try {
      let left = passed;
      for (const raw of this.#again(body)) {
        this.add(raw);
        left -= 1;
        if (!left) return;
      }
    } finally {
      body.close();
    }
  }

  #again(body) {
    const limits = this.#limits;
    return this.#found === null ? lines(body, limits) : new ListInJson(body, this.#root, { limits }).records();
  }

  add(raw) {
    if (this.#found === null) this.#put(raw, FEED);
    else if (this.#between) this.#put(COMMA, raw);
    else this.#put(raw);
    this.#between = true;
  }

  end(tail) {
    if (!this.begun) return;
    this.#put(tail);
    this.#flush();
  }

  #put(...parts) {
    for (const part of parts) {
      this.#parts.push(part);
      this.#waiting += part.length;
    }
    if (this.#waiting >= BUFFER) this.#flush();
  }

  #flush() {
    if (this.#waiting) {
      this.#accept(Buffer.concat(this.#parts));
      this.#parts = [];
      this.#waiting = 0;
    }
  }
}

const UNCHECKED = "what this extension asks for is checked only where a json_schema says it; noted only";
const FEED = Buffer.from("\n");
const COMMA = Buffer.from(",\n");

class Inspector {
  #geo;
  #stac;
  #extensions = new Set(); // STAC extensions that were reported
  #out;
  #checks;
  #names;
  #other;
  #shaped;
  #shapeMode;
  #partition;
  #partitions;

  constructor(contract, schema, out) {
    this.each = schemaCheck(schema);
    this.alone = false; // the record is the document
    this.partitioned = false; // some record that passed had the member to partition by
    this.#geo = contract.format === "geojson";
    this.#stac = contract.format === "stac";
    this.#out = out;
    this.#checks = contract.columns.map((column) => new ColumnCheck(column));
    this.#names = new Set(contract.columns.map((column) => column.name));
    this.#other = contract.other_columns;
    this.#shaped = contract.columns.length > 0 || contract.partition_by !== ""; // records must be objects
    const frozen = [contract.other_columns, ...contract.columns.map((column) => column.mode)].includes("freeze");
    this.#shapeMode = frozen ? "freeze" : "discard-row";
    this.#partition = contract.partition_by;
    this.#partitions = new Partitions(contract, out);
  }

  /** The record as it passes: the same bytes, others, or null if it is held. */
  take(raw) {
    const out = this.#out;
    out.rows += 1;
    let record;
    try {
      record = decode(raw, "the record", { maps: true });
    } catch (problem) {
      if (!(problem instanceof BadInput)) throw problem;
      out.judge(out.rows, [["", "json.malformed", "freeze", problem.message]], () => ({}));
      return null;
    }
    const members = this.#members(record);
    if (members === null) return null;
    const broken = [];
    for (const check of this.#checks) {
      const rule = check.brokenJsonRule(members.get(check.name));
      if (rule) broken.push([check, rule]);
    }
    const violations = [...this.#aboutRecord(record), ...broken.map(([check, rule]) => check.violation(rule))];
    if (violations.length && out.judge(out.rows, violations, () => dataOf(record))) return null;
    if (this.#stac) this.#noteExtensions(record.get("stac_extensions") ?? []);
    let changed = blank(members, broken);
    changed = this.#others(members) || changed;
    for (const check of this.#checks) if (check.unique) check.saw(textOf(members.get(check.name)));
    if (this.#partition) {
      this.partitioned ||= members.has(this.#partition);
      this.#partitions.add(textOf(members.get(this.#partition)));
    }
    return changed ? canonical(record) : raw;
  }

  /** What the columns are looked up in; null if the record has nothing of the kind, and is held. */
  #members(record) {
    let flaw;
    if (this.#geo) {
      flaw = featureFlaw(record);
      if (flaw === null) return record.get("properties") ?? new Map();
    } else if (this.#stac) {
      flaw = stacFlaw(record, { alone: this.alone });
      if (flaw === null) return record.get("type") === "Feature" ? (record.get("properties") ?? new Map()) : record;
    } else if (record instanceof Map || !this.#shaped) return record instanceof Map ? record : new Map();
    else flaw = ["json.record", "the record is not an object"];
    this.#out.judge(this.#out.rows, [["", flaw[0], this.#shapeMode, flaw[1]]], () => dataOf(record));
    return null;
  }

  *#aboutRecord(record) {
    const flaw = this.#geo ? placeFlaw(record) : null;
    if (flaw !== null) yield ["", flaw[0], "discard-row", flaw[1]];
    if (this.#stac) {
      for (const [pointer, rule, message] of stacBreaks(record)) yield [pointer, rule, "discard-row", message];
    }
    for (const [pointer, keyword] of this.each(record)) {
      yield [pointer, `schema.${keyword}`, "discard-row", breaks(keyword)];
    }
  }

  /** Reports each once, where it first occurs, for the first thousand. The name is a value of the source. */
  #noteExtensions(names) {
    for (const [position, name] of names.entries()) {
      if (this.#extensions.has(name) || this.#extensions.size === MAX_NAMES) continue;
      this.#extensions.add(name);
      this.#out.add(NOTE, "stac.extension", UNCHECKED, this.#out.rows, `/stac_extensions/${position}`);
    }
  }

  /** Members that the contract does not name. They are named only next to one that it names. */
  #others(members) {
    if (!this.#names.size) return false;
    const all = [...members.keys()];
    const unknown = all.filter((name) => !this.#names.has(name));
    if (!unknown.length) return false;
    const sure = unknown.length < all.length;
    for (const [at, name] of all.entries()) {
      if (this.#names.has(name)) continue;
      this.#out.otherColumn(name, sure ? name : `#${at + 1}`, this.#other, this.#out.rows);
      if (this.#other === "discard-value") members.delete(name);
    }
    return this.#other === "discard-value";
  }
}

function blank(members, broken) {
  const blanked = broken.filter(([check]) => check.mode === "discard-value");
  for (const [check] of blanked) members.set(check.name, null);
  return blanked.length > 0;
}

const dataOf = (record) => record instanceof Map ? record : { "#": record };
