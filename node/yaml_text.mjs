/**
 * The texts of plain YAML: without quotes, in quotes, and of whole lines; and how a reader moves among them.
 *
 * src/kfm/parsing/yaml_text.py line by line.
 */

export const BLANK = ["", " ", "\t", "\n"];
export const QUOTES = ["'", '"'];
const PUNCTUATION = [",", "[", "]", "{", "}"];
export const NEVER_FIRST = [...PUNCTUATION, ...QUOTES, "#", "&", "*", "!", "|", ">", "%", "@", "`"];
const ESCAPES = new Map([
  ["0", "\0"], ["a", "\x07"], ["b", "\b"], ["t", "\t"], ["\t", "\t"], ["n", "\n"], ["v", "\v"], ["f", "\f"],
  ["r", "\r"], ["e", "\x1b"], [" ", " "], ['"', '"'], ["/", "/"], ["\\", "\\"], ["N", "\x85"], ["_", "\xa0"],
  ["L", "\u2028"], ["P", "\u2029"],
]);
const DIGITS = new Map([["x", 2], ["u", 4], ["U", 8]]);
export const SPACES = /[ \t]*/y;
const INDENTATION = / */y;
export const LINE = /[^\n]*/y;
const MARKER = /(?:---|\.\.\.)(?:[ \t\n]|$)/y;
const IN_SINGLE = /[^'\n \t]*/y;
const IN_DOUBLE = /[^"\\\n \t]*/y;
export const IN_BLOCK = /[^:\n \t]*/y;
export const IN_BRACKETS = /[^:\n \t,[\]{}]*/y;
const HEADER = /[|>](?:([+-])?([1-9])?|([1-9])([+-]))(?=[ \t\n]|$)/y;
const HEXADECIMAL = /^[0-9a-fA-F]+$/;

/** Where a match that begins at `at` ends; all but MARKER and HEADER match anywhere. */
function end(what, text, at) {
  what.lastIndex = at;
  what.test(text);
  return what.lastIndex;
}

/** `str.rstrip(" \t")`. */
export function trimmed(text) {
  let stop = text.length;
  while (stop > 0 && (text[stop - 1] === " " || text[stop - 1] === "\t")) stop -= 1;
  return text.slice(0, stop);
}

/**
 * A text that is being read. Between two values `at` is where the next content begins, and `column` how far it
 * is indented; -1 where the document ends.
 */
export class Texts {
  constructor(text, fail) {
    this.text = text;
    this.at = 0;
    this.column = -1;
    this.fail = fail;
  }

  wrong(at, what, hint = "correct it there") {
    this.fail(at, `not YAML: ${what}`, hint);
  }

  // -- moving on

  character(at) {
    return this.text[at] ?? "";
  }

  here() {
    return this.character(this.at);
  }

  next() {
    return this.character(this.at + 1);
  }

  /** Moves over what matches here, and gives it. */
  skip(what) {
    const start = this.at;
    this.at = end(what, this.text, start);
    return this.text.slice(start, this.at);
  }

  isMarker(at) {
    MARKER.lastIndex = at;
    return MARKER.test(this.text);
  }

  /** How many spaces the line begins with that starts at `line`. */
  indentation(line) {
    return end(INDENTATION, this.text, line) - line;
  }

  /** From the start of a line to the next that holds more than spaces and a comment. */
  content() {
    for (;;) {
      const start = this.at;
      this.skip(INDENTATION);
      const indented = this.at;
      this.skip(SPACES);
      if (this.here() === "#") this.skip(LINE);
      if (this.here() === "\n") {
        this.at += 1;
        continue;
      }
      this.column = this.at - start;
      if (!this.here() || (!this.column && this.isMarker(start))) this.column = -1;
      else if (this.at > indented) {
        this.wrong(indented, "a tab where spaces belong", "indent with spaces, never tabs");
      }
      return;
    }
  }

  /** Whether the line holds nothing more but spaces and a comment. Moves over those. */
  ends() {
    const spaces = this.skip(SPACES);
    if (this.here() === "#" && spaces) this.skip(LINE);
    return ["", "\n"].includes(this.here());
  }

  /** To the content after this line, which must hold nothing more. */
  lineEnd(otherwise) {
    if (!this.ends()) this.wrong(this.at, otherwise);
    this.at = Math.min(this.at + 1, this.text.length);
    this.content();
  }

  /** Where the colon stands that makes a key of what ends at `at`; -1 if there is none. */
  colon(at) {
    at = end(SPACES, this.text, at);
    return this.character(at) === ":" && BLANK.includes(this.character(at + 1)) ? at : -1;
  }

  // -- texts without quotes

  mayBegin(brackets) {
    const here = this.here();
    const following = this.next();
    let allowed = !NEVER_FIRST.includes(here);
    if (["-", "?", ":"].includes(here)) {
      allowed = !BLANK.includes(following) && !(brackets && PUNCTUATION.includes(following));
    }
    if (!allowed && here === ":") this.fail(this.at, "a key must be text, found nothing", "quote it");
    if (!allowed) this.wrong(this.at, `a text without quotes cannot begin with ${here}`, "put it in quotes");
  }

  /** Where a text without quotes stops on its line: before a comment or a colon, in brackets before punctuation. */
  plainEnd(at, ordinary) {
    for (;;) {
      at = end(ordinary, this.text, at);
      const here = this.character(at);
      const following = this.character(at + 1);
      if (here === ":") {
        if (BLANK.includes(following) || (ordinary === IN_BRACKETS && PUNCTUATION.includes(following))) return at;
      } else if (![" ", "\t"].includes(here) || following === "#") return at;
      at += 1;
    }
  }

  /** A text, and the lines below it in which it goes on. */
  plainLines(parent) {
    let out = "";
    let joint = "";
    do {
      const start = this.at;
      this.at = this.plainEnd(start, IN_BLOCK);
      if (this.here() === ":") this.wrong(this.at, "mapping values are not allowed here");
      out += joint + trimmed(this.text.slice(start, this.at));
      joint = this.joint(parent);
    } while (joint);
    this.lineEnd("");
    return out;
  }

  /** What joins the next line to a text that goes on in it; empty, and not moved, if it does not. */
  joint(parent) {
    const before = this.at;
    this.skip(SPACES);
    const [gap, indent, start] = this.blankLines();
    const ends = ["", "#"].includes(this.here()) || indent <= parent || (!indent && this.isMarker(start));
    if (gap < 0 || ends) {
      this.at = before;
      return "";
    }
    return "\n".repeat(gap) || " ";
  }

  /**
   * Moves over a line end and what is blank after it. How many lines were, or -1 if this is no line end; by how
   * many spaces the line is indented that is not, and where it starts.
   */
  blankLines() {
    let gap = -1;
    let indent = 0;
    let start = this.at;
    while (this.here() === "\n") {
      this.at += 1;
      gap += 1;
      start = this.at;
      indent = this.skip(INDENTATION).length;
      this.skip(SPACES);
    }
    return [gap, indent, start];
  }

  // -- texts in quotes

  quoted(parent) {
    const start = this.at;
    const quote = this.here();
    const ordinary = quote === "'" ? IN_SINGLE : IN_DOUBLE;
    this.at += 1;
    let out = "";
    for (;;) {
      out += this.skip(ordinary);
      const here = this.here();
      if (!here) this.wrong(start, "a quoted text is not closed", "close it");
      if (here === "\n") out += "\n".repeat(this.fold(start, parent)) || " ";
      else if ([" ", "\t"].includes(here)) {
        const spaces = this.skip(SPACES);
        out += this.here() === "\n" ? "" : spaces;
      } else if (here === "\\") out += this.escape(start, parent);
      else if (quote === "'" && this.next() === "'") {
        this.at += 2;
        out += "'";
      } else {
        this.at += 1;
        return out;
      }
    }
  }

  /** Moves to where a quoted text goes on; how many blank lines there are before. */
  fold(start, parent) {
    const [gap, indent, line] = this.blankLines();
    if (this.here() && (indent <= parent || (!indent && this.isMarker(line)))) {
      this.wrong(start, "a quoted text is not closed", "close it");
    }
    return gap;
  }

  escape(start, parent) {
    const letter = this.next();
    if (letter === "\n") {
      this.at += 1;
      return "\n".repeat(this.fold(start, parent));
    }
    if (DIGITS.has(letter)) return this.code();
    if (!ESCAPES.has(letter)) {
      this.wrong(this.at, "a backslash before a character that needs none", "write \\\\ for a backslash itself");
    }
    this.at += 2;
    return ESCAPES.get(letter);
  }

  /** A character by its number. Two that are halves of one, as JSON writes it, are that one. */
  code() {
    const begun = this.at;
    const code = this.number();
    if (code >= 0xd800 && code < 0xdc00 && this.text.startsWith("\\u", this.at)) {
      const low = this.number();
      if (low >= 0xdc00 && low < 0xe000) return String.fromCharCode(code, low);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) this.wrong(begun, "this escape is no character");
    return String.fromCodePoint(code);
  }

  number() {
    const width = DIGITS.get(this.next());
    const digits = this.text.slice(this.at + 2, this.at + 2 + width);
    if (digits.length < width || !HEXADECIMAL.test(digits)) {
      this.wrong(this.at, `here ${width} hexadecimal digits are expected`);
    }
    this.at += 2 + width;
    return parseInt(digits, 16);
  }

  // -- texts of whole lines

  /** The lines below `|` or `>`, without their indentation. */
  blockText(parent) {
    const folded = this.here() === ">";
    HEADER.lastIndex = this.at;
    const header = HEADER.exec(this.text);
    if (header === null) this.wrong(this.at, "after | or > only + or - and a digit may follow");
    const keep = header[1] || header[4];
    const digit = header[2] || header[3];
    this.at += header[0].length;
    if (!this.ends()) this.wrong(this.at, "after | or > only + or - and a digit may follow");
    this.at = Math.min(this.at + 1, this.text.length);
    const least = Math.max(parent + 1, 1);
    const indent = digit ? least + Number(digit) - 1 : this.firstIndentation(least);
    const lines = [];
    let ended = true;
    while (this.at < this.text.length) {
      const line = this.text.slice(this.at, end(LINE, this.text, this.at));
      if (/[^ ]/.test(line.slice(0, indent))) break;
      lines.push(line.slice(indent));
      ended = this.at + line.length < this.text.length;
      if (!ended && !/[^ ]/.test(line) && (keep === "+" || (lines.at(-1) && !keep))) {
        const what = "the last line holds only spaces and has no line end, which YAML parsers read differently";
        this.fail(this.at, what, "remove the spaces, or end the line");
      }
      this.at = Math.min(this.at + line.length + 1, this.text.length);
    }
    const after = this.at + this.indentation(this.at);
    if (this.character(after) === "\t") { // even of a blank line: it could be one of the text
      this.wrong(after, "a tab where spaces belong", "indent with spaces, never tabs");
    }
    this.content();
    return joined(lines, folded, keep, ended);
  }

  /** By how much the first line of a text is indented that is not blank. */
  firstIndentation(least) {
    let { at } = this;
    let widest = least;
    let spaces = 0;
    for (;;) {
      spaces = this.indentation(at);
      const following = this.character(at + spaces);
      if (following && following !== "\n") break;
      widest = Math.max(widest, spaces);
      at += spaces + 1;
      if (!following) return widest;
    }
    if (least <= spaces && spaces < widest) {
      this.wrong(this.at, "blank lines before a text are indented further than it");
    }
    return Math.max(spaces, widest);
  }
}

/**
 * The lines of a text as one. `keep`: `+` keeps all line ends after it, `-` none; else it is one, if there is any.
 * `ended`: the last line has one.
 */
function joined(lines, folded, keep, ended) {
  let full = lines.length;
  while (full && !lines[full - 1]) full -= 1;
  let out = "";
  let before = "";
  let gap = 0;
  for (const line of lines.slice(0, full)) {
    if (!line) {
      gap += 1;
      continue;
    }
    if (before) {
      const flowing = folded && !" \t".includes(before[0]) && !" \t".includes(line[0]);
      out += !flowing ? "\n" : gap ? "" : " ";
    }
    out += "\n".repeat(gap) + line;
    gap = 0;
    before = line;
  }
  const ends = lines.length - full + (before ? 1 : 0) - (ended ? 0 : 1);
  if (keep === "+") return out + "\n".repeat(ends);
  return before && ends && keep !== "-" ? out + "\n" : out;
}
