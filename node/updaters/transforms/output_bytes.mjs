/**
 * Rows as the bytes of an output. Equal rows are equal bytes: JSON is canonical, CSV as in tables.mjs.
 * Twin of src/kfm/updaters/transforms/output_bytes.py.
 */

import { canonicalText } from "../../canonical.mjs";
import { lineOf } from "../../csv_format.mjs";
import { noFeature } from "./transform_errors.mjs";
import { textOf } from "./step_values.mjs";

export const MEDIA_TYPES = {
  csv: "text/csv; charset=utf-8",
  json: "application/json",
  ndjson: "application/x-ndjson",
  geojson: "application/geo+json",
};
// What stands before, between and after the records.
const AROUND = {
  json: ["[", ",", "]"],
  ndjson: ["", "\n", "\n"],
  geojson: ['{"features":[', ",", '],"type":"FeatureCollection"}'],
};
const CHUNK = 1 << 16;

export function* asCsv(names, stream, fields) {
  yield `${lineOf(names)}\n`;
  for (const [, row] of stream) yield `${lineOf(fields(row))}\n`;
}

export const tableFields = (row) => row;
export const recordFields = (names) => (row) => names.map((name) => textOf(row.get(name)));

export function* tableAsJson(names, types, stream) {
  const order = names.map((_, i) => i).sort((a, b) => (names[a] < names[b] ? -1 : 1)); // by UTF-16 unit
  const heads = order.map((i, n) => `${n ? "," : "{"}${JSON.stringify(names[i])}:`);
  for (const [, row] of stream) {
    let out = "";
    order.forEach((i, n) => (out += heads[n] + (types[i] === "text" ? JSON.stringify(row[i]) : row[i] || "null")));
    yield `${out}}`;
  }
}

export function* recordsAsJson(stream) {
  for (const [, row] of stream) yield canonicalText(row);
}

export function* recordsAsFeatures(stream, properties, output, source) {
  for (const [number, row] of stream) yield canonicalText(featureOf(row, number, properties, output, source));
}

function featureOf(row, number, properties, output, source) {
  const feature = { type: "Feature", properties: new Map() };
  for (const [column, value] of row) {
    if (!properties.own.includes(column)) feature.properties.set(properties.property(column), value);
    else if (value !== null || column === "geometry") feature[column] = value;
  }
  const flaw = flawOf(feature);
  if (flaw) throw noFeature(output, source, number, flaw);
  return feature;
}

function flawOf(feature) {
  if (!("geometry" in feature)) return "it has no geometry, not even null";
  if (feature.geometry !== null && !(feature.geometry instanceof Map)) return "its geometry is not an object";
  if ("id" in feature && !["string", "number"].includes(typeof feature.id)) return "its id is neither text nor a number";
  return "";
}

/** Records with what stands around them. */
export function* around(records, format) {
  const [before, between, end] = AROUND[format];
  yield before;
  let lead = "";
  let any = false;
  for (const record of records) {
    yield lead + record;
    lead = between;
    any = true;
  }
  if (any || format !== "ndjson") yield end;
}

/** Texts as pieces of bytes. */
export function* gathered(parts) {
  let held = "";
  for (const part of parts) {
    held += part;
    if (held.length >= CHUNK) {
      yield Buffer.from(held, "utf8");
      held = "";
    }
  }
  if (held) yield Buffer.from(held, "utf8");
}

export function whole(chunks, limit) {
  const held = [];
  let size = 0;
  for (;;) {
    const { done, value } = chunks.next();
    if (done) return Buffer.concat(held);
    held.push(value);
    size += value.length;
    if (size > limit) return chained(held, chunks);
  }
}

function* chained(first, rest) {
  yield* first;
  yield* rest;
}
