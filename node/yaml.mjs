/**
 * Reads plain YAML: mappings and lists by indentation or in brackets, and texts, quoted or not.
 *
 * It is that part of YAML which readers of any version take alike, so that a file means the same in every
 * language: this is src/kfm/parsing/yaml.py line by line. What could mean two things, or could make a
 * small file large, is refused with its place: tags, anchors, aliases, merge keys, duplicate keys, keys that
 * are no text, pairs in lists, a second document.
 */

import { length } from "./characters.mjs";
import { printable } from "./names.mjs";
import { kind, plain } from "./yaml_scalars.mjs";
import { BLANK, IN_BLOCK, IN_BRACKETS, LINE, NEVER_FIRST, QUOTES, SPACES, Texts, trimmed } from "./yaml_text.mjs";

export const MAX_DEPTH = 50;
export const MAX_VALUES = 100_000;
export const MAX_KEY = 1024;

/** A path as the key of a map. */
export const pathKey = (path) => JSON.stringify(path);

/** One text on its way to a value, and where each part of it stands. */
export class Yaml extends Texts {
  constructor(text, fail) {
    super(text, fail);
    this.places = new Map();
    this.outermost = 0; // where the brackets opened that no others are around
    this.margin = -1; // how far that is indented which they belong to
  }

  // -- the document

  document() {
    this.content();
    if (this.here() === "%" && this.column === 0) {
      this.fail(this.at, "has a % directive", "remove it; the file is read as YAML 1.2");
    }
    const begun = this.marked("---");
    if (begun) this.pastMarker();
    if (this.column < 0 && !begun) this.fail(this.at, "is empty", "write what belongs there; `kfm init` writes a whole kfm.yml");
    this.note([], this.at);
    const value = this.column >= 0 ? this.node(-1, [], 0) : null;
    if (this.column >= 0) this.wrong(this.at, "the indentation does not fit the lines before it");
    while (this.marked("...")) this.pastMarker();
    if (this.at < this.text.length) this.fail(this.at, "a second document begins", "keep one document in a file");
    return value;
  }

  marked(marker) {
    return this.column < 0 && this.text.startsWith(marker, this.at);
  }

  pastMarker() {
    this.at += 3;
    this.lineEnd("more text follows --- or ... on its line");
  }

  // -- what may not be

  /** Where a value stands: a member of a mapping where its key does. */
  note(path, at) {
    const key = pathKey(path);
    if (!this.places.has(key)) this.places.set(key, at);
    if (this.places.size > MAX_VALUES) {
      this.fail(at, `holds more than ${MAX_VALUES} values`, "keep data out of settings files");
    }
  }

  guard() {
    const here = this.here();
    if (here === "&" || here === "*") {
      this.fail(this.at, "anchors (&) and aliases (*) are not read", "write it out, or quote the text");
    }
    if (here === "!") this.fail(this.at, "tags (!) are not read", "remove the tag, or quote the text");
    if (here === "?" && BLANK.includes(this.next())) {
      this.fail(this.at, "a key must be text", "write it before its colon, without ?");
    }
  }

  deeper(depth) {
    if (depth >= MAX_DEPTH) this.fail(this.at, `nested deeper than ${MAX_DEPTH} levels`, "flatten it");
  }

  // -- by indentation

  /** What begins here, in `column`, as part of what is indented by `parent`. */
  node(parent, path, depth) {
    this.guard();
    if (this.isItem()) return this.list(path, depth);
    if (this.keyEnd() >= 0) return this.mapping(path, depth);
    return this.inline(parent, path, depth);
  }

  isItem() {
    return this.here() === "-" && BLANK.includes(this.next());
  }

  list(path, depth) {
    this.deeper(depth);
    const { column } = this;
    const items = [];
    while (this.column === column && this.isItem()) {
      const here = [...path, items.length];
      const dash = this.at;
      this.at += 1;
      if (this.ends()) {
        this.lineEnd("");
        const further = this.column > column;
        this.note(here, further ? this.at : dash);
        items.push(further ? this.node(column, here, depth + 1) : null);
      } else {
        if (this.text.slice(dash, this.at).includes("\t")) {
          this.wrong(dash + 1, "a tab where spaces belong", "put spaces after the dash, never tabs");
        }
        this.note(here, this.at);
        this.column += this.at - dash;
        items.push(this.node(column, here, depth + 1));
      }
      this.fits(column);
    }
    return items;
  }

  fits(column) {
    if (this.column > column) this.wrong(this.at, "the indentation does not fit the lines before it");
  }

  mapping(path, depth) {
    this.deeper(depth);
    const { column } = this;
    const found = Object.create(null);
    while (this.column === column) {
      this.guard();
      if (this.isItem()) this.wrong(this.at, "a list item is among the keys of a mapping");
      const end = this.keyEnd();
      if (end < 0) this.wrong(this.at, "here a key and its colon are expected");
      const start = this.at;
      const key = this.key(end, found);
      const here = [...path, key];
      this.note(here, start);
      this.at = this.text.indexOf(":", end) + 1;
      if (this.ends()) {
        this.lineEnd("");
        const below = this.column > column || (this.column === column && this.isItem());
        found[key] = below ? this.node(column, here, depth + 1) : null;
      } else {
        this.guard();
        if (this.isItem()) this.wrong(this.at, "a list item must begin on a line of its own");
        found[key] = this.inline(column, here, depth + 1);
      }
      this.fits(column);
    }
    return found;
  }

  /** A text, or what stands in brackets; then the line must end. */
  inline(parent, path, depth) {
    const start = this.at;
    const here = this.here();
    if (here === "|" || here === ">") return this.blockText(parent);
    if (here === "[" || here === "{") {
      this.outermost = start;
      this.margin = parent;
      const value = this.flow(path, depth);
      if (this.colon(this.at) >= 0) this.fail(start, "a key must be text", "quote it if it begins with [ or {");
      this.lineEnd("more text follows a closing bracket");
      return value;
    }
    if (QUOTES.includes(here)) {
      const text = this.quoted(parent);
      if (this.colon(this.at) >= 0) this.wrong(this.colon(this.at), "mapping values are not allowed here");
      this.lineEnd("more text follows a quoted text");
      return text;
    }
    this.mayBegin(false);
    return plain(this.plainLines(parent), (what, hint) => this.fail(start, what, hint));
  }

  // -- keys

  /** Where the key ends that begins here, if its colon is on this line; else -1. */
  keyEnd() {
    const here = this.here();
    if (QUOTES.includes(here)) return this.quotedKeyEnd(here);
    if (NEVER_FIRST.includes(here)) return -1;
    const end = this.plainEnd(this.at, IN_BLOCK);
    return this.character(end) === ":" ? end : -1;
  }

  quotedKeyEnd(quote) {
    let at = this.at + 1;
    for (;;) {
      const here = this.character(at);
      const following = this.character(at + 1);
      if (["", "\n"].includes(here) || (here === "\\" && ["", "\n"].includes(following))) return -1;
      if ((here === "\\" && quote === '"') || (quote === "'" && here === "'" && following === "'")) at += 2;
      else if (here !== quote) at += 1;
      else return this.colon(at + 1) >= 0 ? at + 1 : -1;
    }
  }

  /** The key from here to `end`; if it is quoted, moves over it. It must be text, and new. */
  key(end, found) {
    const start = this.at;
    let key;
    if (QUOTES.includes(this.here())) key = this.quoted(this.margin);
    else {
      key = trimmed(this.text.slice(start, end));
      if (key === "<<") this.fail(start, "merge keys (<<) are not read", "write the keys out");
      key = plain(key, (what, hint) => this.fail(start, what, hint));
    }
    if (typeof key !== "string") this.fail(start, `a key must be text, found ${kind(key)}`, "quote it");
    if (length(key) > MAX_KEY) this.fail(start, `a key is longer than ${MAX_KEY} characters`, "shorten it");
    if (key in found) this.fail(start, `the key ${printable(key)} is given twice`, "keep one of them");
    return key;
  }

  // -- in brackets

  flow(path, depth) {
    this.deeper(depth);
    const start = this.at;
    this.at += 1;
    return this.text[start] === "[" ? this.flowList(start, path, depth) : this.flowMapping(start, path, depth);
  }

  flowList(start, path, depth) {
    const items = [];
    while (this.inFlow(start) !== "]") {
      const here = [...path, items.length];
      this.note(here, this.at);
      items.push(this.flowValue(here, depth + 1));
      if (this.inFlow(start) === ":") this.wrong(this.at, "a pair is in a list", "write it as {key: value}");
      this.separated("]");
    }
    this.at += 1;
    return items;
  }

  flowMapping(start, path, depth) {
    const found = Object.create(null);
    while (this.inFlow(start) !== "}") {
      this.guard();
      const begun = this.at;
      if (["[", "{"].includes(this.here())) {
        this.fail(begun, "a key must be text", "quote it if it begins with [ or {");
      }
      let key;
      if (QUOTES.includes(this.here())) key = this.key(begun, found);
      else {
        this.mayBegin(true);
        const end = this.plainEnd(begun, IN_BRACKETS);
        key = this.key(end, found);
        this.at = end;
      }
      this.skip(SPACES);
      if (this.here() !== ":") this.wrong(this.at, "here a colon is expected", "write {key: value}");
      this.at += 1;
      const here = [...path, key];
      this.note(here, begun);
      const nothing = [",", "}"].includes(this.inFlow(start));
      found[key] = nothing ? null : this.flowValue(here, depth + 1);
      this.inFlow(start);
      this.separated("}");
    }
    this.at += 1;
    return found;
  }

  /** Moves to what is no space, line end or comment; what opened at `start` must be closed before the end. */
  inFlow(start) {
    let line = -1;
    for (;;) {
      const spaces = this.skip(SPACES);
      if (this.here() === "#" && (spaces || this.text[this.at - 1] === "\n")) this.skip(LINE);
      const here = this.here();
      if (here === "\n") {
        this.at += 1;
        line = this.at;
        continue;
      }
      if (!here || (this.text[this.at - 1] === "\n" && this.isMarker(this.at))) {
        this.wrong(start, `a ${this.text[start]} is not closed`, "close it");
      }
      if (line >= 0) this.indented(line, start === this.outermost && ["]", "}"].includes(here));
      return here;
    }
  }

  /** A line in brackets is indented further than what they belong to; what closes them may be as far. */
  indented(line, closes) {
    const indent = this.indentation(line);
    if (indent > this.margin || (closes && line + indent === this.at && indent === this.margin)) return;
    if (line + indent < this.at) {
      this.wrong(line + indent, "a tab where spaces belong", "indent with spaces, never tabs");
    }
    const what = "a line in brackets must be indented further than the line that opens them";
    this.wrong(this.at, what, "indent it, or close the bracket before it");
  }

  separated(closing) {
    if (this.here() === ",") this.at += 1;
    else if (this.here() !== closing) this.wrong(this.at, `here a comma or ${closing} is expected`);
  }

  flowValue(path, depth) {
    const start = this.at;
    this.guard();
    const here = this.here();
    if (here === "[" || here === "{") return this.flow(path, depth);
    if (QUOTES.includes(here)) return this.quoted(this.margin);
    this.mayBegin(true);
    this.at = this.plainEnd(start, IN_BRACKETS);
    return plain(trimmed(this.text.slice(start, this.at)), (what, hint) => this.fail(start, what, hint));
  }
}
