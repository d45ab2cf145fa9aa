/**
 * Regular expressions that mean the same everywhere: a part of the syntax, read here and spelled out for the engine.
 *
 * Twin of src/kfm/documents/patterns.py, which says what that part is. The engine is handed plain sets of
 * characters, so that nothing is left to what it calls a letter, a space, a line or the end.
 *
 * A node is {kind: "chars", ranges} | {kind: "sequence", parts} | {kind: "choice", parts} |
 * {kind: "repeat", least, most, lazy, body} | {kind: "atomic", body} | {kind: "look", behind, wanted, body} |
 * {kind: "place", name}; `most` is null where there is no end.
 */

export const MAX_PATTERN = 10_000;
export const MAX_NESTED = 50;
export const MAX_REPEAT = 10_000;
const LAST = 0x10ffff;

/** Says what is wrong, to follow on "is not a regular expression: ". */
export class BadPattern extends Error {}

/** Why a text cannot be used as a pattern, or empty. Whether it could be kept busy is another question. */
export function patternFlaw(pattern) {
  try {
    parse(pattern);
  } catch (problem) {
    if (problem instanceof BadPattern) return `is not a regular expression: ${problem.message}`;
    throw problem;
  }
  return "";
}

/** The pattern for the engine of JavaScript. `whole`: the text must match from end to end, else some of it. */
export function compiled(pattern, { whole = true } = {}) {
  const text = new Spelling().node(parse(pattern));
  // A search is spelled out too: left to itself the engine may begin one in the middle of a surrogate pair.
  return new RegExp(whole ? `^(?:${text})$` : `^[^]*?(?:${text})`, "u");
}

export function parse(pattern) {
  return new Parser(pattern).whole();
}

// ---------------------------------------------------------------------------------------- characters

/** Sorted and joined where they touch. */
export function rangesOf(pairs) {
  const joined = [];
  for (const [low, high] of pairs.slice().sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = joined.at(-1);
    if (last && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else joined.push([low, high]);
  }
  return joined;
}

export function allBut(ranges) {
  const gaps = [];
  let begin = 0;
  for (const [low, high] of ranges) {
    if (low > begin) gaps.push([begin, low - 1]);
    begin = high + 1;
  }
  if (begin <= LAST) gaps.push([begin, LAST]);
  return gaps;
}

const DIGIT = [[48, 57]];
const WORD = [[48, 57], [65, 90], [95, 95], [97, 122]];
const SPACE = [[9, 13], [32, 32]];
const KINDS = { d: DIGIT, w: WORD, s: SPACE, D: allBut(DIGIT), W: allBut(WORD), S: allBut(SPACE) };
const NOT_LINE_FEED = allBut([[10, 10]]);
const ALL = [[0, LAST]];
const LETTERS = { t: 9, n: 10, v: 11, f: 12, r: 13, a: 7 };
const CODES = { x: 2, u: 4, U: 8 };
const PLACES = { A: "start", Z: "end", b: "edge", B: "no edge" };

function bothCases(ranges) {
  const pairs = ranges.slice();
  for (const [low, high] of ranges) {
    for (const [first, other] of [[65, 97], [97, 65]]) {
      const begin = Math.max(low, first);
      const end = Math.min(high, first + 25);
      if (begin <= end) pairs.push([begin - first + other, end - first + other]);
    }
  }
  return rangesOf(pairs.map(([low, high]) => [low, high]));
}

// ------------------------------------------------------------------------------------------- reading

const REPEAT = /\{(?:([0-9]+)(,?)|,)([0-9]*)\}/y;
const FLAGS = /^\(\?([is]{1,2})\)/;
const GROUP = /([is]{1,2}):|P<([A-Za-z_][A-Za-z0-9_]*)>/y;
const LOOKS = [["=", false, true], ["!", false, false], ["<=", true, true], ["<!", true, false]];
const BOUNDS = [["*", 0, null], ["+", 1, null], ["?", 0, 1]];

class Parser {
  #names = new Set();
  #depth = 0;
  #anyCase = false;
  #allLines = false;

  constructor(pattern) {
    this.text = [...pattern]; // by character: half a pair is one of its own
    this.at = 0;
  }

  whole() {
    if (this.text.length > MAX_PATTERN) throw new BadPattern("it is longer than 10,000 characters");
    for (let at = 0; at < this.text.length; at += 1) {
      const code = this.text[at].codePointAt(0);
      if (code >= 0xd800 && code <= 0xdfff) throw new BadPattern(`half a surrogate pair at character ${at + 1}`);
    }
    const found = FLAGS.exec(this.text.slice(0, 6).join(""));
    if (found) {
      this.at = found[0].length;
      this.#setFlags(found[1]);
    }
    const node = this.#choice();
    if (this.at < this.text.length) this.#fail("a bracket closes what was not opened");
    return node;
  }

  #fail(what, at = this.at) {
    throw new BadPattern(`${what} at character ${at + 1}`);
  }

  #setFlags(names) {
    this.#anyCase ||= names.includes("i");
    this.#allLines ||= names.includes("s");
  }

  #sees(text) {
    for (let n = 0; n < text.length; n += 1) if (this.text[this.at + n] !== text[n]) return false;
    return true;
  }

  #take(text) {
    if (!this.#sees(text)) return false;
    this.at += text.length;
    return true;
  }

  /** What a sticky expression finds here. All it can find is ASCII, so units are characters. */
  #match(expression) {
    const ahead = this.text.slice(this.at, this.at + MAX_PATTERN).join("");
    expression.lastIndex = 0;
    return expression.exec(ahead);
  }

  #choice() {
    const parts = [this.#sequence()];
    while (this.#take("|")) parts.push(this.#sequence());
    return parts.length === 1 ? parts[0] : { kind: "choice", parts };
  }

  #sequence() {
    const parts = [];
    while (this.at < this.text.length && this.text[this.at] !== "|" && this.text[this.at] !== ")") {
      const begun = this.at;
      let item = this.#item();
      const bounds = this.#bounds();
      if (bounds !== null) {
        if (item.kind === "place" || item.kind === "look") this.#fail("nothing to repeat", begun);
        item = this.#repeat(item, bounds);
        const again = this.at;
        if (this.#bounds() !== null) this.#fail("a repeat of a repeat", again);
      }
      parts.push(item);
    }
    return parts.length === 1 ? parts[0] : { kind: "sequence", parts };
  }

  #repeat(body, [least, most]) {
    if (this.#take("+")) return { kind: "atomic", body: { kind: "repeat", least, most, lazy: false, body } };
    return { kind: "repeat", least, most, lazy: this.#take("?"), body };
  }

  /** How often what stands before may come; null if no repeat stands here. `{` may be just a brace. */
  #bounds() {
    for (const [sign, least, most] of BOUNDS) if (this.#take(sign)) return [least, most];
    if (this.text[this.at] !== "{") return null;
    const found = this.#match(REPEAT);
    if (found === null) return null;
    if (found[0] === "{,}") this.#fail("a repeat without a number");
    const begun = this.at;
    this.at += found[0].length;
    const least = this.#number(found[1] ?? "0", begun);
    let most = found[3] ? this.#number(found[3], begun) : null;
    if (found[1] && !found[2]) most = least;
    if (most !== null && most < least) this.#fail("a repeat that ends before it begins", begun);
    return [least, most];
  }

  #number(digits, begun) {
    if (digits.length > 9 || Number(digits) > MAX_REPEAT) this.#fail("a repeat of more than 10,000", begun);
    return Number(digits);
  }

  #item() {
    const begun = this.at;
    const sign = this.text[begun];
    this.at += 1;
    if (sign === "(") return this.#group(begun);
    if (sign === "[") return this.#class(begun);
    if (sign === ".") return chars(this.#allLines ? ALL : NOT_LINE_FEED);
    if (sign === "^" || sign === "$") return { kind: "place", name: sign === "^" ? "start" : "end" };
    if ("*+?".includes(sign)) this.#fail("nothing to repeat", begun);
    if (sign === "{") {
      this.at = begun;
      if (this.#bounds() !== null) this.#fail("nothing to repeat", begun);
      this.at = begun + 1;
    }
    if (sign === "\\") {
      const name = Object.hasOwn(PLACES, this.text[this.at] ?? "") ? PLACES[this.text[this.at]] : undefined;
      if (name !== undefined) {
        this.at += 1;
        return { kind: "place", name };
      }
      const found = this.#escape(begun);
      return this.#chars(typeof found === "number" ? [[found, found]] : found);
    }
    const code = sign.codePointAt(0);
    return this.#chars([[code, code]]);
  }

  #chars(ranges) {
    return chars(this.#anyCase ? bothCases(ranges) : ranges);
  }

  /** After a backslash: a character, or a kind of them. */
  #escape(begun) {
    const sign = this.text[this.at];
    if (sign === undefined) this.#fail("a backslash before nothing", begun);
    this.at += 1;
    if (Object.hasOwn(KINDS, sign)) return KINDS[sign];
    if (Object.hasOwn(LETTERS, sign)) return LETTERS[sign];
    if (Object.hasOwn(CODES, sign)) {
      const digits = this.text.slice(this.at, this.at + CODES[sign]).join("");
      this.at += CODES[sign];
      if (digits.length !== CODES[sign] || !/^[0-9a-fA-F]*$/.test(digits)) this.#fail("a code that is no number", begun);
      const code = parseInt(digits, 16);
      if (code > LAST || (code >= 0xd800 && code <= 0xdfff)) this.#fail("a code of no character", begun);
      return code;
    }
    if ("123456789".includes(sign)) this.#fail("a back-reference, which is not supported,", begun);
    if (/^[0-9A-Za-z]$/.test(sign)) this.#fail("an escape that is not known", begun);
    return sign.codePointAt(0);
  }

  #class(begun) {
    const negated = this.#take("^");
    const pairs = [];
    for (let first = true; first || !this.#take("]"); first = false) {
      const start = this.at;
      const low = this.#member(begun);
      if (this.#sees("-") && !this.#sees("-]")) {
        this.at += 1;
        const high = this.#member(begun);
        if (typeof low !== "number" || typeof high !== "number" || high < low) {
          this.#fail("a range that runs backwards, or from no character,", start);
        }
        pairs.push([low, high]);
      } else if (typeof low === "number") pairs.push([low, low]);
      else pairs.push(...low.map((pair) => pair.slice()));
    }
    let ranges = rangesOf(pairs);
    if (this.#anyCase) ranges = bothCases(ranges);
    return chars(negated ? allBut(ranges) : ranges);
  }

  #member(begun) {
    const { at } = this;
    if (at >= this.text.length) this.#fail("a class that is not closed", begun);
    this.at += 1;
    if (this.text[at] !== "\\") return this.text[at].codePointAt(0);
    if (this.#take("b")) return 8;
    return this.#escape(at);
  }

  #group(begun) {
    const flags = [this.#anyCase, this.#allLines];
    const wrap = this.#kindOfGroup(begun);
    this.#depth += 1;
    if (this.#depth > MAX_NESTED) throw new BadPattern(`it is nested deeper than ${MAX_NESTED} levels`);
    const body = this.#choice();
    if (!this.#take(")")) this.#fail("a group that is not closed", begun);
    this.#depth -= 1;
    [this.#anyCase, this.#allLines] = flags;
    const node = wrap(body);
    if (node.kind === "look" && node.body === body && node.behind && width(body) === null) {
      this.#fail("a look behind that has no fixed width, or is atomic,", begun);
    }
    return node;
  }

  #kindOfGroup(begun) {
    const plain = (body) => body;
    if (!this.#take("?")) return plain;
    for (const [sign, behind, wanted] of LOOKS) {
      if (this.#take(sign)) return (body) => ({ kind: "look", behind, wanted, body });
    }
    if (this.#take(":")) return plain;
    if (this.#take(">")) return (body) => ({ kind: "atomic", body });
    const found = this.#match(GROUP);
    if (found === null) this.#fail("a group of a kind that is not supported", begun);
    this.at += found[0].length;
    if (found[1]) this.#setFlags(found[1]);
    else if (this.#names.has(found[2])) this.#fail("a name that is given twice", begun);
    else this.#names.add(found[2]);
    return plain;
  }
}

const chars = (ranges) => ({ kind: "chars", ranges });

/** How many characters it takes, if that is always the same number; else null. */
export function width(node) {
  switch (node.kind) {
    case "chars":
      return 1;
    case "place":
    case "look":
      return 0;
    case "sequence":
      return node.parts.map(width).reduce((sum, part) => (sum === null || part === null ? null : sum + part), 0);
    case "choice": {
      const parts = node.parts.map(width);
      return parts.every((part) => part === parts[0]) ? parts[0] : null;
    }
    case "repeat": {
      const once = node.least === node.most ? width(node.body) : null;
      return once === null ? null : once * node.least;
    }
  }
  return null;
}

// ------------------------------------------------------------------------------------------ spelling

const WORDS = "[0-9A-Za-z_]";
const SPELT_PLACES = {
  start: "^",
  end: "$",
  edge: `(?:(?<!${WORDS})(?=${WORDS})|(?<=${WORDS})(?!${WORDS}))`,
  "no edge": `(?:(?<!${WORDS})(?!${WORDS})|(?<=${WORDS})(?=${WORDS}))`,
};

/**
 * For the engine of JavaScript. An atomic group is looked at ahead and then taken as it was seen: that is exact
 * in every engine, with or without atomic groups of its own.
 */
class Spelling {
  #atoms = 0;

  node(node) {
    switch (node.kind) {
      case "chars":
        return spelt(node.ranges);
      case "sequence":
        return node.parts.map((part) => this.node(part)).join("");
      case "choice":
        return `(?:${node.parts.map((part) => this.node(part)).join("|")})`;
      case "repeat": {
        const body = node.body.kind === "chars" ? this.node(node.body) : `(?:${this.node(node.body)})`;
        return `${body}{${node.least},${node.most ?? ""}}${node.lazy ? "?" : ""}`;
      }
      case "atomic": {
        this.#atoms += 1;
        const name = `a${this.#atoms}`;
        return `(?=(?<${name}>${this.node(node.body)}))\\k<${name}>`;
      }
      case "look":
        return `(?${node.behind ? "<" : ""}${node.wanted ? "=" : "!"}${this.node(node.body)})`;
    }
    return SPELT_PLACES[node.name];
  }
}

function spelt(ranges) {
  if (!ranges.length) return "(?:(?!))"; // in a group: an assertion cannot be repeated
  if (ranges.length === 1 && ranges[0][0] === ranges[0][1]) return code(ranges[0][0]);
  const all = ranges.length === 1 && ranges[0][0] === 0 && ranges[0][1] === LAST;
  const negated = !all && ranges.at(-1)[1] === LAST;
  const shown = negated ? allBut(ranges) : ranges;
  const inside = shown.map(([low, high]) => (low === high ? code(low) : `${code(low)}-${code(high)}`));
  return `[${negated ? "^" : ""}${inside.join("")}]`;
}

const code = (point) => {
  const character = String.fromCodePoint(point);
  return /^[0-9A-Za-z]$/.test(character) ? character : `\\u{${point.toString(16)}}`;
};
