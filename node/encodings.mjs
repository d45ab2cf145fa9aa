/**
 * The encodings a text source may be in: those that every implementation reads and writes alike.
 *
 * Twin of src/kfm/parsing/encodings.py. A name is taken in any case, with `_` or a space for `-`. A byte order
 * mark before UTF-8 is tolerated, is no part of the text and is never written. UTF-16 without a mark is
 * little-endian; it is written so, and with one.
 */

import { isUtf8 } from "node:buffer";

import { badUtf8 } from "./canonical.mjs";
import { ALSO, KNOWN, UPPER } from "./generated/encodings.mjs";

/** The name in `KNOWN` that a name means, or empty. */
export function encodingOf(name) {
  if (!/^[\x00-\x7f]*$/.test(name)) return "";
  const plain = name.toLowerCase().replace(/[_ ]/g, "-");
  if (KNOWN.includes(plain)) return plain;
  return Object.hasOwn(ALSO, plain) ? ALSO[plain] : "";
}

/** One character that is the same one in UTF-16. */
export function isDelimiter(text) {
  return text.length === 1 && !'"\r\n\0'.includes(text) && (text < "\ud800" || text > "\udfff");
}

/** Thrown for bytes that mean nothing. `good` is the text before them, since the last piece that was given. */
export class Undecodable extends Error {
  constructor(good) {
    super("a byte cannot be read in the declared encoding");
    this.good = good;
  }
}

/**
 * Reads a text that begins with these bytes (three, if there are as many) piece by piece. `mark` is how long the
 * byte order mark before it is: that much is to be left out.
 */
export function opened(name, start) {
  const known = encodingOf(name);
  if (known === "utf-8" || known === "utf-8-sig") {
    const marked = start[0] === 0xef && start[1] === 0xbb && start[2] === 0xbf;
    return { decoder: new Utf8Decoder(), mark: marked ? 3 : 0 };
  }
  if (known === "utf-16") {
    const big = start[0] === 0xfe && start[1] === 0xff;
    const marked = big || (start[0] === 0xff && start[1] === 0xfe);
    return { decoder: new Utf16Decoder(big), mark: marked ? 2 : 0 };
  }
  if (known.startsWith("utf-16")) return { decoder: new Utf16Decoder(known === "utf-16-be"), mark: 0 };
  return { decoder: new ByteDecoder(known), mark: 0 };
}

class Utf8Decoder {
  #rest = Buffer.alloc(0);

  decode(chunk, final) {
    const body = this.#rest.length ? Buffer.concat([this.#rest, chunk]) : chunk;
    const whole = final ? body.length : body.length - unfinished(body);
    if (!isUtf8(body.subarray(0, whole))) throw new Undecodable(body.toString("utf8", 0, badUtf8(body)));
    this.#rest = Buffer.from(body.subarray(whole)); // a copy: the piece may be used again
    return body.toString("utf8", 0, whole);
  }
}

/** How many bytes at the end are the beginning of a character. */
function unfinished(body) {
  for (let back = 1; back <= 3 && back <= body.length; back += 1) {
    const byte = body[body.length - back];
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) {
      const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      if (needs <= back) return 0;
      // Not a beginning of anything if the bytes so far can already not go on.
      const tail = [...body.subarray(body.length - back)];
      const tries = back === 1 ? [0x80, 0x90, 0xa0, 0x8f] : [0x80];
      return tries.some((next) => isUtf8(Buffer.from([...tail, next, 0x80, 0x80].slice(0, needs)))) ? back : 0;
    }
  }
  return 0;
}

class Utf16Decoder {
  #big;
  #rest = Buffer.alloc(0);

  constructor(big) {
    this.#big = big;
  }

  decode(chunk, final) {
    let body = this.#rest.length ? Buffer.concat([this.#rest, chunk]) : chunk;
    let whole = body.length - (body.length % 2);
    const cut = whole < body.length;
    if (this.#big) {
      body = Buffer.from(body);
      body.subarray(0, whole).swap16();
    }
    let text = body.toString("utf16le", 0, whole);
    const last = text.charCodeAt(text.length - 1);
    if (!final && last >= 0xd800 && last <= 0xdbff) {
      whole -= 2;
      text = text.slice(0, -1);
    }
    const bad = loneSurrogate(text);
    if (bad >= 0 || (final && cut)) throw new Undecodable(bad >= 0 ? text.slice(0, bad) : text);
    const rest = Buffer.from(body.subarray(whole));
    if (this.#big && rest.length >= 2) rest.subarray(0, 2).swap16();
    this.#rest = rest;
    return text;
  }
}

function loneSurrogate(text) {
  return text.isWellFormed() ? -1 : text.search(/\p{Surrogate}/u);
}

class ByteDecoder {
  #known;

  constructor(known) {
    this.#known = known;
  }

  decode(chunk) {
    const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString("latin1");
    if (this.#known === "latin-1") return text;
    if (this.#known === "ascii") {
      const bad = text.search(/[\x80-\xff]/);
      if (bad >= 0) throw new Undecodable(text.slice(0, bad));
      return text;
    }
    const upper = UPPER[this.#known];
    const read = text.replace(/[\x80-\xff]/g, (byte) => upper[byte.charCodeAt(0) - 0x80]);
    const bad = read.indexOf("\ufffd");
    if (bad >= 0) throw new Undecodable(read.slice(0, bad));
    return read;
  }
}

/** The mark to write first. */
export function markOf(name) {
  return encodingOf(name) === "utf-16" ? Buffer.from([0xff, 0xfe]) : Buffer.alloc(0);
}

/** A text in an encoding, without a mark; null if some of it has no place there. */
export function encode(name, text) {
  const known = encodingOf(name);
  if (known.startsWith("utf-8")) return text.isWellFormed() ? Buffer.from(text, "utf8") : null;
  if (known.startsWith("utf-16")) {
    if (!text.isWellFormed()) return null;
    const body = Buffer.from(text, "utf16le");
    return known === "utf-16-be" ? body.swap16() : body;
  }
  if (known === "latin-1" || known === "ascii") {
    const fits = known === "ascii" ? /^[\x00-\x7f]*$/ : /^[\x00-\xff]*$/;
    return fits.test(text) ? Buffer.from(text, "latin1") : null;
  }
  const lower = lowered(known);
  let missing = false;
  const bytes = text.replace(/[^\x00-\x7f]/g, (character) => {
    const byte = lower.get(character);
    missing ||= byte === undefined;
    return byte ?? "";
  });
  return missing ? null : Buffer.from(bytes, "latin1");
}

const lowers = new Map();

function lowered(known) {
  if (!lowers.has(known)) {
    const pairs = [...UPPER[known]].map((character, at) => [character, String.fromCharCode(0x80 + at)]);
    lowers.set(known, new Map(pairs.filter(([character]) => character !== "\ufffd")));
  }
  return lowers.get(known);
}
