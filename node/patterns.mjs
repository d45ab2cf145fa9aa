/**
 * Regular expressions: the part of the syntax that RE2 in every language reads alike, translated for RE2.
 *
 * Twin of src/kfm/parsing/patterns.py, which says what that part is, and why.
 */

import { createRequire } from "node:module";

import {
  FLAWS, KINDS, LETTERS, MAX_NESTED, MAX_PATTERN, MAX_REPEAT, MAX_SIZE, MEMBER, PLACES, TOKEN,
} from "./generated/patterns.mjs";

const FLAGS = /^(?:\(\?([is]{1,2})\))?/;
const token = new RegExp(TOKEN, "uy");
const member = new RegExp(MEMBER, "gu");

class BadPattern extends Error {}

/** Why a text cannot be used as a pattern, or empty. */
export function patternFlaw(pattern) {
  try {
    compiled(pattern);
  } catch (problem) {
    if (problem instanceof BadPattern) return `is not a regular expression: ${problem.message}`;
    throw problem;
  }
  return "";
}

/** Tells whether a text matches from end to end, or not `whole`: whether some of it does. */
export function compiled(pattern, { whole = true } = {}) {
  const text = new Speller(pattern).whole();
  const { RE2JS } = createRequire(import.meta.url)("re2js"); // not free to load, and few contracts have a pattern
  const made = RE2JS.compile(text);
  return whole ? (value) => made.testExact(value) : (value) => made.test(value);
}

class Speller {
  #text;
  #at = 0;
  #anyCase = false;
  #size = 0; // of this group so far, with repeats written out
  #deep = 1; // the largest product of repeats in it
  #last = null; // both, of what a repeat here would repeat
  #outer = []; // of the groups around: where begun, and as above

  constructor(pattern) {
    this.#text = pattern;
  }

  #fail(what, instead = "", at = this.#at) {
    const character = [...this.#text.slice(0, at)].length + 1;
    throw new BadPattern(`${what} at character ${character}${instead && ` (${instead})`}`);
  }

  whole() {
    const length = [...this.#text].length;
    if (length > MAX_PATTERN) throw new BadPattern("more than 10,000 characters at character 10001");
    const half = this.#text.search(/\p{Surrogate}/u);
    if (half >= 0) this.#fail("half a surrogate pair", "", half);
    const flags = FLAGS.exec(this.#text);
    let made = flags[1]?.includes("s") ? "(?s)" : "";
    this.#anyCase = flags[1]?.includes("i") ?? false;
    this.#at = flags[0].length;
    let before = "";
    while (this.#at < this.#text.length) {
      token.lastIndex = this.#at;
      const found = token.exec(this.#text);
      if (found === null) {
        const rest = this.#text.slice(this.#at);
        this.#fail(...FLAWS.find(([flaw]) => new RegExp(`^${flaw}`).test(rest)).slice(1));
      }
      const [all, negated, members, group, repeat, lazy, place, char] = found;
      if (members !== undefined) made += this.#class(negated, members);
      else if (group !== undefined) made += this.#open(group);
      else if (repeat !== undefined) made += this.#repeat(repeat, before) + lazy;
      else if (place === ")") made += this.#close();
      else if (place !== undefined) {
        this.#last = null;
        made += PLACES[place] ?? place;
      } else made += this.#char(char);
      before = repeat ?? "";
      this.#at += all.length;
    }
    if (this.#outer.length) this.#fail("a group that is not closed", "", this.#outer.at(-1)[0]);
    return made;
  }

  #grow(size, deep = 1) {
    this.#last = [size, deep];
    this.#size += size;
    this.#deep = Math.max(this.#deep, deep);
    if (this.#size > MAX_SIZE) this.#fail("more than 10,000 characters with all repeats written out", "shorten the repeats");
  }

  #open(kind) {
    if (this.#outer.length === MAX_NESTED) this.#fail(`groups more than ${MAX_NESTED} deep`);
    this.#outer.push([this.#at, this.#size, this.#deep, this.#anyCase]);
    [this.#size, this.#deep, this.#last] = [0, 1, null];
    const flags = kind.endsWith(":") ? kind : "";
    this.#anyCase ||= flags.includes("i");
    return flags.includes("s") ? "(?s:" : "(?:";
  }

  #close() {
    if (!this.#outer.length) this.#fail("a bracket closes what was not opened");
    const [size, deep] = [this.#size, this.#deep];
    [, this.#size, this.#deep, this.#anyCase] = this.#outer.pop();
    this.#grow(size + 1, deep);
    return ")";
  }

  #repeat(repeat, before) {
    if (before && repeat === "+") {
      this.#fail("a possessive repeat, which is not supported,", "leave the + out if it matches all the same");
    }
    if (this.#last === null) this.#fail(before ? "a repeat of a repeat" : "nothing to repeat");
    const [size, deep] = this.#last;
    if (repeat.length === 1) {
      this.#last = null;
      return repeat;
    }
    const [first, second] = repeat.slice(1, -1).split(",");
    if (!first && !second) this.#fail("a repeat without a number");
    const least = Number(first);
    const most = second ? Number(second) : least;
    if (Math.max(least, most) * deep > MAX_REPEAT) this.#fail("a repeat of more than 1,000, also as a product of nested ones,");
    if (most < least) this.#fail("a repeat that ends before it begins");
    this.#grow(size * Math.max(most - 1, 0), deep * Math.max(most, 1));
    this.#last = null;
    return `{${least}${second === undefined ? "" : `,${second && most}`}}`;
  }

  #char(char) {
    this.#grow(1);
    if (char === ".") return char;
    const code = this.#code(char, this.#at);
    return `(?:[${typeof code === "string" ? code : this.#range(code, code)}]{1})`;
  }

  #class(negated, members) {
    let made = "";
    let count = 1;
    for (const found of members.matchAll(member)) {
      const at = this.#at + 1 + negated.length + found.index;
      const low = this.#code(found[1], at);
      const high = found[2] === undefined ? low : this.#code(found[2], at);
      if (typeof low === "string" && found[2] === undefined) made += low;
      else if (typeof low === "string" || typeof high === "string" || high < low) {
        this.#fail("a range that runs backwards, or from no character,", "", at);
      } else made += this.#range(low, high);
      count += 1;
    }
    this.#grow(count);
    return `(?:[${negated}${made}]{1})`;
  }

  /** A character's number, or the kind of characters that an escape means. */
  #code(char, at) {
    const sign = String.fromCodePoint(char.codePointAt(1) ?? 0);
    if (char[0] !== "\\" || char.length === 1) return char.codePointAt(0);
    if (Object.hasOwn(KINDS, sign)) return KINDS[sign];
    if (Object.hasOwn(LETTERS, sign)) return LETTERS[sign];
    const code = char.length > 1 + sign.length ? parseInt(char.slice(2), 16) : sign.codePointAt(0);
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) this.#fail("a code that is no character", "", at);
    return code;
  }

  #range(low, high) {
    let made = `\\x{${low.toString(16)}}-\\x{${high.toString(16)}}`;
    for (const [here, there] of this.#anyCase ? [[65, 97], [97, 65]] : []) {
      const [begin, end] = [Math.max(low, here), Math.min(high, here + 25)];
      if (begin > end) continue;
      made += `\\x{${(begin - here + there).toString(16)}}-\\x{${(end - here + there).toString(16)}}`;
    }
    return made;
  }
}
