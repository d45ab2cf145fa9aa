/**
 * One HTTP/1.1 answer off a socket, strictly framed and bounded in time and bytes. Node's own parser reads it, and a
 * head is held against the grammar too. Twin of src/kfm/sources/http1.py.
 */

import http from "node:http";
import { Duplex } from "node:stream";

import { Refused, Unavailable } from "../errors.mjs";
import { CHUNK } from "./staging.mjs";

const MAX_HEAD = 64 * 1024;
const MAX_FIELDS = 200;
const MAX_INTERIM = 8;
/** What Node's parser lets pass (folded lines, HTTP/2.0) or takes by its release (bare line feeds) is none. */
const HEAD = new RegExp(
  "HTTP/1\\.[01] [1-5][0-9]{2}(?: [\\t\\x20-\\x7e\\x80-\\xff]*)?\\r\\n" +
    `(?:[!#$%&'*+\\-.^_\`|~0-9A-Za-z]+:[\\t\\x20-\\x7e\\x80-\\xff]*\\r\\n){0,${MAX_FIELDS}}\\r\\n`,
  "y",
);

export class Budget {
  #monotonic;
  #timeoutMs;
  #totalMs;
  #deadline;
  #wireBytes;
  #totalEndsFirst = false; // and not the patience of the wait under way

  /** `monotonic` gives seconds. */
  constructor({ timeoutMs, totalMs, wireBytes, monotonic }) {
    this.received = 0;
    this.read = 0; // of what was received, what was looked at
    this.shown = ""; // the hop under way, for messages
    this.#monotonic = monotonic;
    this.#timeoutMs = timeoutMs;
    this.#totalMs = totalMs;
    this.#deadline = monotonic() + totalMs / 1000;
    this.#wireBytes = wireBytes;
  }

  /** Milliseconds the next wait may take. */
  patience() {
    const left = (this.#deadline - this.#monotonic()) * 1000;
    if (left <= 0) throw this.#late();
    this.#totalEndsFirst = left < this.#timeoutMs;
    return Math.min(left, this.#timeoutMs);
  }

  #late() {
    return new Unavailable(`${this.shown} was not fetched within ${this.#totalMs} ms`, {
      hint: "try again later, or raise total_s of this source or of network",
    });
  }

  /** The error of a wait that used up its patience; throws that of the whole time if this was what ran out. */
  silence() {
    if (this.#totalEndsFirst) throw this.#late(); // also where the wait ended a moment early, as timers do
    this.patience();
    return new Unavailable(`${this.shown} was silent for ${this.#timeoutMs} ms`, {
      hint: "try again later, or raise timeout_s of this source or of network",
    });
  }

  count(received) {
    this.received += received;
    if (this.received > this.#wireBytes) {
      throw new Refused(`${this.shown} sent more than the ${this.#wireBytes} bytes allowed`, {
        hint: "raise max_bytes of this source or of network if it should be that large",
      });
    }
  }
}

const SILENT = Symbol("silent");

/** What a promise gives, or SILENT if it takes longer than these milliseconds. */
export async function within(promise, ms) {
  let timer;
  const silence = new Promise((resolve) => {
    timer = setTimeout(resolve, Math.ceil(ms), SILENT);
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
  }
}

export const wasSilent = (answer) => answer === SILENT;

/**
 * A socket for TLS to read from: data before an error is passed on first, and "over" reports the end, with the error in
 * `failure`. The reader does not see the end: TLS has a close message of its own, and an end without it is a cut.
 */
export class Tap extends Duplex {
  #socket;
  isOver = false;
  failure = null;

  constructor(socket, isSecured = false) {
    super();
    this.#socket = socket;
    socket.on("data", (chunk) => {
      this.emit("came", chunk);
      if (!this.isOver && !this.push(chunk)) socket.pause();
    });
    socket.on("end", () => endOf(isSecured ? null : socket, () => this.over(null)));
    socket.on("error", (problem) => this.over(problem));
    socket.on("close", () => this.over(null));
  }

  over(problem) {
    if (this.isOver) return;
    this.isOver = true;
    this.failure = problem;
    this.emit("over");
  }

  _read() {
    this.#socket.resume();
  }

  /** A write error is an error of the socket, and is reported in its turn. */
  _write(chunk, encoding, done) {
    this.#socket.write(chunk, encoding, () => done());
  }

  _final(done) {
    this.#socket.end(() => done());
  }

  _destroy(problem, done) {
    this.#socket.destroy();
    done(problem);
  }
}

/** A connection to ask one question over. Every wait looks at the clock, and not only at the time between two bytes. */
export class Wire {
  #budget;
  #tap;
  #counted = 0;
  #begin = []; // what came before the final answer's head was read
  #interim = 0;
  #problem = null;
  #response = null;
  #wake = () => {};

  /** `under`: what the socket's TLS lies on. */
  constructor(socket, budget, under = null) {
    this.received = 0;
    this.#budget = budget;
    this.#tap = new Tap(socket, under !== null);
    this.#tap.on("came", (chunk) => {
      this.received += chunk.length;
      if (this.#response === null) this.#begin.push(chunk);
      this.#wake();
    });
    this.#tap.on("over", () => this.#tap.push(null));
    under?.on("over", () => this.#cutUnder(under));
  }

  /** What TLS makes of the last bytes comes within a turn or two; without a goodbye by then, it was cut. */
  async #cutUnder(under) {
    do {
      for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    } while (under.readableLength > 0 && !this.#tap.isOver);
    this.#tap.over(under.failure ?? {});
  }

  /** Asks, and gives the final answer; interim ones (1xx) are passed over, a few of them. */
  async ask(path, headers) {
    const request = http.request({
      createConnection: () => this.#tap,
      path,
      headers,
      setHost: false,
      insecureHTTPParser: false,
      maxHeaderSize: MAX_HEAD,
    });
    request.maxHeadersCount = 0; // those that are too many shall not go unseen
    const failed = (problem) => {
      this.#problem ??= problem;
      this.#wake();
    };
    request.on("information", () => (this.#interim += 1) < MAX_INTERIM || failed(this.#endless()));
    request.on("upgrade", () => failed(this.#endless()));
    request.on("error", failed);
    request.on("response", (response) => {
      this.#response = response;
      for (const event of ["readable", "end"]) response.on(event, () => this.#wake());
      response.on("error", failed);
    });
    request.end();
    await this.#until(() => this.#response !== null);
    if (this.#interim >= MAX_INTERIM || this.#response.statusCode < 200) throw this.#endless();
    return new Answer(this, this.#response, this.#headSize());
  }

  #headSize() {
    const begin = Buffer.concat(this.#begin).toString("latin1");
    HEAD.lastIndex = 0;
    for (let n = 0; n <= this.#interim; n += 1) if (!HEAD.test(begin)) throw this.#wrong("sent a malformed head");
    if (HEAD.lastIndex > MAX_HEAD) throw this.#wrong(`sent more than ${MAX_HEAD} bytes of headers`);
    return HEAD.lastIndex;
  }

  /** The body in pieces of 1 MiB or so. One that ends before its end is Unavailable. */
  async *chunks(hasEnd) {
    const response = this.#response;
    let parts = [];
    for (let size = 0, chunk; ; ) {
      await this.#until(() => (chunk = response.read()) !== null || response.readableEnded);
      if (chunk === null) break;
      parts.push(chunk);
      size += chunk.length;
      if (size < CHUNK) continue;
      yield Buffer.concat(parts);
      parts = [];
      size = 0;
    }
    if (this.#tap.failure !== null && !hasEnd) throw this.#asError();
    if (response.rawTrailers.length > 2 * MAX_FIELDS) throw this.#wrong(`sent more than ${MAX_FIELDS} headers`);
    if (parts.length) yield Buffer.concat(parts);
  }

  async #until(isReady) {
    for (;;) {
      const patience = this.#budget.patience();
      this.#budget.count(this.received - this.#counted);
      this.#counted = this.received;
      if (isReady()) return;
      if (this.#problem !== null && !this.#response?.complete) throw this.#asError();
      const happened = new Promise((resolve) => (this.#wake = resolve));
      if (wasSilent(await within(happened, patience))) throw this.#budget.silence();
    }
  }

  /** What the parser found, or how the connection ended. */
  #asError() {
    const { shown } = this.#budget;
    const { failure } = this.#tap;
    const problem = this.#problem;
    if (problem instanceof Refused) return problem;
    if (problem?.code?.startsWith("HPE_") && problem.code !== "HPE_INVALID_EOF_STATE") {
      return this.#wrong("does not answer as HTTP/1.1 asks");
    }
    if (failure?.code === "ETIMEDOUT") return this.#budget.silence();
    if (failure !== null) return brokenOff(shown, failure);
    const where = this.#response === null ? "its answer" : "the end of the body";
    return new Unavailable(`${shown} closed the connection before ${where}`, { hint: "try again later" });
  }

  #wrong(what) {
    return new Refused(`${this.#budget.shown} ${what}`, { hint: "ask the server's operator" });
  }

  #endless() {
    return this.#wrong("sent too many interim answers");
  }

  close() {
    this.#tap.destroy();
  }
}

/**
 * Calls back when a socket has really ended. Node takes a connection that was reset right behind some data for one
 * that was closed; writing to it raises its real `error`, and an empty line does no harm to a closed one.
 */
function endOf(socket, ended) {
  if (socket === null || socket.destroyed || !socket.writable) ended();
  else socket.write("\r\n", (problem) => problem ?? ended());
}

export function brokenOff(shown, problem) {
  const [name, errno] = named(problem);
  return new Unavailable(`the connection to ${shown} broke (${name})`, { hint: "try again later", errno });
}

export function named(problem) {
  if (typeof problem.errno === "number" && typeof problem.code === "string") {
    return [problem.code, Math.abs(problem.errno)];
  }
  return ["TLS", null];
}

/** Status and header fields of an answer, how long all its heads were, and the way to its body. */
class Answer {
  #wire;
  #fields = new Map();

  constructor(wire, { statusCode, rawHeaders }, headSize) {
    this.#wire = wire;
    this.status = statusCode;
    this.headSize = headSize;
    for (let n = 0; n < rawHeaders.length; n += 2) {
      const name = rawHeaders[n].toLowerCase();
      this.#fields.set(name, [...this.all(name), rawHeaders[n + 1]]);
    }
  }

  all(name) {
    return this.#fields.get(name) ?? [];
  }

  one(name) {
    const values = this.all(name);
    return values.length === 1 ? values[0] : "";
  }

  /** The body: its length or null, whether the answer says where it ends (else a cut looks like an end), its bytes. */
  body(shown) {
    const codings = this.all("transfer-encoding");
    const lengths = this.all("content-length");
    const isOne = lengths.length + codings.length <= 1 && codings.every((coding) => coding.toLowerCase() === "chunked");
    if (!isOne || !lengths.every((length) => /^[0-9]{1,18}$/.test(length))) {
      throw new Refused(`${shown} sent its body without a plain length`, { hint: "ask the server's operator" });
    }
    const hasEnd = lengths.length + codings.length > 0;
    return { length: lengths.length ? Number(lengths[0]) : null, hasEnd, chunks: this.#wire.chunks(hasEnd) };
  }

  /** How many bytes of the connection a whole answer with a body of this length was. */
  size(length) {
    return length === null ? this.#wire.received : this.headSize + length;
  }
}
