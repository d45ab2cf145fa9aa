/** What a text without quotes stands for (YAML 1.2, core schema). Twin of src/kfm/parsing/yaml_scalars.py. */

import { isInteger } from "./types.mjs";

const NUMBER = /^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const INTEGER = /^[+-]?[0-9]+$/;
const OTHER_BASE = /^0(?:x[0-9a-fA-F]+|o[0-7]+)$/;
const NO_NUMBER = /^[+-]?\.(?:inf|nan)$/i;

export function plain(text, fail) {
  if (["", "~", "null", "Null", "NULL"].includes(text)) return null;
  if (["true", "True", "TRUE"].includes(text)) return true;
  if (["false", "False", "FALSE"].includes(text)) return false;
  if (NO_NUMBER.test(text)) fail("infinity and NaN are not numbers here", "leave the key out, or quote the text");
  if (INTEGER.test(text)) {
    const digits = text.replace(/^[+-]/, "");
    if (digits.length > 1 && digits[0] === "0") {
      fail("some parsers read a number with a leading zero as octal", "drop the zero, or quote the text");
    }
    return integer(digits, text.length, text[0] === "-", fail);
  }
  if (OTHER_BASE.test(text)) return integer(text, text.length - 2, false, fail);
  if (!NUMBER.test(text)) return text;
  const number = Number(text);
  if (number - number !== 0) fail("a number is too large for a double", "use a smaller one, or quote the text");
  return number === 0 ? 0 : number;
}

function integer(digits, length, negative, fail) {
  const number = length <= 64 ? BigInt(digits) : 2n ** 53n + 1n;
  if (number > 2n ** 53n) fail("an integer is larger than 2^53", "use a smaller one, or quote the text");
  return negative && number ? -Number(number) : Number(number);
}

export function kind(value) {
  if (value === null) return "nothing";
  switch (typeof value) {
    case "boolean":
      return "true or false";
    case "number":
      return isInteger(value) ? "an integer" : "a number";
    case "string":
      return "text";
  }
  return Array.isArray(value) ? "a list" : "a mapping";
}
