/** What a value is to a step. Twin of src/kfm/updaters/transforms/step_values.py. */

import { canonicalText, ecmascriptNumber } from "../../canonical.mjs";
import { MAX_INTEGER } from "../../canonical_form.mjs";
import { compare, strip } from "../../characters.mjs";

export const MAX_NUMBER = 400; // characters
export const UNFIT = Symbol("unfit"); // what a cast answers for a value that does not fit

const INTEGER = /^[+-]?[0-9]+$/;
const NUMBER = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const BLANK = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/;
const TRUTHS = new Map([
  ["true", true], ["yes", true], ["t", true], ["y", true], ["1", true],
  ["false", false], ["no", false], ["f", false], ["n", false], ["0", false],
]);

export function isBlank(value) {
  return value === null || value === undefined || (typeof value === "string" && BLANK.test(value));
}

export function textOf(value) {
  if (typeof value === "string") return value;
  return value === null || value === undefined ? "" : canonicalText(value);
}

/**
 * A finite decimal, space around it apart. An integer past 2^53 is one only in the canonical form of its double, as
 * in JSON here: other digits would be rounded. Null if it is none.
 */
export function numberIn(text) {
  text = strip(text);
  if (text.length > MAX_NUMBER || !NUMBER.test(text)) return null;
  const number = Number(text);
  if (INTEGER.test(text)) return whole(text) ?? (String(number) === text ? number : null);
  return Number.isFinite(number) ? number : null;
}

export function integerIn(text) {
  text = strip(text);
  return text.length > MAX_NUMBER || !INTEGER.test(text) ? null : whole(text);
}

function whole(text) {
  const number = Number(text);
  if (Math.abs(number) < MAX_INTEGER) return number === 0 ? 0 : number;
  // Of the integers that a double rounds to 2^53, only 2^53 itself may pass.
  const exact = BigInt(text.replace(/^\+/, ""));
  return exact === BigInt(MAX_INTEGER) || exact === -BigInt(MAX_INTEGER) ? number : null;
}

export const truthIn = (text) => TRUTHS.get(strip(text).toLowerCase()) ?? null;

export function numberOf(value) {
  if (typeof value === "number") return value;
  return typeof value === "string" ? numberIn(value) : null;
}

export function integerOf(value) {
  if (typeof value === "number") return Number.isInteger(value) && Math.abs(value) <= MAX_INTEGER ? value : null;
  return typeof value === "string" ? integerIn(value) : null;
}

export function truthOf(value) {
  if (typeof value === "boolean") return value;
  return typeof value === "string" ? truthIn(value) : null;
}

const READERS = { integer: integerOf, number: numberOf, boolean: truthOf, text: textOf };

export function cast(kind, value) {
  if (isBlank(value)) return kind === "text" ? value : null;
  const found = READERS[kind](value);
  return found === null ? UNFIT : found;
}

export function castText(kind, text) {
  if (kind === "text") return text;
  if (BLANK.test(text)) return "";
  if (kind === "boolean") {
    const truth = truthIn(text);
    return truth === null ? UNFIT : truth ? "true" : "false";
  }
  const number = kind === "integer" ? integerIn(text) : numberIn(text);
  return number === null ? UNFIT : ecmascriptNumber(number);
}

/** Where a value of JSON stands in an order: numbers, texts, truths, then lists and objects; null: blank. */
export function place(value) {
  switch (typeof value) {
    case "string":
      return BLANK.test(value) ? null : [1, value];
    case "number":
      return [0, value];
    case "boolean":
      return [2, value ? 1 : 0];
  }
  return value === null || value === undefined ? null : [3, canonicalText(value)];
}

/** -1, 0 or 1 for two such places that are not blank. */
export function comparePlaces(a, b) {
  if (a[0] !== b[0]) return a[0] < b[0] ? -1 : 1;
  if (a[0] === 1 || a[0] === 3) return compare(a[1], b[1]);
  return a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0;
}

export const identity = (value) => isBlank(value) ? null : value;
