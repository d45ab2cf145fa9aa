/**
 * The records: plain objects with the fields of src/kfm/model/records.py, in their order, defaults filled in.
 * `SourceRef({...})` makes one; `convert(SourceRef, value)` reads one strictly from plain values; `replace(record,
 * changes)` makes a changed copy. A record is never changed in place.
 */

export * from "./generated/records.mjs";
export { convert, Mismatch, replace } from "./types.mjs";
