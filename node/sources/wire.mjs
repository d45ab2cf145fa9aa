/**
 * One HTTP/1.1 answer off a socket, strictly framed and bounded in time and bytes.
 *
 * Twin of src/kfm/sources/wire.py. Not node:http: what it skips, repairs or refuses changes from release to release,
 * and its words are not ours. What is here is the little that a GET with `Connection: close` needs.
 */

import { Refused, Unavailable } from "../errors.mjs";
import { CHUNK } from "./intake.mjs";

export const MAX_HEAD = 64 * 1024;
export const MAX_FIELDS = 200;
const MAX_INTERIM = 8;
const MAX_CHUNK_LINE = 1024;
const MAX_QUEUED = 1 << 20;
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const FEED = 10;

/** The wall time and the bytes one fetch may take, over all its hops. */
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
    return new Unavailable(`${this.shown} was not done after ${this.#totalMs} ms`, {
      hint: "try again later, or raise total_ms of this source",
    });
  }

  /** The error of a wait that used up its patience; throws that of the whole time if this was what ran out. */
  silence() {
    if (this.#totalEndsFirst) throw this.#late(); // also where the wait ended a moment early, as timers do
    this.patience();
    return new Unavailable(`${this.shown} was silent for ${this.#timeoutMs} ms`, {
      hint: "try again later, or raise timeout_ms of this source",
    });
  }

  count(received) {
    this.received += received;
    if (this.received > this.#wireBytes) {
      throw new Refused(`${this.shown} sent more than the ${this.#wireBytes} bytes it may`, {
        hint: "raise max_bytes of this source if it should be that large",
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
 * A connected socket as something to be read. Every wait looks at the clock, so that a peer that sends a byte now
 * and then is bounded by the total time and not by the time between two bytes.
 *
 * What arrives is taken off the socket at once, within bounds: an error that comes behind it must not swallow it.
 */
export class Wire {
  #socket;
  #budget;
  #queue = [];
  #queued = 0;
  #buffer = Buffer.alloc(0);
  #at = 0;
  #ended = false;
  #failure = null;
  #wake = () => {};
  #read = 0;
  #under;

  /** `under`: what the socket's TLS lies on; where that ends and TLS does not, the connection was cut (see dialing.mjs). */
  constructor(socket, budget, under = null) {
    this.#socket = socket;
    this.#budget = budget;
    this.#under = under;
    under?.on("ended-under", () => this.#wake());
    socket.on("data", (chunk) => {
      this.#queue.push(chunk);
      this.#queued += chunk.length;
      if (this.#queued >= MAX_QUEUED) socket.pause();
      this.#wake();
    });
    socket.on("end", () =>
      endOf(under === null ? socket : null, () => {
        this.#ended = true;
        this.#wake();
      }),
    );
    socket.on("error", (problem) => {
      this.#failure ??= problem;
      this.#wake();
    });
    socket.on("close", () => {
      this.#ended = true;
      this.#wake();
    });
    socket.resume();
  }

  /** How many bytes were looked at so far. */
  tell() {
    return this.#read;
  }

  async send(body) {
    const sent = new Promise((resolve) => this.#socket.write(body, (problem) => resolve(problem ?? null)));
    const answer = await within(sent, this.#budget.patience());
    if (wasSilent(answer)) throw this.#budget.silence();
    if (answer !== null) throw brokenOff(this.#budget.shown, this.#failure ?? answer);
  }

  /** Up to and with the next line feed, but no more than this; less only at the end. */
  async readLine(most) {
    let looked = 0;
    for (;;) {
      const there = this.#buffer.length - this.#at;
      const end = this.#buffer.indexOf(FEED, this.#at + looked);
      if (end >= 0 && end - this.#at < most) return this.#take(end + 1 - this.#at);
      if (there >= most) return this.#take(most);
      looked = there;
      if (!(await this.#gather(there + 1))) return this.#take(there);
    }
  }

  /** Exactly this much; less only at the end. */
  async readBytes(want) {
    await this.#gather(want);
    return this.#take(Math.min(want, this.#buffer.length - this.#at));
  }

  /** Have this much in the buffer; false if there is less. */
  async #gather(want) {
    let have = this.#buffer.length - this.#at;
    if (have >= want) return true;
    const parts = have ? [this.#buffer.subarray(this.#at)] : [];
    while (have < want) {
      const chunk = await this.#next();
      if (chunk === null) break;
      parts.push(chunk);
      have += chunk.length;
    }
    this.#buffer = parts.length === 1 ? parts[0] : Buffer.concat(parts);
    this.#at = 0;
    return have >= want;
  }

  #take(count) {
    const taken = this.#buffer.subarray(this.#at, this.#at + count);
    this.#at += count;
    this.#read += count;
    return taken;
  }

  /** The next piece that arrives; null at the end. */
  async #next() {
    this.#budget.patience();
    while (!this.#queue.length) {
      if (this.#failure !== null) {
        if (this.#failure.code === "ETIMEDOUT") throw this.#budget.silence();
        throw brokenOff(this.#budget.shown, this.#failure);
      }
      if (this.#ended) return null;
      if (this.#under?.hasEnded) {
        // What came is handed to TLS at once; what TLS makes of it comes within a turn or two.
        for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        if (this.#queue.length || this.#ended || this.#failure !== null) continue;
        if (this.#under.readableLength === 0) throw brokenOff(this.#budget.shown, {});
      }
      const arrived = new Promise((resolve) => {
        this.#wake = () => resolve(null);
      });
      if (wasSilent(await within(arrived, this.#budget.patience()))) throw this.#budget.silence();
    }
    const chunk = this.#queue.shift();
    this.#queued -= chunk.length;
    this.#budget.count(chunk.length);
    if (this.#queued < MAX_QUEUED) this.#socket.resume();
    return chunk;
  }

  close() {
    this.#socket.destroy();
  }
}

/**
 * Calls back when a socket has really ended. Node takes a connection that was reset right behind some data for one
 * that was closed; whoever writes to it learns the truth by its `error`, and a closed one minds no empty line.
 */
export function endOf(socket, ended) {
  if (socket === null || socket.destroyed || !socket.writable) ended();
  else socket.write("\r\n", (problem) => problem ?? ended());
}

export function brokenOff(shown, problem) {
  const [name, errno] = named(problem);
  return new Unavailable(`the connection to ${shown} broke (${name})`, { hint: "try again later", errno });
}

/** What the system calls an error, and its number. Errors of TLS have numbers of their own, which are not told. */
export function named(problem) {
  if (typeof problem.errno === "number" && typeof problem.code === "string") {
    return [problem.code, Math.abs(problem.errno)];
  }
  return ["TLS", null];
}

/** Status and header fields of an answer. */
export class Head {
  #fields;

  constructor(status, fields) {
    this.status = status;
    this.#fields = fields;
  }

  all(name) {
    return this.#fields.get(name) ?? [];
  }

  /** The value of a field that came exactly once; otherwise empty. */
  one(name) {
    const values = this.all(name);
    return values.length === 1 ? values[0] : "";
  }
}

/** The final answer's head; interim ones (1xx) are passed over, a few of them. */
export async function readHead(wire, shown) {
  const lines = new Lines(wire, shown, MAX_HEAD);
  for (let n = 0; n < MAX_INTERIM; n += 1) {
    const status = statusOf(await lines.next(), shown);
    const fields = await fieldsOf(lines, shown);
    if (status >= 200) return new Head(status, fields);
    if (status === 101) break;
  }
  throw new Refused(`${shown} did not come to an answer`, { hint: "ask whoever serves it" });
}

/** Lines of a head or trailer, within a number of bytes for all of them. */
class Lines {
  #wire;
  #shown;
  #room;

  constructor(wire, shown, room) {
    this.#wire = wire;
    this.#shown = shown;
    this.#room = room;
  }

  async next() {
    const line = await this.#wire.readLine(this.#room + 1);
    this.#room -= line.length;
    if (this.#room < 0) {
      throw new Refused(`${this.#shown} sent more than ${MAX_HEAD} bytes of headers`, { hint: "ask whoever serves it" });
    }
    if (line.at(-1) !== FEED) {
      throw new Unavailable(`${this.#shown} closed the connection before its answer`, { hint: "try again later" });
    }
    return line.toString("latin1").replace(/\r?\n$/, "");
  }
}

function statusOf(line, shown) {
  const digits = line.slice(9, 12);
  if (!/^HTTP\/1\.[01] /.test(line) || !/^[0-9]*$/.test(digits) || !["", " "].includes(line.slice(12, 13))) {
    throw new Refused(`${shown} does not answer in HTTP/1.1`, { hint: "check the address and port of the source" });
  }
  const status = Number(digits || "0");
  if (!(status >= 100 && status <= 599)) {
    throw new Refused(`${shown} answers with an impossible status`, { hint: "ask whoever serves it" });
  }
  return status;
}

async function fieldsOf(lines, shown) {
  const fields = new Map();
  for (let n = 0; n <= MAX_FIELDS; n += 1) {
    const line = await lines.next();
    if (!line) return fields;
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, "");
    if (colon < 0 || !NAME.test(name) || /[\x00-\x08\x0a-\x1f]/.test(value)) {
      throw new Refused(`${shown} sent a malformed header`, { hint: "ask whoever serves it" });
    }
    if (fields.has(name)) fields.get(name).push(value);
    else fields.set(name, [value]);
  }
  throw new Refused(`${shown} sent more than ${MAX_FIELDS} headers`, { hint: "ask whoever serves it" });
}

/** How the body of an answer is framed, and its bytes. */
export class Body {
  #wire;
  #shown;
  #chunked;

  constructor(wire, head, shown) {
    this.#wire = wire;
    this.#shown = shown;
    const codings = head
      .all("transfer-encoding")
      .flatMap((value) => value.split(",").map((coding) => stripped(coding).toLowerCase()));
    const lengths = head.all("content-length");
    if (codings.length && !(codings.length === 1 && codings[0] === "chunked")) {
      throw this.#misframed("in a transfer encoding that was not asked for");
    }
    if (codings.length && lengths.length) throw this.#misframed("both chunked and with a length");
    if (lengths.length > 1) throw this.#misframed("with more than one length");
    if (lengths.length && !/^[0-9]{1,18}$/.test(lengths[0])) throw this.#misframed("with a length that is no number");
    this.length = lengths.length ? Number(lengths[0]) : null;
    this.#chunked = codings.length > 0;
  }

  /** Does the answer itself say where it ends? Otherwise a cut looks like an end. */
  get hasEnd() {
    return this.#chunked || this.length !== null;
  }

  /** How many bytes of the connection were looked at so far. */
  get at() {
    return this.#wire.tell();
  }

  /** The body in pieces of at most 1 MiB. A body that ends before its declared end is Unavailable. */
  async *chunks() {
    if (this.#chunked) yield* this.#inChunks();
    else if (this.length !== null) yield* this.#exactly(this.length);
    else {
      for (let chunk; (chunk = await this.#wire.readBytes(CHUNK)).length; ) yield chunk;
    }
  }

  async *#exactly(length) {
    for (let left = length; left > 0; ) {
      const want = Math.min(left, CHUNK);
      const chunk = await this.#wire.readBytes(want);
      if (chunk.length < want) throw this.#cut();
      left -= want;
      yield chunk;
    }
  }

  async *#inChunks() {
    for (let size; (size = await this.#chunkSize()); ) {
      yield* this.#exactly(size);
      const end = (await this.#wire.readLine(3)).toString("latin1");
      if (end !== "\r\n" && end !== "\n") {
        throw /[^\t-\r ]/.test(end) ? this.#misframed("with a chunk longer than it says") : this.#cut();
      }
    }
    const trailer = new Lines(this.#wire, this.#shown, MAX_HEAD);
    while (await trailer.next());
  }

  async #chunkSize() {
    const line = await this.#wire.readLine(MAX_CHUNK_LINE + 1);
    if (line.at(-1) !== FEED) {
      throw line.length > MAX_CHUNK_LINE ? this.#misframed("with an endless chunk header") : this.#cut();
    }
    const digits = line.toString("latin1").split(";", 1)[0].replace(/[ \t\r\n]+$/, "");
    if (!/^[0-9a-fA-F]{1,15}$/.test(digits)) throw this.#misframed("with a chunk size that is no number");
    return parseInt(digits, 16);
  }

  #cut() {
    return new Unavailable(`${this.#shown} closed the connection before the end of the body`, {
      hint: "try again later",
    });
  }

  #misframed(how) {
    return new Refused(`${this.#shown} sent its body ${how}`, { hint: "ask whoever serves it" });
  }
}

// Of a header, so of Latin-1: what Python calls white space there.
const stripped = (text) => text.replace(/^[\t-\r\x1c-\x20\x85\xa0]+|[\t-\r\x1c-\x20\x85\xa0]+$/g, "");
