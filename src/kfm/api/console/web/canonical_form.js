/**
 * The one form of a value as text (RFC 8785): keys in UTF-16 order, no space, numbers as ECMAScript writes them.
 *
 * It imports nothing: the console's pages in a browser run this very file, too.
 */

export const MAX_DEPTH = 200;
export const MAX_INTEGER = 2 ** 53;

export const TOO_DEEP = [`is nested deeper than ${MAX_DEPTH} levels`, "flatten it"];
export const PAST_INTEGERS = ["is an integer larger than 2^53", "write it as text"];
export const HALF_PAIR = ["holds half a surrogate pair", "remove it: it is not a character"];
export const NOT_FINITE = ["is not a finite double", "use null where there is no value"];

/** No canonical form. Gathers its place from the inside out while it is thrown. */
export class Unfit extends Error {
  constructor([what, hint]) {
    super(what);
    this.hint = hint;
    this.insideOut = [];
  }
}

/** Objects and Maps are objects. Negative zero is written as 0. Throws Unfit for what JSON cannot say exactly. */
export const formOf = (value) => write(value, MAX_DEPTH);

function write(value, room) {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw new Unfit(HALF_PAIR);
      return JSON.stringify(value);
    case "number":
      if (value - value !== 0) throw new Unfit(NOT_FINITE);
      return value === 0 ? "0" : String(value);
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      if (value > BigInt(MAX_INTEGER) || value < -BigInt(MAX_INTEGER)) throw new Unfit(PAST_INTEGERS);
      return String(value);
    case "object":
      if (value === null) return "null";
      if (Array.isArray(value)) return writeArray(value, room);
      if (value instanceof Map) return writeObject([...value.keys()], (key) => value.get(key), room);
      if (isPlain(value)) return writeObject(Object.keys(value), (key) => value[key], room);
  }
  const kind = value === null || value === undefined ? String(value) : (value.constructor?.name ?? typeof value);
  throw new Unfit([`is of type ${kind}, which JSON does not have`, "convert it first"]);
}

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function writeArray(items, room) {
  if (!room) throw new Unfit(TOO_DEEP);
  let out = "[";
  for (let at = 0; at < items.length; at += 1) {
    try {
      out += at ? `,${write(items[at], room - 1)}` : write(items[at], room - 1);
    } catch (problem) {
      if (problem instanceof Unfit) problem.insideOut.push(at);
      throw problem;
    }
  }
  return out + "]";
}

function writeObject(keys, item, room) {
  if (!room) throw new Unfit(TOO_DEEP);
  for (let at = 1; at < keys.length; at += 1) {
    if (keys[at] < keys[at - 1]) {
      if (!keys.every(isText)) break;
      return writeMembers(keys, keys.slice().sort(), item, room);
    }
  }
  return writeMembers(keys, keys, item, room);
}

const isText = (key) => typeof key === "string" && key.isWellFormed();

/** Sorted order decides what is written; the order of the value decides which of several flaws is reported. */
function writeMembers(keys, sorted, item, room) {
  const written = keys === sorted ? null : new Map();
  let out = "{";
  for (const key of keys) {
    if (typeof key !== "string") throw new Unfit([`has a key of type ${typeof key}`, "use text keys"]);
    if (!key.isWellFormed()) throw new Unfit(HALF_PAIR);
    try {
      const text = write(item(key), room - 1);
      if (written) written.set(key, text);
      else out += `${out.length > 1 ? "," : ""}${JSON.stringify(key)}:${text}`;
    } catch (problem) {
      if (problem instanceof Unfit) problem.insideOut.push(key);
      throw problem;
    }
  }
  if (written) {
    for (const key of sorted) out += `${out.length > 1 ? "," : ""}${JSON.stringify(key)}:${written.get(key)}`;
  }
  return out + "}";
}
