/** Tables in memory: the model the other backends are held against, and the top half of a dry run. Twin of store/memory.py. */

import { compare } from "../characters.mjs";
import { BadInput } from "../errors.mjs";

export function successor(prefix) {
  const points = [...prefix];
  for (let at = points.length - 1; at >= 0; at -= 1) {
    const code = points[at].codePointAt(0);
    if (code < 0x10ffff) return points.slice(0, at).join("") + String.fromCodePoint(code === 0xd7ff ? 0xe000 : code + 1);
  }
  return "";
}

export function checkKey(key) {
  if (!key.isWellFormed()) {
    throw new BadInput("a key is not valid Unicode text", { hint: "it holds half of a surrogate pair" });
  }
}

/** A mistake of the caller, as in Python. */
export class RuntimeError extends Error {
  get name() {
    return "RuntimeError";
  }
}

const SURROGATE = /[\ud800-\udfff]/;

/** In the order of code points; UTF-16 has the same unless a character is past U+FFFF. */
const ordered = (keys) => keys.some((key) => SURROGATE.test(key)) ? keys.sort(compare) : keys.sort();

/** How many of the sorted keys come before `key`; with `through`, also those equal to it. */
function below(keys, key, through = false) {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const side = compare(keys[middle], key);
    if (side < 0 || (through && side === 0)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Plain maps with an undo list. */
export class MemoryTables {
  constructor() {
    this._rows = new Map();
    this._sorted = new Map(); // dropped when a key comes or goes, rebuilt on scan
    this._undo = null;
  }

  get(table, key) {
    checkKey(key);
    return this._rows.get(table)?.get(key) ?? null;
  }

  *scan(table, prefix = "", { after = "", reverse = false, limit = -1 } = {}) {
    checkKey(prefix + after);
    const rows = this._rows.get(table) ?? new Map();
    let keys = this._sorted.get(table);
    if (keys === undefined) this._sorted.set(table, (keys = ordered([...rows.keys()])));
    let low = below(keys, prefix);
    const end = successor(prefix);
    let high = end ? below(keys, end) : keys.length;
    if (after) {
      if (reverse) high = Math.min(high, below(keys, after));
      else low = Math.max(low, below(keys, after, true));
    }
    if (limit >= 0 && limit < high - low) [low, high] = reverse ? [high - limit, high] : [low, low + limit];
    const found = keys.slice(low, high);
    if (reverse) found.reverse();
    const values = found.map((key) => rows.get(key));
    for (let at = 0; at < found.length; at += 1) yield [found[at], values[at]];
  }

  begin(_durable = true) {
    if (this._undo !== null) throw new RuntimeError("a transaction is open already");
    this._undo = [];
  }

  put(table, key, value) {
    checkKey(key);
    let rows = this._rows.get(table);
    if (rows === undefined) this._rows.set(table, (rows = new Map()));
    const before = rows.get(key);
    this._undo?.push([table, key, before]);
    if (before === undefined) this._sorted.delete(table);
    rows.set(key, value);
  }

  putMany(table, rows) {
    for (const [key, value] of rows) this.put(table, key, value);
  }

  delete(table, key) {
    checkKey(key);
    const rows = this._rows.get(table);
    const before = rows?.get(key);
    if (before === undefined) return;
    rows.delete(key);
    this._sorted.delete(table);
    this._undo?.push([table, key, before]);
  }

  commit() {
    this._undo = null;
  }

  rollback() {
    const undo = this._undo ?? [];
    this._undo = null;
    for (const [table, key, before] of undo.reverse()) {
      if (before === undefined) this._rows.get(table).delete(key);
      else this._rows.get(table).set(key, before);
      this._sorted.delete(table);
    }
  }

  foreign() {
    return 0;
  }

  close() {}
}
