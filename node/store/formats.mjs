/** The formats of a state, and what makes one of ours out of an older one. Twin of src/kfm/store/formats.py. */

import { Refused } from "../errors.mjs";

export const FORMAT = 4;

/** By the number of the format that it leads to. */
const STEPS = new Map();

/** In the transaction that makes it a state of this format: all of it, or nothing. */
export function upgrade(tables, have) {
  for (const [number, step] of STEPS) if (have < number) step(tables);
}

export function tooNew(what, found) {
  return new Refused(`${what} has format ${found}, this kfm knows up to ${FORMAT}`, {
    hint: "use the newer kfm that wrote it",
    code_hint: "version.too_new",
  });
}
