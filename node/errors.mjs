/** Every error a caller can meet, sorted by what the caller does next: the tree in src/kfm/errors.py. */

export * from "./generated/errors.mjs";
export { placeOf } from "./error_base.mjs";
