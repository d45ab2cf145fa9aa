/**
 * A column of the contract, compiled: what rule a value breaks, if any.
 *
 * Twin of src/kfm/validation/column_rules.py, which says what counts as what. Python also has a fast answer for
 * many values at once; here one value is fast enough.
 */

import { createHash } from "node:crypto";

import { canonicalText, ecmascriptNumber } from "../canonical.mjs";
import { strip } from "../characters.mjs";
import { dateReader, isDate, isMoment } from "../dates.mjs";
import { BadInput } from "../errors.mjs";
import { MAX_DATE, MAX_MATCHED, MAX_NUMBER, MAX_UNIQUE, MESSAGES, NOUN, TRUTHS } from "../generated/inspection.mjs";
import { compiled } from "../patterns.mjs";
import { grouped } from "./inspect_findings.mjs";
import { isLonger } from "./inspect_text.mjs";

const REMEMBERED = 1 << 16;
const SHORT = 64;
const SET_FULL = 1 << 23; // a Set of JavaScript holds less than 2^24

const INTEGER = /^[+-]?[0-9]+$/;
const NUMBER = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const truths = new Set(TRUTHS);

const dated = (fits) => (text) => {
  const bare = strip(text);
  return !isLonger(bare, MAX_DATE) && fits(bare) ? true : null;
};

/** Read a text as a type; null if it is not. An integer is exact however long, so that it is compared exactly. */
const READERS = {
  text: (text) => text,
  integer: (text) => {
    const bare = strip(text);
    if (bare.length > MAX_NUMBER || !INTEGER.test(bare)) return null;
    return bare.length < 16 ? Number(bare) : BigInt(bare.startsWith("+") ? bare.slice(1) : bare);
  },
  number: (text) => {
    const bare = strip(text);
    if (bare.length > MAX_NUMBER || !NUMBER.test(bare)) return null;
    const number = Number(bare);
    return Number.isFinite(number) ? number : null;
  },
  boolean: (text) => (truths.has(strip(text).toLowerCase()) ? true : null),
  date: dated(isDate),
  datetime: dated(isMoment),
};

/** Texts, each kept once: short ones as they are, longer ones as digests. */
class Texts {
  #short = [new Set()];
  #long = [new Set()];
  size = 0;

  has(text) {
    return text.length <= SHORT ? among(this.#short, text) : among(this.#long, hashed(text));
  }

  add(text) {
    const sets = text.length <= SHORT ? this.#short : this.#long;
    const key = text.length <= SHORT ? text : hashed(text);
    if (among(sets, key)) return;
    if (sets.at(-1).size >= SET_FULL) sets.push(new Set());
    sets.at(-1).add(key);
    this.size += 1;
  }
}

const among = (sets, key) => sets.some((set) => set.has(key));
const hashed = (text) => createHash("sha256").update(text, "utf8").digest("latin1");

/** Tells what is wrong with values of one column. Holds the values seen if they must be unique. */
export class ColumnCheck {
  #blanks;
  #seen = new Texts();
  #allowed;
  #matches;
  #read;
  #bounded;
  #textual;
  #fine; // texts that broke no rule, where that is costly to find out

  constructor(column) {
    this.column = column;
    this.name = column.name;
    this.mode = column.mode;
    this.unique = column.unique;
    this.#blanks = new Set(["", ...column.missing, ...column.missing.map(strip)]);
    this.#allowed = column.values.length ? new Set(column.values) : null;
    this.#matches = column.pattern ? compiled(column.pattern) : null;
    const isNumeric = column.type === "integer" || column.type === "number";
    this.#bounded = isNumeric && (column.minimum !== null || column.maximum !== null);
    this.#textual = column.values.length > 0 || column.pattern !== "" || column.unique;
    const isDated = column.type === "date" || column.type === "datetime";
    this.#read = isDated && column.date_format ? dated(dateReader(column.date_format)) : READERS[column.type];
    const costly = column.pattern !== "" || isDated;
    this.#fine = costly && !column.unique ? new Set() : null;
    const checked = column.type !== "text" || column.values.length > 0 || column.pattern !== "";
    this.trivial = !(checked || column.required || column.unique);
  }

  blank(text) {
    return this.#blanks.has(text) || this.#blanks.has(strip(text));
  }

  jsonBlank(value) {
    if (typeof value === "string") return this.blank(value);
    if (value === null || value === undefined) return true;
    return this.column.missing.length > 0 && this.#blanks.has(textOf(value));
  }

  /** The first rule a value in text breaks, or empty. */
  brokenRule(text) {
    if (this.#fine?.has(text)) return "";
    if (this.blank(text)) return this.column.required ? "required" : "";
    let read = null;
    if (this.column.type !== "text") {
      read = this.#read(text);
      if (read === null) return "type";
    }
    const broken = this.#rest(read, text);
    if (!broken && this.#fine !== null && text.length <= SHORT) {
      if (this.#fine.size >= REMEMBERED) this.#fine.clear();
      this.#fine.add(text);
    }
    return broken;
  }

  /** The same for a value of a JSON record; null and an absent member are blank. */
  brokenJsonRule(value) {
    if (this.jsonBlank(value)) return this.column.required ? "required" : "";
    const kind = this.column.type;
    let read = null;
    if (kind === "integer" || kind === "number") {
      if (typeof value !== "number" || (kind === "integer" && !Number.isInteger(value))) return "type";
      read = value;
    } else if (kind === "boolean") {
      if (typeof value !== "boolean") return "type";
    } else if (typeof value !== "string" || (kind !== "text" && this.#read(value) === null)) return "type";
    return this.#rest(read, this.#textual ? textOf(value) : "");
  }

  #rest(read, text) {
    if (this.#bounded) {
      if (this.column.minimum !== null && read < this.column.minimum) return "minimum";
      if (this.column.maximum !== null && read > this.column.maximum) return "maximum";
    }
    if (this.#allowed !== null && !this.#allowed.has(text)) return "values";
    if (this.#matches !== null && (isLonger(text, MAX_MATCHED) || !this.#matches(text))) return "pattern";
    if (this.unique && this.#seen.has(text)) return "unique";
    return "";
  }

  /** The row with this value passed, and the value in it. */
  saw(text) {
    if (this.blank(text)) return;
    this.#seen.add(text);
    if (this.#seen.size > MAX_UNIQUE) {
      throw new BadInput(`column ${this.name} has more than ${grouped(MAX_UNIQUE)} values to keep apart`, {
        hint: "take `unique` off this column, or split the source",
      });
    }
  }

  violation(rule) {
    return [this.name, rule, this.mode, this.#message(rule)];
  }

  #message(rule) {
    if (rule === "type") return `the value is not ${NOUN[this.column.type]}`;
    if (rule === "minimum") return `the value is below ${ecmascriptNumber(this.column.minimum)}`;
    if (rule === "maximum") return `the value is above ${ecmascriptNumber(this.column.maximum)}`;
    return MESSAGES[rule];
  }
}

/** A JSON value as the contract's texts write it: 1.0 is 1, true is true. */
export function textOf(value) {
  if (typeof value === "string") return value;
  return value === null || value === undefined ? "" : canonicalText(value);
}
