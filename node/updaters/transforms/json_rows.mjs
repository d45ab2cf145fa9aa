/**
 * Sources as rows: [number, row], where the row of a table is a list of texts, and that of JSON a Map. Twin of
 * src/kfm/updaters/transforms/json_rows.py.
 */

import { FEATURE_MEMBERS, ITEM_MEMBERS } from "../../generated/settings.mjs";
import { noObject } from "./transform_errors.mjs";

export class Members {
  any = false;
  names = new Set();
}

export class Properties {
  #hidden;

  constructor(format) {
    this.own = format === "stac" ? ITEM_MEMBERS : FEATURE_MEMBERS;
    this.#hidden = new RegExp(`^(?:properties\\.)*(?:${this.own.join("|")})$`);
  }

  column(name) {
    return this.#hidden.test(name) ? `properties.${name}` : name;
  }

  property(column) {
    return this.#hidden.test(column) && column.startsWith("properties.") ? column.slice(11) : column;
  }

  row(feature) {
    const row = new Map();
    for (const [name, value] of feature.get("properties") ?? []) row.set(this.column(name), value);
    for (const name of this.own) if (feature.has(name)) row.set(name, feature.get(name));
    return row;
  }
}

export function* rowsOf(read, output, source, contract, members) {
  const geographic = contract.format === "geojson" || contract.format === "stac";
  const properties = new Properties(contract.format);
  let number = 0;
  for (const record of recordsOf(read, source, contract)) {
    number += 1;
    if (!(record instanceof Map)) throw noObject(output, source, number);
    const row = geographic && record.get("type") === "Feature" ? properties.row(record) : record;
    for (const name of row.keys()) members.names.add(name);
    members.any = true;
    yield [number, row];
  }
}

function recordsOf(read, source, contract) {
  if (contract.format === "ndjson") return read.ndjson(source);
  if (contract.format === "json") return read.records(source, contract.root);
  return read.records(source, "features", { alone: contract.format === "stac" });
}

/** The rows of a table, numbered. */
export function* tableRows(table) {
  let number = 0;
  for (const rows of table.batches) for (const row of rows) yield [(number += 1), row];
}
