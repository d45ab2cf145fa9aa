/** The only place that reads the time. Everything else is handed a Clock. Twin of src/kfm/clock.py. */

import { BadInput } from "./errors.mjs";

export class SystemClock {
  isStopped = false;

  nowMs() {
    return Date.now();
  }

  monotonic() {
    return performance.now() / 1000;
  }
}

class StoppedClock extends SystemClock {
  isStopped = true;
  #nowMs;

  constructor(nowMs) {
    super();
    this.#nowMs = nowMs;
  }

  nowMs() {
    return this.#nowMs;
  }
}

export function rfc3339(ms) {
  return new Date(ms).toISOString().replace(/^\+0/, ""); // past the year 9999 it would begin with a sign
}

export function fromEnvironment(env = process.env) {
  for (const name of ["KFM_NOW", "SOURCE_DATE_EPOCH"]) {
    if (env[name]) return new StoppedClock(parseInstant(env[name], name));
  }
  return new SystemClock();
}

const INSTANT =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

export function parseInstant(text, where) {
  if (/^[0-9]{1,11}$/.test(text)) return Number(text) * 1000;
  const ms = instant(text);
  if (ms === null) {
    throw new BadInput(`${where} is not an instant`, {
      hint: "give RFC 3339 with a zone (2026-01-01T00:00:00Z) or seconds since 1970",
    });
  }
  return ms;
}

function instant(text) {
  const found = INSTANT.exec(text);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number);
  const [, , , , , , , fraction = "", sign, hours = 0, minutes = 0] = found;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isThere = year > 0 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  if (!isThere || hour > 23 || minute > 59 || second > 59 || hours > 23 || minutes > 59) return null;
  date.setUTCHours(hour, minute, second, Number(fraction.padEnd(3, "0").slice(0, 3)));
  const away = (Number(hours) * 60 + Number(minutes)) * 60_000;
  return date.getTime() - (sign === "-" ? -away : away);
}
