/** Windows of time: from one day to another, both of them in it. A length of time is one that ends today. */

import { strip } from "./characters.mjs";
import { rfc3339 } from "./clock.mjs";
import { isDate, isDay, isMoment } from "./dates.mjs";
import { BadInput } from "./errors.mjs";

const LENGTH = /^P(?:([0-9]{1,4})W|(?:([0-9]{1,4})Y)?(?:([0-9]{1,4})M)?(?:([0-9]{1,6})D)?)$/;
const PART = /^([0-9]{4})(?:-([0-9]{2}))?$/;
const EARLIEST = 1000; // years before it are written otherwise here and there
const DAY_MS = 86_400_000;

export function interval(text, today) {
  const [first, last, ...more] = text.split("/");
  if (last !== undefined && !more.length && isDate(first) && isDate(last) && first <= last) return text;
  const found = LENGTH.exec(text);
  const begin = found === null || text === "P" ? "" : beginOf(found, today);
  if (!begin) {
    throw new BadInput("--window is neither two days nor a duration", {
      hint: "write 2026-01-01/2026-01-31, the earlier day first, or P30D for the last thirty days",
    });
  }
  return `${begin}/${today}`;
}

function beginOf(found, today) {
  const [weeks, years, months, days] = found.slice(1).map((part) => Number(part ?? 0));
  const [thisYear, thisMonth, thisDay] = today.split("-").map(Number);
  const count = thisYear * 12 + thisMonth - 1 - 12 * years - months;
  const [year, month] = [Math.floor(count / 12), (((count % 12) + 12) % 12) + 1];
  if (year < EARLIEST) return "";
  const last = [31, 30, 29, 28].find((day) => isDay(year, month, day));
  const begin = Date.UTC(year, month - 1, Math.min(thisDay, last)) - (days + 7 * weeks) * DAY_MS;
  return begin <= Date.UTC(EARLIEST, 0, 1) ? "" : rfc3339(begin).slice(0, 10);
}

/** Whether any of a day, month, year or moment lies in the window; null: it is none of them. */
export function within(window, value) {
  let text = strip(value);
  if (isMoment(text)) {
    text = text.slice(0, 10);
  } else if (!isDate(text)) {
    const found = PART.exec(text);
    if (found === null || !isDay(Number(found[1]), Number(found[2] ?? 1), 1)) return null;
  }
  const [first, last] = window.split("/");
  return first.slice(0, text.length) <= text && text <= last.slice(0, text.length);
}
