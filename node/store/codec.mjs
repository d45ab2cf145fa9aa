/** Stored bytes as the record they are, or Corrupt. */

import { Corrupt } from "../errors.mjs";
import { convert, Mismatch } from "../types.mjs";

/** `kind` is a kind of record, or a type of types.mjs. */
export function decodeRecord(body, kind, where) {
  try {
    return convert(kind, JSON.parse(body.toString("utf8")));
  } catch (problem) {
    if (!(problem instanceof Mismatch || problem instanceof SyntaxError)) throw problem;
    const what = problem instanceof Mismatch ? "a field is not of its type" : "it is not JSON";
    const hint = "restore the state from a copy";
    throw new Corrupt(`record ${where} cannot be read: ${what}`, { hint, cause: problem });
  }
}
