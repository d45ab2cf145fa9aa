/**
 * Content codings undone in a stream, with a leash: one layer, and never much more out than in. Headers, checksums and
 * several members are zlib's affair; what it would pass over (bytes after the end, a stream that stops before it) is
 * seen here, by how much of a piece it took. Twin of src/kfm/sources/content_encoding.py.
 */

import zlib from "node:zlib";

import { Refused, Unavailable } from "../errors.mjs";

const PIECE = 1 << 20; // most bytes one step may give
const FEED = 1 << 16; // most bytes one step is fed
const FREE = 1 << 20; // a small body may be as dense as it likes

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
    throw new Refused(`${shown} came in a content encoding that KFM did not request`, {
      hint: "serve it as gzip or without encoding",
    });
  }
  return coding;
}

// Of a header, so of Latin-1: what Python calls white space there.
const strip = (text) => text.replace(/^[\t-\r\x1c-\x20\x85\xa0]+|[\t-\r\x1c-\x20\x85\xa0]+$/g, "");

export async function* decoded(chunks, coding, maxRatio, shown) {
  let taken = 0;
  let given = 0;
  let stream = null;
  let first = Buffer.alloc(0); // until there are two bytes to tell by what kind of stream it is
  const leashed = (out) => {
    given += out.length;
    if (given > FREE && given > maxRatio * taken) {
      throw new Refused(`${shown} unpacks to more than ${maxRatio} times its size`, {
        hint: "if this ratio is right, unpack it yourself and name the unpacked file as the source",
      });
    }
    return out;
  };
  const wrong = (what) => new Refused(`${shown} ${what}`, { hint: "ask the server's operator" });
  try {
    for await (const piece of fed(chunks)) {
      taken += piece.length;
      let data = piece;
      if (stream === null) {
        first = data = Buffer.concat([first, piece]);
        if (data.length < 2) continue;
        stream = new Undoing(coding, data);
      }
      for await (const out of stream.feed(data)) yield leashed(out);
      if (stream.leftOver) throw wrong("has bytes after the end of its compressed stream");
    }
    if (stream !== null) for await (const out of stream.rest()) yield leashed(out);
  } catch (problem) {
    if (problem.code === "Z_BUF_ERROR") stream = null; // it wants more, and there is none
    else if (String(problem.code).startsWith("Z_")) throw wrong(`is not valid ${coding} data`);
    else throw problem;
  } finally {
    stream?.close();
  }
  if (stream === null) {
    throw new Unavailable(`${shown} ended in the middle of its ${coding} stream`, { hint: "try again later" });
  }
}

async function* fed(chunks) {
  for await (const chunk of chunks) {
    for (let start = 0; start < chunk.length; start += FEED) yield chunk.subarray(start, start + FEED);
  }
}

/** A stream of zlib, fed piece by piece. */
class Undoing {
  #stream;
  #failure = null;
  #ended = false;
  #wake = () => {};

  constructor(coding, start) {
    // "deflate" means the zlib wrapper, but some servers send the bare stream.
    const wrapped = (start[0] & 0x0f) === 8 && ((start[0] << 8) | start[1]) % 31 === 0;
    const kind = coding === "gzip" ? "createGunzip" : wrapped ? "createInflate" : "createInflateRaw";
    this.#stream = zlib[kind]({ chunkSize: PIECE });
    this.leftOver = false; // of what was fed, something lay behind the end
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
    yield* this.#until(() => written);
    this.leftOver = this.#stream.bytesWritten - before < data.length;
  }

  /** What is left to come; throws if the end was not there. */
  async *rest() {
    this.#stream.end();
    yield* this.#until(() => this.#ended);
  }

  async *#until(isDone) {
    for (;;) {
      const out = this.#stream.read();
      if (out !== null) yield out;
      else if (this.#failure !== null) throw this.#failure;
      else if (isDone()) return;
      else await new Promise((resolve) => (this.#wake = resolve));
    }
  }

  close() {
    this.#stream.destroy();
  }
}
