/**
 * Text to rows of fields, a block at a time. Twin of src/kfm/validation/text_rows.py.
 *
 * The reader is that of Python's csv module in its strict form: a quote opens a field only at its beginning and
 * is doubled inside; after the closing one only a delimiter or a line ending may come.
 */

import { length } from "../characters.mjs";
import { BadInput } from "../errors.mjs";
import { grouped, Unreadable } from "./inspect_findings.mjs";
import { isLonger, LIMITS, lineBlocks } from "./inspect_text.mjs";

const QUOTE = 34;
const RETURN = 13;
const FEED = 10;

/** Rows of fields out of text, block by block; a block ends with a line, so its end ends a row outside quotes. */
export class RowParser {
  #delimiter;
  #maxLine;
  #row = null; // null: between two rows
  #quoted = null; // the beginning of a field in quotes that is not closed yet

  constructor(delimiter, maxLine) {
    this.#delimiter = delimiter.charCodeAt(0);
    this.#maxLine = maxLine;
  }

  get isOpen() {
    return this.#quoted !== null;
  }

  /** The rows that end in this block go to `rows`, blank lines as empty ones. Throws Unreadable after those before it. */
  feed(block, rows) {
    const delimiter = this.#delimiter;
    let at = 0;
    if (this.#quoted !== null) at = this.#inQuotes(block, 0, rows);
    while (at < block.length) {
      let code = block.charCodeAt(at);
      if (this.#row === null) {
        if (code === FEED || code === RETURN) {
          rows.push([]);
          at = afterEnd(block, at);
          continue;
        }
        this.#row = [];
      }
      if (code === QUOTE) {
        this.#quoted = "";
        at = this.#inQuotes(block, at + 1, rows);
        continue;
      }
      const begun = at;
      while (at < block.length && code !== delimiter && code !== FEED && code !== RETURN) {
        at += 1;
        code = block.charCodeAt(at);
      }
      this.#save(block.slice(begun, at));
      at = this.#afterField(block, at, rows);
    }
  }

  #inQuotes(block, from, rows) {
    let at = from;
    for (;;) {
      const quote = block.indexOf('"', at);
      if (quote < 0) {
        this.#quoted += block.slice(at);
        this.#checkLength(this.#quoted);
        return block.length;
      }
      this.#quoted += block.slice(at, quote);
      if (block.charCodeAt(quote + 1) !== QUOTE) {
        const field = this.#quoted;
        this.#quoted = null;
        this.#save(field);
        const code = block.charCodeAt(quote + 1);
        if (quote + 1 < block.length && code !== this.#delimiter && code !== FEED && code !== RETURN) throw quotes();
        return this.#afterField(block, quote + 1, rows);
      }
      this.#quoted += '"';
      at = quote + 2;
    }
  }

  #save(field) {
    this.#checkLength(field);
    this.#row.push(field);
  }

  #checkLength(field) {
    if (isLonger(field, this.#maxLine)) {
      throw new Unreadable("too-long", `a field is over ${grouped(this.#maxLine)} characters long; the source is held`);
    }
  }

  /** At what ends a field: go past it, and end the row if it is no delimiter, or if nothing more comes. */
  #afterField(block, at, rows) {
    if (at < block.length && block.charCodeAt(at) === this.#delimiter) {
      if (at + 1 < block.length) return at + 1;
      this.#row.push("");
    }
    rows.push(this.#row);
    this.#row = null;
    return at < block.length ? afterEnd(block, at) : at;
  }
}

function afterEnd(block, at) {
  return block.charCodeAt(at) === RETURN && block.charCodeAt(at + 1) === FEED ? at + 2 : at + 1;
}

const quotes = () => new Unreadable("csv.quotes", "quotes are not closed or not doubled; the source is held");

/** Parsed rows in batches of about a block. Stops at what it cannot read and keeps it in `flaw`. */
export class TableReader {
  #read;
  #ahead = [];

  /** `layout`: what says the encoding and the delimiter. */
  constructor(body, layout, limits = LIMITS) {
    this.flaw = null;
    this.#read = this.#rows(body, layout, limits);
  }

  *#rows(body, layout, limits) {
    const parser = new RowParser(layout.delimiter, limits.maxLine);
    let open = 0; // characters handed to the parser since it last gave a row
    let rows = [];
    try {
      for (const block of lineBlocks(body, layout.encoding, limits)) {
        if (open > limits.maxLine) {
          const message = `a row is longer than ${grouped(limits.maxLine)} characters; the source is held`;
          throw new Unreadable("too-long", message);
        }
        rows = [];
        parser.feed(block, rows);
        if (!rows.length) open += length(block);
        else {
          open = 0;
          const given = rows;
          rows = [];
          yield given;
        }
      }
      if (parser.isOpen) throw quotes();
    } catch (problem) {
      if (!(problem instanceof Unreadable)) throw problem;
      this.flaw = problem;
      if (rows.length) yield rows;
    }
  }

  /** The first row that holds something, or null. */
  first() {
    for (;;) {
      const { value, done } = this.#read.next();
      if (done) return null;
      const at = value.findIndex((row) => row.length > 0);
      if (at >= 0) {
        this.#ahead = value.slice(at + 1);
        return value[at];
      }
    }
  }

  /** All other rows; blank lines are none. */
  *batches() {
    const ahead = this.#ahead.filter((row) => row.length > 0);
    this.#ahead = [];
    if (ahead.length) yield ahead;
    for (const rows of this.#read) {
      const filled = rows.filter((row) => row.length > 0);
      if (filled.length) yield filled;
    }
  }
}

/**
 * Returns the column names of a checked table, and its rows in batches. Reading them all closes the stream.
 */
export function readTable(body, layout, name, limits = LIMITS) {
  const table = new TableReader(body, layout, limits);
  const names = layout.columns.length ? [...layout.columns] : (table.first() ?? []);
  return { names, batches: checkedBatches(body, table, names.length, name) };
}

function* checkedBatches(body, table, width, name) {
  try {
    for (const rows of table.batches()) {
      if (rows.some((row) => row.length !== width)) {
        throw new BadInput(`${name} has a row with more or fewer fields than there are columns`);
      }
      yield rows;
    }
    if (table.flaw !== null) throw new BadInput(`${name}: ${table.flaw.message}`);
  } finally {
    body.close();
  }
}
