/** Tables, colours and progress. Foreign text is escaped before it reaches a terminal. Twin of cli/render.py. */

import fs from "node:fs";
import tty from "node:tty";

import { escaped, first, length, roundHalfEven } from "./characters.mjs";
import { SystemClock } from "./clock.mjs";
import { StorageFailed } from "./errors.mjs";
import { COLORS } from "./generated/words.mjs";
import { strerror } from "./store/system.mjs";

const CODES = { bold: "1", dim: "2", red: "31", green: "32", yellow: "33", blue: "34" };

export const clean = (value) => escaped(value === null || value === undefined ? "" : String(value));

const pad = (text, width) => text + " ".repeat(Math.max(0, width - length(text)));

export function wantsColor(descriptor, env, { noColor }) {
  if (noColor || env.NO_COLOR) return false;
  if (["always", "never"].includes(env.KFM_COLOR)) return env.KFM_COLOR === "always";
  return tty.isatty(descriptor) && env.TERM !== "dumb";
}

export class BrokenPipe extends Error {}

const NAP = new Int32Array(new SharedArrayBuffer(4));

/** All of it, now: a pipe that is full is waited for, as Python waits. */
export function writeAll(descriptor, body) {
  for (let at = 0; at < body.length; ) {
    try {
      at += fs.writeSync(descriptor, body, at);
    } catch (problem) {
      if (problem.code !== "EAGAIN") throw problem;
      Atomics.wait(NAP, 0, 0, 5);
    }
  }
}

/** Text as UTF-8; half a surrogate pair as Python's `backslashreplace` has it. */
function encoded(text) {
  const shown = text.isWellFormed()
    ? text
    : Array.from(text, (c) => (c.isWellFormed() ? c : `\\u${c.charCodeAt(0).toString(16)}`)).join("");
  return Buffer.from(shown, "utf8");
}

const AT_MOST = 1 << 16;

export class Screen {
  #held = [];
  #size = 0;
  #logged;
  #outColor;
  #errColor;
  #progressShown = false;
  #lastShown = ["", "", 0]; // subject and stage of the last progress, and when

  constructor({ json, quiet, verbose, no_color: noColor }, env) {
    this.json = json;
    this.quiet = quiet;
    this.verbose = verbose;
    this.subject = ""; // what is being worked on, for the progress
    this.#logged = verbose && env.KFM_LOG === "jsonl";
    this.#outColor = !json && wantsColor(1, env, { noColor });
    this.#errColor = wantsColor(2, env, { noColor });
  }

  // -- stdout

  data(value) {
    const shown = JSON.stringify(wellFormed(value) ? value : scrubbed(value), null, 2);
    this.line(shown.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029").replaceAll("\x7f", "\\u007f"));
  }

  line(text = "") {
    this.text(text + "\n");
  }

  text(text) {
    this.#clear();
    const body = encoded(text);
    this.#held.push(body);
    this.#size += body.length;
    if (this.#size > AT_MOST) this.#flush();
  }

  table(columns, rows) {
    const cells = [...rows].map((row) => row.map((cell) => clean(cell) || "-"));
    const widths = columns.map((name, at) => Math.max(length(name), ...cells.map((row) => length(row[at]))));
    const header = columns.map((name, at) => pad(name.toUpperCase(), widths[at])).join("  ");
    this.line(this.#paint(header.trimEnd(), "bold"));
    for (const row of cells) {
      this.line(row.map((cell, at) => this.#word(cell, pad(cell, widths[at]))).join("  ").replace(/ +$/, ""));
    }
  }

  fields(pairs) {
    const kept = pairs
      .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length))
      .map(([name, value]) => [name, clean(value)]);
    const width = Math.max(0, ...kept.map(([name]) => length(name)));
    for (const [name, value] of kept) this.line(`${this.#paint(pad(name, width), "dim")}  ${this.#word(value, value)}`);
  }

  #word(word, padded) {
    return Object.hasOwn(COLORS, word) ? this.#paint(padded, COLORS[word]) : padded;
  }

  #paint(text, color) {
    return this.#outColor ? `\x1b[${CODES[color]}m${text}\x1b[0m` : text;
  }

  #flush() {
    const body = Buffer.concat(this.#held);
    this.#held = [];
    this.#size = 0;
    writeAll(1, body);
  }

  // -- stderr

  /** For people; silent with --quiet, and where stderr is a log that programs read. */
  say(text) {
    if (this.quiet || this.#logged) return;
    this.#clear();
    this.#inOrder();
    this.words(clean(text) + "\n");
  }

  fail(text) {
    this.#clear();
    this.#inOrder();
    this.words((this.#errColor ? "\x1b[31mkfm:\x1b[0m " : "kfm: ") + clean(text) + "\n");
  }

  words(text) {
    try {
      writeAll(2, encoded(text));
    } catch {
      // no terminal is there
    }
  }

  #inOrder() {
    const held = Buffer.concat(this.#held);
    try {
      this.#flush();
    } catch {
      this.#held = [held]; // reported when the command ends
      this.#size = held.length;
    }
  }

  progress(stage, done, total) {
    if (this.quiet || this.verbose || !tty.isatty(2)) return;
    const now = new SystemClock().monotonic();
    const [subject, before, when] = this.#lastShown;
    if (subject === this.subject && before === stage && now - when < 0.1 && done !== total) return;
    this.#lastShown = [this.subject, stage, now];
    const what = this.subject ? `${clean(this.subject)}: ${clean(stage)}` : clean(stage);
    const share = total ? ` of ${grouped(total)} (${Math.floor((100 * done) / total)} %)` : "";
    const count = total || done ? ` ${grouped(done)}${share}` : "";
    this.words(`\r\x1b[K${first(what + count, (process.stderr.columns || 80) - 1)}`);
    this.#progressShown = true;
  }

  #clear() {
    if (this.#progressShown) {
      this.words("\r\x1b[K");
      this.#progressShown = false;
    }
  }

  finish() {
    this.#clear();
    try {
      this.#flush();
    } catch (problem) {
      if (problem.code === "EPIPE") throw new BrokenPipe();
      throw new StorageFailed(`cannot write to stdout: ${strerror(problem).toLowerCase()}`, {
        hint: "make room or send it elsewhere; what the command changed stays changed",
        cause: problem,
      });
    }
  }
}

const grouped = (count) => String(count).replace(/\B(?=(?:[0-9]{3})+$)/g, ",");

function wellFormed(value) {
  if (typeof value === "string") return value.isWellFormed();
  if (value === null || typeof value !== "object") return true;
  return Object.keys(value).every((key) => key.isWellFormed() && wellFormed(value[key]));
}

function scrubbed(value) {
  if (typeof value === "string") return clean(value);
  if (Array.isArray(value)) return value.map(scrubbed);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [clean(key), scrubbed(item)]));
}

export function size(count) {
  if (count < 1024) return `${count} B`;
  let unit = 0;
  while (unit < 3 && count >= 1024 ** (unit + 2)) unit += 1;
  // A power of two divides without a rest that is lost: from the middle to the even tenth, as Python rounds.
  const tenths = roundHalfEven((count * 10) / 1024 ** (unit + 1));
  return `${(tenths / 10).toFixed(1)} ${["KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export const short = (digest) => digest.startsWith("sha256:") ? digest.slice(0, 19) : first(digest, 8);
