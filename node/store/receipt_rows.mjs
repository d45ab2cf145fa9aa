/** Twin of store/retention/receipt_rows.py: `kfm gc` keeps the receipts of unchanged runs in a short form. */

import { inflateRawSync } from "node:zlib";

import { Corrupt } from "../errors.mjs";

const MARK = Buffer.from("short ");

/** A row as it was written. Throws Corrupt if the row that it is like is missing. */
export function wholeRow(tables, table, row) {
  if (row === null || !row.subarray(0, MARK.length).equals(MARK)) return row;
  const end = row.indexOf(0x20, MARK.length);
  const like = end < 0 ? null : tables.get(table, row.subarray(MARK.length, end).toString("latin1"));
  try {
    if (like !== null && !like.subarray(0, MARK.length).equals(MARK)) {
      return inflateRawSync(row.subarray(end + 1), { dictionary: like });
    }
  } catch (problem) {
    if (problem.code === undefined) throw problem;
  }
  const what = table === "receipts" ? "receipt" : "telemetry";
  throw new Corrupt(`the ${what} of a run that changed nothing cannot be read`, {
    hint: "restore the state from a copy",
  });
}
