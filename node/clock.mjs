/** The only place that reads the time. Everything else is handed a Clock. Twin of src/kfm/clock.py. */

import { BadInput } from "./errors.mjs";

export class SystemClock {
  nowMs() {
    return Date.now();
  }

  monotonic() {
    return performance.now() / 1000;
  }
}

/** Time stands still until someone moves it: reproducible artifacts, and tests. */
export class FixedClock {
  constructor(nowMs = 1_767_225_600_000) {
    this._nowMs = nowMs;
  }

  nowMs() {
    return this._nowMs;
  }

  monotonic() {
    return this._nowMs / 1000;
  }

  advance(ms) {
    this._nowMs += ms;
  }
}

/** The date stands still, but how long something takes can still be told. */
export class StoppedClock extends FixedClock {
  monotonic() {
    return performance.now() / 1000;
  }
}

/** UTC with fixed milliseconds, so that text order is time order. */
export function rfc3339(ms) {
  const epoch = Math.floor(ms / 1000);
  const days = Math.floor(epoch / 86_400);
  const seconds = epoch - days * 86_400;
  const [year, month, day] = civil(days);
  const time = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map((n) => pad(n, 2));
  return `${pad(year, 4)}-${pad(month, 2)}-${pad(day, 2)}T${time.join(":")}.${pad(ms - epoch * 1000, 3)}Z`;
}

const pad = (number, width) => String(number).padStart(width, "0");

// Howard Hinnant's days-to-civil and back, as in the twin.
function civil(since1970) {
  const days = since1970 + 719_468;
  const era = Math.floor(days / 146_097);
  const doe = days - era * 146_097;
  const yoe = Math.floor(
    (doe - Math.floor(doe / 1460) + Math.floor(doe / 36_524) - Math.floor(doe / 146_096)) / 365,
  );
  const doy = doe - (365 * yoe + Math.floor(yoe / 4) - Math.floor(yoe / 100));
  const mp = Math.floor((5 * doy + 2) / 153);
  const month = mp < 10 ? mp + 3 : mp - 9;
  return [yoe + era * 400 + (month <= 2 ? 1 : 0), month, doy - Math.floor((153 * mp + 2) / 5) + 1];
}

function daysBefore(year, month, day) {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yoe = y - era * 400;
  const doy = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  return era * 146_097 + yoe * 365 + Math.floor(yoe / 4) - Math.floor(yoe / 100) + doy - 719_468;
}

/** KFM_NOW (RFC 3339 or epoch seconds) or SOURCE_DATE_EPOCH fixes the time for a whole process. */
export function fromEnvironment(env = process.env) {
  for (const name of ["KFM_NOW", "SOURCE_DATE_EPOCH"]) {
    if (env[name]) return new StoppedClock(parseInstant(env[name], name));
  }
  return new SystemClock();
}

const INSTANT =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

/** Milliseconds since 1970 of RFC 3339, or of seconds since 1970; more exact than milliseconds is cut off. */
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
  const away = Number(found[9] ?? 0) * 60 + Number(found[10] ?? 0);
  const days = year > 0 && month >= 1 && month <= 12 ? daysBefore(year, month, day) : 0;
  const date = civil(days);
  if (date[0] !== year || date[1] !== month || date[2] !== day) return null;
  if (hour > 23 || minute > 59 || second > 59 || Number(found[9] ?? 0) > 23 || Number(found[10] ?? 0) > 59) return null;
  const seconds = days * 86_400 + hour * 3600 + minute * 60 + second - (found[8] === "-" ? -away : away) * 60;
  return seconds * 1000 + Number((found[7] ?? "").padEnd(3, "0").slice(0, 3));
}
