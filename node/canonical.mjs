/**
 * Canonical JSON: one value, one sequence of bytes (RFC 8785), and a reader that refuses what has no such form.
 *
 * Twin of src/kfm/model/canonical.py: the same bytes, the same refusals, the same places. JavaScript has one
 * kind of number, so an integer past 2^53 can only be noticed where it is read; nothing here makes one.
 */

import { isUtf8 } from "node:buffer";

import {
  formOf, HALF_PAIR, MAX_DEPTH, MAX_INTEGER, NOT_FINITE, PAST_INTEGERS, TOO_DEEP, Unfit,
} from "./canonical_form.mjs";
import { length } from "./characters.mjs";
import { BadInput } from "./errors.mjs";
import { printable } from "./names.mjs";

const NO_NUMBER = ["is NaN or Infinity, which JSON does not have", "write null instead"];
const KEY_TWICE = ["names a key twice", "keep one of them"];

/**
 * The one form of a value: keys in UTF-16 order, no space, numbers as ECMAScript writes them.
 *
 * Objects and Maps are objects, and so are records. Negative zero is written as 0.
 */
export const canonical = (value) => Buffer.from(canonicalText(value), "utf8");

/** The same as text, for callers that go on with it. */
export function canonicalText(value) {
  try {
    return formOf(value);
  } catch (problem) {
    if (problem instanceof Unfit) throw refusal("", problem.insideOut.reverse(), [problem.message, problem.hint]);
    throw problem;
  }
}

function refusal(where, path, [what, hint]) {
  let place = "$";
  for (const part of path) {
    place += typeof part === "number" ? `[${part}]` : member(part);
    if (length(place) > 300) {
      place += "…";
      break;
    }
  }
  return new BadInput(where ? `${where}: ${place} ${what}` : `${place} ${what}`, { hint });
}

const member = (key) => /^[A-Za-z_][A-Za-z0-9_]{0,79}$/.test(key) ? `.${key}` : `[${printable(key)}]`;

/** As Number::toString writes a finite double: the shortest digits that read back, plain from 1e-6 up to 1e21. */
export const ecmascriptNumber = (value) => value === 0 ? "0" : String(value);

/**
 * Read JSON from anyone: what comes back has a canonical form, and every key was there once.
 *
 * Digits that a double cannot hold are rounded as everywhere in JSON; numbers past the largest double are refused
 * instead, and so are integers past 2^53 unless their digits are those of a double in its one form. Of several
 * problems the first that prevents reading is reported, else the first in the value.
 *
 * Objects come without a prototype, so that no key finds what was not in the text; a key that looks like an
 * integer is not in its place in them (JavaScript sorts those first). `maps`: Maps instead, in the order of the text.
 */
export function decode(body, where, { maps = false } = {}) {
  if (body.length >= 3 && body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) {
    throw new BadInput(`${where} begins with a byte order mark`, { hint: "save it as UTF-8 without one" });
  }
  if (!isUtf8(body)) {
    const start = badUtf8(body);
    let line = 1;
    for (let at = 0; at < start; at += 1) if (body[at] === 10) line += 1;
    throw new BadInput(`${where} is not UTF-8 at line ${line}, byte ${start}`, { hint: "save it as UTF-8" });
  }
  return decodeText(asBuffer(body).toString("utf8"), where, { maps });
}

const asBuffer = (body) => (Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.length));

/** The same of text that is known to come from UTF-8. */
export function decodeText(text, where, { maps = false } = {}) {
  const reading = new Reading(text, where, maps);
  return reading.document();
}

/** Where the first sequence begins that is no UTF-8; -1 if all of it is. */
export function badUtf8(body) {
  if (isUtf8(body)) return -1;
  const again = Buffer.from(asBuffer(body).toString("utf8"), "utf8"); // with U+FFFD in place of what is none
  let at = 0;
  while (body[at] === again[at]) at += 1;
  while ((again[at] & 0xc0) === 0x80) at -= 1; // the beginning of U+FFFD may look like what was there
  return at;
}

const PLAIN_TEXT = /[^"\\\x00-\x1f]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const WORDS = [
  ["null", null], ["true", true], ["false", false], ["NaN", NO_NUMBER], ["Infinity", NO_NUMBER], ["-Infinity", NO_NUMBER],
];

/** Reads one JSON text. Flaws of the value are collected, and reported once the whole text is known to be JSON. */
class Reading {
  constructor(text, where, maps) {
    this.text = text;
    this.where = where;
    this.maps = maps;
    this.at = 0;
    this.path = [];
    this.flaws = [];
  }

  document() {
    const value = this.value();
    this.space();
    if (this.at < this.text.length) this.fail(this.at, "extra data");
    if (this.flaws.length) throw refusal(this.where, ...this.flaws[0]);
    return value;
  }

  fail(index, reason) {
    const before = this.text.slice(0, index);
    const start = before.lastIndexOf("\n") + 1;
    const line = before.split("\n").length;
    const column = length(before.slice(start)) + 1;
    throw new BadInput(`${this.where} is not JSON at line ${line}, column ${column}: ${reason}`, {
      hint: "correct it there",
    });
  }

  flaw(what) {
    this.flaws.push([this.path.slice(), what]);
    return null;
  }

  space() {
    const { text } = this;
    for (;;) {
      const code = text.charCodeAt(this.at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
      this.at += 1;
    }
  }

  value() {
    this.space();
    const { text, at } = this;
    switch (text[at]) {
      case '"':
        return this.string(true);
      case "{":
        return this.object();
      case "[":
        return this.array();
      case "n":
      case "t":
      case "f":
      case "N":
      case "I":
        return this.word();
      case "-":
        if (text[at + 1] === "I") return this.word();
    }
    return this.number();
  }

  word() {
    for (const [word, meaning] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return meaning === NO_NUMBER ? this.flaw(NO_NUMBER) : meaning;
      }
    }
    return this.fail(this.at, "expecting value");
  }

  number() {
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.text);
    if (!found) this.fail(this.at, "expecting value");
    this.at = NUMBER.lastIndex;
    const number = Number(found[0]);
    if (found[1] === undefined && found[2] === undefined) {
      // From 2^53 on only what is written as we write it ourselves: other digits would be rounded.
      if (Math.abs(number) >= MAX_INTEGER && String(number) !== found[0]) return this.flaw(PAST_INTEGERS);
      return number === 0 ? 0 : number;
    }
    return number - number === 0 ? number : this.flaw(NOT_FINITE);
  }

  /** A text from its opening quote on. `strict`: half a surrogate pair in it is a flaw at this place. */
  string(strict) {
    const { text } = this;
    const start = this.at;
    this.at += 1;
    let escaped = false;
    for (;;) {
      PLAIN_TEXT.lastIndex = this.at;
      PLAIN_TEXT.test(text);
      this.at = ESCAPE.lastIndex = PLAIN_TEXT.lastIndex;
      const next = text[this.at];
      if (next === '"') break;
      if (next === undefined || (next === "\\" && this.at + 1 === text.length)) {
        this.fail(start, "unterminated string starting");
      }
      if (next !== "\\") this.fail(this.at, "invalid control character");
      if (!ESCAPE.test(text)) this.fail(this.at, `invalid \\${text[this.at + 1] === "u" ? "uxxxx " : ""}escape`);
      this.at = ESCAPE.lastIndex;
      escaped = true;
    }
    this.at += 1;
    if (!escaped) return text.slice(start + 1, this.at - 1);
    const out = JSON.parse(text.slice(start, this.at));
    return strict && !out.isWellFormed() ? this.flaw(HALF_PAIR) : out;
  }

  deeper() {
    if (this.path.length >= MAX_DEPTH) throw new BadInput(`${this.where} ${TOO_DEEP[0]}`, { hint: TOO_DEEP[1] });
    this.at += 1;
    this.space();
  }

  array() {
    this.deeper();
    const items = [];
    if (this.text[this.at] === "]") {
      this.at += 1;
      return items;
    }
    for (;;) {
      this.path.push(items.length);
      items.push(this.value());
      this.path.pop();
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "]") this.fail(this.at, "expecting ',' delimiter");
      this.at += 1;
      if (next === "]") return items;
    }
  }

  object() {
    this.deeper();
    const found = this.maps ? new Map() : Object.create(null);
    const noted = this.flaws.length;
    let twice = false;
    if (this.text[this.at] === "}") {
      this.at += 1;
      return found;
    }
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') this.fail(this.at, "expecting property name enclosed in double quotes");
      const key = this.string(false);
      if (!key.isWellFormed()) this.flaw(HALF_PAIR);
      this.space();
      if (this.text[this.at] !== ":") this.fail(this.at, "expecting ':' delimiter");
      this.at += 1;
      this.path.push(key);
      const item = this.value();
      this.path.pop();
      if (this.maps) {
        twice ||= found.has(key);
        found.set(key, item);
      } else {
        twice ||= key in found;
        found[key] = item;
      }
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "}") this.fail(this.at, "expecting ',' delimiter");
      this.at += 1;
      if (next === "}") break;
    }
    if (twice) {
      this.flaws.length = noted; // flaws inside of a refused object are not reported
      this.flaw(KEY_TWICE);
    }
    return found;
  }
}
