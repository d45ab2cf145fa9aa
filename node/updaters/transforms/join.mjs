/** The other source of a join, by key, in memory. Twin of src/kfm/updaters/transforms/join.py. */

import { sortedKeys } from "../../transform_config.mjs";
import { Members, rowsOf, tableRows } from "./json_rows.mjs";
import { isBlank, textOf } from "./step_values.mjs";

export const MAX_ROWS = 1_000_000;

export class Lookup {
  #found = new Map();

  constructor(read, join, contract, place) {
    const theirs = sortedKeys(join.on).map((name) => join.on[name]);
    const numbers = new Map();
    for (const [number, values] of valuesOf(read, join.source, contract, [...theirs, ...join.add], place)) {
      if (number > MAX_ROWS) throw place.tooMany(join.source, MAX_ROWS);
      const key = keyOf(values.slice(0, theirs.length));
      if (key === null) continue;
      if (numbers.has(key)) throw place.ambiguous(join.source, numbers.get(key), number);
      numbers.set(key, number);
      this.#found.set(key, values.slice(theirs.length));
    }
  }

  /** What is added to a row with these values, or null. */
  get(values) {
    const key = keyOf(values);
    return key === null ? null : (this.#found.get(key) ?? null);
  }
}

/** One text for all parts; null if one of them is blank. */
function keyOf(values) {
  if (values.some(isBlank)) return null;
  return values.length === 1 ? textOf(values[0]) : JSON.stringify(values.map(textOf));
}

function* valuesOf(read, source, contract, wanted, place) {
  if (contract.format === "csv") {
    const table = read.table(source);
    for (const column of wanted) if (!table.names.includes(column)) throw place.lookupLacks(source, column);
    const at = wanted.map((column) => table.names.indexOf(column));
    for (const [number, row] of tableRows(table)) yield [number, at.map((i) => row[i])];
    return;
  }
  const members = new Members();
  for (const [number, row] of rowsOf(read, place.output, source, contract, members)) {
    yield [number, wanted.map((column) => row.get(column) ?? null)];
  }
  for (const column of wanted) if (members.any && !members.names.has(column)) throw place.lookupLacks(source, column);
}
