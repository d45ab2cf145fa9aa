/**
 * Finds the records of one list inside a JSON document without holding the document.
 *
 * Twin of src/kfm/validation/json_records.py. Only brackets and strings are looked at. Each record, and the document
 * with its list emptied, is then read strictly on its own: together they are the whole.
 */

import { decode } from "../canonical.mjs";
import { BadInput } from "../errors.mjs";
import { Unreadable } from "./inspect_findings.mjs";
import { LIMITS, readFull } from "./inspect_text.mjs";

const NOTHING = Buffer.alloc(0);
const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;
const END = -1;

const isSpace = (byte) => byte === 32 || byte === 9 || byte === 13 || byte === 10;
const endsScalar = (byte) =>
  (byte >= 9 && byte <= 13) || byte === 32 || byte === COMMA || byte === QUOTE || byte === COLON || isBracket(byte);
const isBracket = (byte) =>
  byte === OPEN_LIST || byte === CLOSE_LIST || byte === OPEN_OBJECT || byte === CLOSE_OBJECT;

/**
 * The list at the top of a document, or in the member `root` of the object at its top.
 *
 * Read `records` to its end; then `head` and `tail` are what stands before and after the records. `alone` is the
 * document itself if there is no list to look into; with a `root` that is so only if it may be.
 */
export class ListInJson {
  #body;
  #root;
  #mayBeAlone;
  #limits;
  #buffer = NOTHING;
  #at = 0;
  #ended = false;

  constructor(body, root, { alone = false, limits = LIMITS } = {}) {
    this.head = NOTHING;
    this.tail = NOTHING;
    this.alone = null;
    this.#body = body;
    this.#root = root;
    this.#mayBeAlone = alone;
    this.#limits = limits;
  }

  *records() {
    if (!this.#findList()) return;
    if (this.#peek() === CLOSE_LIST) {
      this.#finish();
      return;
    }
    for (;;) {
      const end = this.#valueEnd();
      const record = this.#buffer.subarray(this.#at, end);
      this.#at = end;
      yield record;
      const sign = this.#peek();
      if (sign === CLOSE_LIST) {
        this.#finish();
        return;
      }
      if (sign !== COMMA) throw malformed("a comma or the end of the list was expected");
      this.#at += 1;
      this.#peek();
    }
  }

  /** Stand after the opening bracket, with `head` up to and with it; false if there is no list. */
  #findList() {
    let sign = this.#peek(true);
    if (this.#buffer[0] === 0xef && this.#buffer[1] === 0xbb && this.#buffer[2] === 0xbf) {
      throw malformed("it begins with a byte order mark");
    }
    if (!this.#root) {
      if (sign === OPEN_LIST) {
        this.#open();
        return true;
      }
      this.alone = this.#everything();
      return false;
    }
    if (sign !== OPEN_OBJECT) throw this.#notThere("the document is not an object");
    this.#at += 1;
    while (this.#peek(true) === QUOTE) {
      const end = this.#valueEnd(true);
      const name = keyOf(this.#buffer.subarray(this.#at, end));
      this.#at = end;
      if (this.#peek(true) !== COLON) throw malformed("a colon was expected");
      this.#at += 1;
      sign = this.#peek(true);
      if (name === this.#root) {
        if (sign !== OPEN_LIST) break;
        this.#open();
        return true;
      }
      this.#at = this.#valueEnd(true);
      if (this.#peek(true) !== COMMA) break;
      this.#at += 1;
    }
    if (this.#peek(true) === END) throw malformed("it ends inside an object");
    if (this.#mayBeAlone) {
      this.alone = this.#everything();
      return false;
    }
    throw this.#notThere("the list of records is not where the contract says");
  }

  /** Why there is no list to look into: first of all, this may be no JSON at all. */
  #notThere(what) {
    try {
      decode(this.#everything(), "the document");
    } catch (problem) {
      if (problem instanceof BadInput) return new Unreadable("json.malformed", `${problem.message}; the source is held`);
      if (!(problem instanceof Unreadable)) throw problem; // else it is too long to be looked at whole
    }
    return new Unreadable("json.root", `${what}; the source is held`);
  }

  #open() {
    this.#at += 1;
    this.head = this.#buffer.subarray(0, this.#at);
  }

  #finish() {
    this.#buffer = this.#buffer.subarray(this.#at);
    this.#at = 0;
    this.tail = this.#everything();
  }

  #everything() {
    while (this.#more(true, true));
    return this.#buffer;
  }

  /** The next byte that is not space, or END. */
  #peek(keep = false) {
    for (;;) {
      const buffer = this.#buffer;
      while (this.#at < buffer.length && isSpace(buffer[this.#at])) this.#at += 1;
      if (this.#at < buffer.length) return buffer[this.#at];
      if (!this.#more(keep)) return END;
    }
  }

  /** Where the value that begins here ends; its bytes are in the buffer from `#at` on. */
  #valueEnd(keep = false) {
    let depth = 0;
    let done = 0; // from `#at`, what was looked at
    for (;;) {
      const sign = this.#at < this.#buffer.length ? this.#buffer[this.#at] : END;
      const nested = sign === OPEN_LIST || sign === OPEN_OBJECT;
      const here = this.#at + done;
      let end;
      if (nested) end = toBracket(this.#buffer, here);
      else if (sign === QUOTE) end = toEndOfString(this.#buffer, here);
      else {
        end = here;
        while (end < this.#buffer.length && !endsScalar(this.#buffer[end])) end += 1;
        if (end === here) throw malformed("a value was expected");
        if (end === this.#buffer.length && this.#more(keep, true)) continue; // a number may go on
      }
      if (end < 0) {
        if (!this.#more(keep, true)) throw malformed("it ends inside a value");
        continue;
      }
      done = end - this.#at;
      if (nested) {
        const bracket = this.#buffer[end - 1];
        depth += bracket === OPEN_LIST || bracket === OPEN_OBJECT ? 1 : -1;
        if (depth) continue;
      }
      return this.#at + done;
    }
  }

  /** Read on; what lies before `#at` is let go unless it is kept for the head. */
  #more(keep = false, double = false) {
    if (this.#ended) return false;
    if (!keep && this.#at) {
      this.#buffer = this.#buffer.subarray(this.#at);
      this.#at = 0;
    }
    const { chunk, maxRecord } = this.#limits;
    const room = maxRecord + chunk - this.#buffer.length;
    if (room <= 0) throw tooLong(this.#limits);
    const more = readFull(this.#body, Math.min(room, double ? Math.max(chunk, this.#buffer.length) : chunk));
    if (more.length) this.#buffer = Buffer.concat([this.#buffer, more]);
    this.#ended = !more.length;
    return !this.#ended;
  }
}

/** After the next bracket that is in no string; -1 if it is not there yet. */
function toBracket(buffer, from) {
  for (let at = from; at < buffer.length; at += 1) {
    const byte = buffer[at];
    if (byte === QUOTE) {
      at = toEndOfString(buffer, at) - 1;
      if (at < 0) return -1;
    } else if (isBracket(byte)) return at + 1;
  }
  return -1;
}

/** After the string that begins here; -1 if its end is not there yet. */
function toEndOfString(buffer, from) {
  for (let at = from + 1; at < buffer.length; at += 1) {
    const byte = buffer[at];
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) at += 1;
  }
  return -1;
}

function keyOf(raw) {
  try {
    return decode(raw, "a key");
  } catch (problem) {
    if (problem instanceof BadInput) throw malformed("a key cannot be read");
    throw problem;
  }
}

/** The lines of NDJSON that hold something, without their endings. */
export function* lines(body, limits = LIMITS) {
  let rest = [];
  let waiting = 0;
  for (let chunk = readFull(body, limits.chunk); chunk.length; chunk = readFull(body, limits.chunk)) {
    let start = 0;
    const whole = Buffer.from(chunk); // a copy: what a stream gives may be used again
    for (let end = whole.indexOf(10); end >= 0; end = whole.indexOf(10, start)) {
      rest.push(whole.subarray(start, end));
      const line = stripped(rest);
      rest = [];
      waiting = 0;
      start = end + 1;
      if (line.length) yield line;
    }
    if (start < whole.length) {
      rest.push(whole.subarray(start));
      waiting += whole.length - start;
    }
    if (waiting > limits.maxRecord) throw tooLong(limits);
  }
  const line = stripped(rest);
  if (line.length) yield line;
}

function stripped(parts) {
  const line = parts.length === 1 ? parts[0] : Buffer.concat(parts);
  let start = 0;
  let end = line.length;
  const isEdge = (byte) => byte === 32 || byte === 9 || byte === 13;
  while (start < end && isEdge(line[start])) start += 1;
  while (end > start && isEdge(line[end - 1])) end -= 1;
  return line.subarray(start, end);
}

export function tooLong(limits = LIMITS) {
  return new Unreadable(
    "too-long",
    `a record is longer than ${limits.maxRecord >> 20} MiB, or so is what surrounds the list (a document without ` +
      "a list is one record); the source is held",
  );
}

function malformed(what) {
  return new Unreadable("json.malformed", `this is not JSON: ${what}; the source is held`);
}
