/**
 * Which characters can be shown: the same in every version of Node, and as Python has it.
 *
 * Twin of src/kfm/parsing/characters.py. The tables are those of Unicode 14, whatever came later: where what
 * is printable, and what combines, begins and ends by turns past ASCII, each as the distance from the one
 * before in base 36.
 */

import { COMBINING, PRINTABLE, SPACE } from "./generated/characters.mjs";

const edges = (table) => {
  let at = 0;
  return Uint32Array.from(table.split(" "), (step) => (at += parseInt(step, 36)));
};

let printableEdges = null;
let combiningEdges = null;

function inside(table, code) {
  let low = 0;
  let high = table.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (table[middle] <= code) low = middle + 1;
    else high = middle;
  }
  return low % 2 === 1;
}

const SHOWN = /^[\x20-\x7e]*$/;

/** Whether every character would be seen, or is a plain space. Empty text is printable. */
export function isPrintable(text) {
  if (SHOWN.test(text)) return true;
  printableEdges ??= edges(PRINTABLE);
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code < 0x80 ? code < 0x20 || code === 0x7f : !inside(printableEdges, code)) return false;
  }
  return true;
}

/** Whether the first character of a text attaches to the one before it. */
export function combines(text) {
  combiningEdges ??= edges(COMBINING);
  const code = text.codePointAt(0) ?? 0;
  return code >= 0x80 && inside(combiningEdges, code);
}

/** One line of text: what could not be seen, and what is in `kept`, becomes its code. */
export function escaped(text, kept = "") {
  if (isPrintable(text) && ![...kept].some((c) => text.includes(c))) return text;
  let out = "";
  for (const c of text) out += isPrintable(c) && !kept.includes(c) ? c : `\\u${hex(c.codePointAt(0), 4)}`;
  return out;
}

/** `code` in at least `width` hexadecimal digits. */
export const hex = (code, width) => code.toString(16).padStart(width, "0");

/** How many characters a text has, as Python counts them. */
export function length(text) {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at += 1) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      count -= 1;
      at += 1;
    }
  }
  return count;
}

/** The first `count` characters of a text, none of them cut in half. */
export function first(text, count) {
  if (text.length <= count) return text;
  let at = 0;
  for (let left = count; left > 0 && at < text.length; left -= 1) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return text.slice(0, at);
}

/** Text order as Python has it: by code point, where JavaScript compares halves of surrogate pairs. */
export function compare(a, b) {
  const shorter = Math.min(a.length, b.length);
  for (let at = 0; at < shorter; at += 1) {
    let x = a.charCodeAt(at);
    let y = b.charCodeAt(at);
    if (x !== y) {
      // A surrogate half stands for a character past U+FFFF, unless it is alone.
      if (x >= 0xd800 && y >= 0xd800) {
        x = whole(a, at);
        y = whole(b, at);
      }
      return x < y ? -1 : x > y ? 1 : 0;
    }
  }
  return a.length - b.length < 0 ? -1 : a.length > b.length ? 1 : 0;
}

function whole(text, at) {
  const unit = text.charCodeAt(at);
  if ((unit & 0xfc00) === 0xdc00 && at > 0 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800) {
    return text.codePointAt(at - 1);
  }
  return text.codePointAt(at);
}

const LEADING = new RegExp(`^${SPACE}+`);
const TRAILING = new RegExp(`${SPACE}$`);

/** `str.strip()`: what Python calls white space is not quite what `trim` removes. */
export const strip = (text) => stripEnd(text.replace(LEADING, ""));

/** `str.rstrip()`. */
export function stripEnd(text) {
  // A regular expression anchored at the end would look at every run of spaces on the way.
  let end = text.length;
  while (end > 0 && TRAILING.test(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

/** To the nearest whole number; from the middle to the even one, as Python rounds and writes numbers. */
export function roundHalfEven(value) {
  const below = Math.floor(value);
  const above = value - below;
  if (above === 0.5) return below % 2 === 0 ? below : below + 1;
  return above > 0.5 ? below + 1 : below;
}
