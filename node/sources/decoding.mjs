/**
 * Content codings undone in a stream, with a leash: one layer, and never much more out than in.
 *
 * Twin of src/kfm/sources/decoding.py. Only the bare deflate stream is left to zlib: what wraps it is read here,
 * because what Node makes of several members, or of bytes after the last, is not what we promise.
 */

import zlib from "node:zlib";

import { Refused, Unavailable } from "../errors.mjs";

const PIECE = 1 << 20; // most bytes one step may give
const FEED = 1 << 16; // most bytes one step is fed
const FREE = 1 << 20; // a small body may be as dense as it likes

/** The one coding a Content-Encoding header names: identity, gzip or deflate. */
export function codingOf(header, shown) {
  const names = header.split(",").map((part) => strip(part).toLowerCase());
  const given = names.filter((name) => name !== "" && name !== "identity");
  if (!given.length) return "identity";
  if (given.length > 1) {
    throw new Refused(`${shown} is encoded ${given.length} times over`, {
      hint: "serve it with one content encoding or none",
    });
  }
  const coding = given[0].startsWith("x-") ? given[0].slice(2) : given[0];
  if (coding !== "gzip" && coding !== "deflate") {
    throw new Refused(`${shown} came in a content encoding that was not asked for`, {
      hint: "serve it as gzip or without encoding",
    });
  }
  return coding;
}

// Of a header, so of Latin-1: what Python calls white space there.
const strip = (text) => text.replace(/^[\t-\r\x1c-\x20\x85\xa0]+|[\t-\r\x1c-\x20\x85\xa0]+$/g, "");

/** What zlib, or a checksum, finds wrong. */
class Malformed extends Error {}

/** The bytes behind a gzip or deflate coding. A stream that stops before its end mark is Unavailable. */
export async function* decoded(chunks, coding, maxRatio, shown) {
  let taken = 0;
  let given = 0;
  let member = null; // null: between two members
  let begun = false;
  let carry = Buffer.alloc(0); // a first byte whose second has not come yet

  const leashed = (out) => {
    given += out.length;
    if (given > FREE && given > maxRatio * taken) {
      throw new Refused(`${shown} unpacks to more than ${maxRatio} times its size`, {
        hint: "raise max_ratio of this source if it is really that dense",
      });
    }
    return out;
  };

  try {
    for await (const piece of fed(chunks)) {
      taken += piece.length;
      let data = carry.length ? Buffer.concat([carry, piece]) : piece;
      carry = Buffer.alloc(0);
      while (data.length) {
        if (member === null) {
          if (data.length < 2) {
            carry = Buffer.from(data);
            break;
          }
          if (begun && (coding !== "gzip" || data[0] !== 0x1f || data[1] !== 0x8b)) throw trailing(shown);
          member = new Member(wrapping(coding, data));
          begun = true;
        }
        // The last output of a piece is kept back until what follows it in the piece is known to be right.
        let kept = null;
        for await (const out of member.feed(data)) {
          if (kept !== null) yield leashed(kept);
          kept = out;
        }
        if (kept !== null) yield leashed(kept);
        data = member.rest;
        if (member.isDone) member = null;
      }
    }
    if (member !== null && (await member.endsHere())) member = null;
  } catch (problem) {
    if (!(problem instanceof Malformed)) throw problem;
    throw new Refused(`${shown} is not the ${coding} it says it is`, { hint: "ask whoever serves it" });
  } finally {
    member?.close();
  }
  if (carry.length && begun) throw trailing(shown);
  if (member !== null || !begun) {
    throw new Unavailable(`${shown} ended in the middle of its ${coding} stream`, { hint: "try again later" });
  }
}

async function* fed(chunks) {
  for await (const chunk of chunks) {
    for (let start = 0; start < chunk.length; start += FEED) yield chunk.subarray(start, start + FEED);
  }
}

function wrapping(coding, data) {
  if (coding === "gzip") return new Gzip();
  // "deflate" means the zlib wrapper, but some servers send the bare stream.
  return (data[0] & 0x0f) === 8 && ((data[0] << 8) | data[1]) % 31 === 0 ? new Zlib() : new Bare();
}

function trailing(shown) {
  return new Refused(`${shown} has bytes after the end of its compressed stream`, { hint: "ask whoever serves it" });
}

/** One compressed stream with its wrapping: what comes before it, and what after. */
class Member {
  #wrapping;
  #inflate = new Inflate();
  #tail = Buffer.alloc(0);

  constructor(wrapped) {
    this.#wrapping = wrapped;
    this.rest = Buffer.alloc(0); // of what was fed, what lies behind the end
    this.isDone = false;
  }

  async *feed(data) {
    let left = this.#wrapping.header(data);
    this.rest = Buffer.alloc(0);
    if (left.length && !this.#inflate.isDone) {
      for await (const out of this.#inflate.feed(left)) {
        this.#wrapping.update(out);
        yield out;
      }
      left = this.#inflate.rest;
    }
    if (!this.#inflate.isDone) return;
    const wanted = this.#wrapping.trailerSize - this.#tail.length;
    this.#tail = Buffer.concat([this.#tail, left.subarray(0, wanted)]);
    this.rest = left.subarray(wanted);
    this.#wrapping.check(this.#tail); // as soon as a sum is there, not only when all is
    if (this.#tail.length < this.#wrapping.trailerSize) return;
    this.close();
    this.isDone = true;
  }

  /** No more will come: was it all there? Only a bare stream can have ended without anybody noticing. */
  async endsHere() {
    return this.#wrapping.trailerSize === 0 && (await this.#inflate.endsHere());
  }

  close() {
    this.#inflate.close();
  }
}

/** A bare deflate stream. It notices its end when it is fed something behind it. */
class Inflate {
  #stream = zlib.createInflateRaw({ chunkSize: PIECE });
  #failure = null;
  #ended = false;
  #wake = () => {};

  constructor() {
    this.rest = Buffer.alloc(0);
    this.isDone = false;
    this.#stream.on("readable", () => this.#wake());
    this.#stream.on("end", () => {
      this.#ended = true;
      this.#wake();
    });
    this.#stream.on("error", (problem) => {
      this.#failure = problem;
      this.#wake();
    });
  }

  async *feed(data) {
    const before = this.#stream.bytesWritten;
    let written = false;
    this.#stream.write(data, () => {
      written = true;
      this.#wake();
    });
    for (;;) {
      const out = this.#stream.read();
      if (out !== null) {
        yield out;
        continue;
      }
      if (this.#failure !== null) throw new Malformed(this.#failure.code);
      if (written) break;
      await new Promise((resolve) => (this.#wake = resolve));
    }
    this.rest = data.subarray(this.#stream.bytesWritten - before); // what it did not want lies behind its end
    this.isDone = this.rest.length > 0;
  }

  async endsHere() {
    if (this.isDone) return true;
    this.#stream.end();
    while (!this.#ended && this.#failure === null) {
      this.#stream.read();
      if (this.#ended || this.#failure !== null) break;
      await new Promise((resolve) => (this.#wake = resolve));
    }
    return this.#failure === null;
  }

  close() {
    this.#stream.destroy();
  }
}

class Bare {
  trailerSize = 0;

  header(data) {
    return data;
  }

  update() {}

  check() {}
}

/** RFC 1950. */
class Zlib {
  trailerSize = 4;
  #head = [];
  #low = 1;
  #high = 0;

  header(data) {
    let at = 0;
    const needs = () => (this.#head[1] & 0x20 ? 6 : 2); // with the name of a dictionary
    while (this.#head.length < needs() && at < data.length) {
      this.#head.push(data[at]);
      at += 1;
      if (this.#head.length === 2 && this.#head[0] >> 4 > 7) throw new Malformed("window");
      if (this.#head.length === 6) throw new Malformed("dictionary");
    }
    return data.subarray(at);
  }

  /** Adler-32, as far as it may go without taking the remainder. */
  update(out) {
    for (let start = 0; start < out.length; start += 5552) {
      const end = Math.min(start + 5552, out.length);
      for (let at = start; at < end; at += 1) {
        this.#low += out[at];
        this.#high += this.#low;
      }
      this.#low %= 65521;
      this.#high %= 65521;
    }
  }

  check(tail) {
    if (tail.length === 4 && tail.readUInt32BE(0) !== this.#high * 65536 + this.#low) throw new Malformed("checksum");
  }
}

/** RFC 1952. The header is gone through byte by byte: a name in it may be of any length. */
class Gzip {
  trailerSize = 8;
  #steps = this.#walk();
  #inHeader = true;
  #crc = 0;
  #size = 0;

  constructor() {
    this.#steps.next();
  }

  header(data) {
    for (let at = 0; this.#inHeader && at <= data.length; at += 1) {
      if (at === data.length) return data.subarray(at);
      if (this.#steps.next(data[at]).done) {
        this.#inHeader = false;
        return data.subarray(at + 1);
      }
    }
    return data;
  }

  *#walk() {
    const seen = [];
    let check = 0;
    const note = (byte) => {
      seen.push(byte);
      if (seen.length === 1024) check = crc32(Buffer.from(seen.splice(0)), check);
      return byte;
    };
    const head = [];
    while (head.length < 4) head.push(note(yield));
    if (head[0] !== 0x1f || head[1] !== 0x8b || head[2] !== 8 || head[3] & 0xe0) throw new Malformed("header");
    const flags = head[3];
    for (let skip = 0; skip < 6; skip += 1) note(yield); // time, and what it was made with
    if (flags & 4) {
      const length = note(yield) + note(yield) * 256;
      for (let skip = 0; skip < length; skip += 1) note(yield);
    }
    if (flags & 8) while (note(yield) !== 0);
    if (flags & 16) while (note(yield) !== 0);
    if (flags & 2) {
      const crc = crc32(Buffer.from(seen), check) & 0xffff;
      if ((yield) + (yield) * 256 !== crc) throw new Malformed("header checksum");
    }
  }

  update(out) {
    this.#crc = crc32(out, this.#crc);
    this.#size = (this.#size + out.length) % 2 ** 32;
  }

  check(tail) {
    if (tail.length >= 4 && tail.readUInt32LE(0) !== this.#crc) throw new Malformed("checksum");
    if (tail.length === 8 && tail.readUInt32LE(4) !== this.#size) throw new Malformed("length");
  }
}

let table = null;

function crc32(body, before) {
  if (zlib.crc32) return zlib.crc32(body, before); // since Node 20.15
  table ??= Uint32Array.from({ length: 256 }, (_, n) => {
    let value = n;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value;
  });
  let crc = ~before;
  for (const byte of body) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff];
  return ~crc >>> 0;
}
