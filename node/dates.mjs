/**
 * Reads dates by a format of `%` and letters; every implementation accepts the same texts.
 *
 * Twin of src/kfm/parsing/dates.py, which says what the letters are.
 */

import { DATE, DAYS, MOMENT, MONTHS, PARTS, SPACE, TAKEN } from "./generated/characters.mjs";

/** Why a text is no format of dates, or empty; to follow on "date_format ". */
export function dateFormatProblem(format) {
  const said = new Set();
  for (const [letter, text] of pieces(format)) {
    if (text) continue;
    if (!Object.hasOwn(PARTS, letter)) {
      const known = Object.keys(PARTS).map((name) => `%${name}`);
      return `has a % without one of these letters after it: ${known.join(" ")} %%`;
    }
    const [what] = PARTS[letter];
    if (said.has(what) || (what === "day of the year" && (said.has("month") || said.has("day")))) {
      return `says the ${what} twice`;
    }
    said.add(what);
    if ((what === "month" || what === "day") && said.has("day of the year")) {
      return "says the day of the year twice";
    }
  }
  return said.size ? "" : "has no part of a date in it";
}

/** Whether a text is a date of this format, which has no problem. */
export function dateReader(format) {
  let written = "";
  for (const [letter, text] of pieces(format)) {
    if (text) written += BLANK.test(text) ? `${SPACE}+` : escape(text);
    else if (Object.hasOwn(TAKEN, letter)) written += `(?<${TAKEN[letter]}>${PARTS[letter][1]})`;
    else written += `(?:${PARTS[letter][1]})`;
  }
  const form = new RegExp(`^(?:${written})$`, "u");
  return (text) => {
    const found = form.exec(text);
    return found !== null && exists(found.groups ?? {});
  };
}

const BLANK = new RegExp(`^${SPACE}+$`, "u");
const CUT = new RegExp(`%%|%(?<letter>.?)|(?<space>${SPACE}+)|(?<text>.)`, "gsu");

/** The format cut up: a letter after a percent sign, or text; white space is a piece of its own. */
function pieces(format) {
  return [...format.matchAll(CUT)].map((found) => [
    found.groups.letter || "",
    found[0] === "%%" ? "%" : found.groups.space || found.groups.text || "",
  ]);
}

const escape = (character) =>
  /^[0-9A-Za-z]$/.test(character) ? character : `\\u{${character.codePointAt(0).toString(16)}}`;

function exists(parts) {
  let year = 1900;
  if (parts.Y !== undefined) year = Number(parts.Y);
  else if (parts.y !== undefined) year = Number(parts.y) + (Number(parts.y) >= 69 ? 1900 : 2000);
  if (parts.j !== undefined) return year >= 1 && Number(parts.j) <= (isLeap(year) ? 366 : 365);
  let month = Number(parts.m ?? "1");
  if (parts.b !== undefined) month = MONTHS.indexOf(parts.b.slice(0, 3).toLowerCase()) + 1;
  return isDay(year, month, Number(parts.d ?? "1"));
}

/** Whether there is such a day, from the year 1 to 9999. */
export function isDay(year, month, day) {
  if (!(year >= 1 && year <= 9999 && month >= 1 && month <= 12)) return false;
  return day >= 1 && day <= DAYS[month - 1] + (month === 2 && isLeap(year) ? 1 : 0);
}

export function isLeap(year) {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

const date = new RegExp(`^${DATE}$`);
const moment = new RegExp(`^${MOMENT}$`);

/** YYYY-MM-DD, and there is such a day. */
export function isDate(text) {
  return isThere(date, text);
}

/** YYYY-MM-DD, `T` or a space, hh:mm[:ss[.f]] and Z, an offset or nothing. */
export function isMoment(text) {
  return isThere(moment, text);
}

function isThere(form, text) {
  const found = form.exec(text);
  return found !== null && isDay(Number(found[1]), Number(found[2]), Number(found[3]));
}
