/** One line per fact: an event name and fields, no prose. Twin of src/kfm/telemetry/log.py. */

import { canonicalText } from "./canonical.mjs";
import { first, hex, isPrintable, length } from "./characters.mjs";
import { rfc3339 } from "./clock.mjs";
import { KfmError } from "./errors.mjs";
import { FIELDS, STATUS_WORDS } from "./generated/words.mjs";
import { redacted } from "./redaction.mjs";

export const MAX_TEXT = 2000;

/** Says nothing. */
export class NullLog {
  event() {}

  bind() {
    return this;
  }
}

export class EventLog {
  constructor(clock, sinks = [], { service = "kfm", causes = null } = {}) {
    this._clock = clock;
    this._sinks = sinks;
    this._causes = causes;
    this._bound = { service };
  }

  bind(fields) {
    const other = new EventLog(this._clock, this._sinks, { causes: this._causes });
    other._bound = { ...this._bound, ...cleaned(fields) };
    return other;
  }

  event(name, fields = {}) {
    const problem = fields.error;
    if (this._causes && problem instanceof Error && problem.cause !== undefined) this._causes(problem.cause);
    const line = {};
    for (const field of FIELDS) line[field] = null;
    line.event = name;
    Object.assign(line, this._bound, cleaned(fields));
    line.timestamp = rfc3339(this._clock.nowMs());
    for (const sink of this._sinks) sink(line);
  }
}

/** Writes the whole stack of what lay behind an error. */
export function tracebacks(stream) {
  return (cause) => {
    const lines = String(cause?.stack ?? cause).split("\n");
    put(stream, lines.map((line) => printable(line) + "\n").join(""));
  };
}

export const jsonl = (stream) => (line) => put(stream, canonicalText(line) + "\n");

export function human(stream) {
  return (line) => {
    const shown = [line.timestamp.slice(11, 23), line.event];
    for (const [key, value] of Object.entries(line)) {
      if (value !== null && !["timestamp", "event", "service"].includes(key)) shown.push(`${key}=${word(value)}`);
    }
    put(stream, shown.join(" ") + "\n");
  };
}

function put(stream, text) {
  try {
    stream.write(text);
  } catch {
    // a log that cannot be written must not stop the work it tells of
  }
}

function word(value) {
  if (Array.isArray(value)) return value.map(word).join(",");
  if (value !== null && typeof value === "object") return canonicalText(value);
  const text = value === null ? "None" : String(value);
  return text && !/[ "=,]/.test(text) ? text : canonicalText(text);
}

function cleaned(fields) {
  const found = redacted(plain(fields));
  if (Object.hasOwn(STATUS_WORDS, found.status ?? "")) found.status = STATUS_WORDS[found.status];
  if (typeof found.dataset_ids === "string") found.dataset_ids = [found.dataset_ids];
  return found;
}

function plain(value) {
  if (value === null || value === undefined) return null;
  switch (typeof value) {
    case "boolean":
      return value;
    case "number":
      return value - value === 0 ? value : Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
    case "bigint":
      return value <= 2n ** 53n && value >= -(2n ** 53n) ? Number(value) : String(value);
    case "string":
      return printable(value);
    case "object":
      if (Array.isArray(value)) return value.map(plain);
      if (value instanceof Error) return errorOf(value);
      if ([Object.prototype, null].includes(Object.getPrototypeOf(value))) {
        const made = Object.create(null);
        for (const key of Object.keys(value)) made[printable(key)] = plain(value[key]);
        return made;
      }
  }
  return printable(value.constructor?.name ?? typeof value); // never its text: it could hold anything
}

function errorOf(problem) {
  if (problem instanceof KfmError) return { code: problem.code, message: printable(String(problem)) };
  const frames = String(problem.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  const stack = frames.slice(0, 8).reverse().map((line) => {
    const found = /at (?:(.*) \()?(?:file:\/\/)?(.*?):(\d+):\d+\)?$/.exec(line);
    return printable(found ? `${found[2].split("/").pop()}:${found[3]} ${found[1] ?? "<module>"}` : line.trim());
  });
  return { code: "internal", message: problem.constructor.name, stack };
}

export function printable(text) {
  const cut = length(text) <= MAX_TEXT ? text : first(text, MAX_TEXT - 1) + "…";
  if (isPrintable(cut)) return cut;
  let out = "";
  for (const c of cut) {
    const code = c.codePointAt(0);
    out += isPrintable(c) ? c : code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
  }
  return out;
}
