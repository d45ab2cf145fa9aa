/** Names that may become keys, refs and file names. Anything else is refused, not repaired. Twin of model/names.py. */

import { combines, escaped, first, isPrintable, length } from "./characters.mjs";
import { BadInput } from "./errors.mjs";

const ID = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const NUMBER = "(?:0|[1-9]\\d*)";
const MARK = "(?:0|[1-9]\\d*|\\d*[A-Za-z-][\\dA-Za-z-]*)";
const BUILD = "[\\dA-Za-z-]+";
const SEMANTIC = new RegExp(
  `^${NUMBER}\\.${NUMBER}\\.${NUMBER}(?:-${MARK}(?:\\.${MARK})*)?(?:\\+${BUILD}(?:\\.${BUILD})*)?$`,
);
const DATASET = "kfm://dataset/";
const RESERVED = new Set(["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"]);
for (const device of ["com", "lpt"]) for (let digit = 0; digit < 10; digit += 1) RESERVED.add(`${device}${digit}`);
const NOT_IN_FILE_NAMES = /[\\:*?"<>|/]/;
// Printable as Unicode has it, yet nothing is seen: two names with and without one look the same.
const UNSEEN =
  /[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;

/** An updater or dataset id: lower case letters, digits, dot, dash, underscore; 63 at most. */
export function checkId(text, what) {
  if (!ID.test(text) || text.includes("..") || isDevice(text)) {
    throw new BadInput(`${what} ${printable(text)} is not a valid name`, {
      hint: "use lower-case letters, digits, '-', '_' and '.', at most 63 of them",
    });
  }
  return text;
}

export function isDigest(text) {
  return DIGEST.test(text);
}

export function datasetId(dataset) {
  return checkId(dataset.startsWith(DATASET) ? dataset.slice(DATASET.length) : dataset, "dataset");
}

export function datasetUri(dataset) {
  return DATASET + datasetId(dataset);
}

export function checkPath(text) {
  if (length(text) > 1000 || !text.split("/").every(isFileName)) {
    throw new BadInput(`${printable(text)} is not a safe relative path`, {
      hint: "use plain names joined by '/', none starting with a dot",
    });
  }
  return text;
}

export function isFileName(text) {
  return (
    isPrintable(text) &&
    text.length > 0 &&
    !". ".includes(text[0]) &&
    !". ".includes(text.at(-1)) &&
    !NOT_IN_FILE_NAMES.test(text) &&
    Buffer.byteLength(text, "utf8") <= 200 &&
    !isDevice(text) &&
    (/^[\x00-\x7f]*$/.test(text) || hasOneForm(text))
  );
}

export function isSemantic(text) {
  return SEMANTIC.test(text);
}

export function isIdentifier(text) {
  return /^[A-Za-z_\u{80}-\u{10ffff}][A-Za-z0-9_\u{80}-\u{10ffff}]*$/u.test(text) && isPrintable(text);
}

function isDevice(text) {
  return RESERVED.has(text.split(".", 1)[0].replace(/ +$/, "").toLowerCase());
}

function hasOneForm(text) {
  // NFKC leaves neither a second spelling of a letter nor one of a dot, slash or digit.
  return text.normalize("NFKC") === text && !combines(text) && !UNSEEN.test(text);
}

export function printable(text, limit = 80) {
  const cut = length(text) <= limit ? text : first(text, limit - 1) + "…";
  return `'${escaped(cut, "'")}'`;
}

/** The bytes of a text in which halves of surrogate pairs stand for what is no UTF-8; null if one stands for no byte. */
export function escapedBytes(text) {
  if (text.isWellFormed()) return Buffer.from(text, "utf8");
  const parts = [];
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) parts.push(Buffer.from([code - 0xdc00]));
    else if (code >= 0xd800 && code <= 0xdfff) return null;
    else parts.push(Buffer.from(character, "utf8"));
  }
  return Buffer.concat(parts);
}
