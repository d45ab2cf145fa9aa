/**
 * Reads YAML and JSON from anyone into plain values, each with its place. Twin of src/kfm/parsing/documents.py.
 *
 * A path is an array of keys and indices. Mappings have no prototype; `Document.keys` gives their keys in the
 * order of the file, which JavaScript does not keep for keys that look like integers.
 */

import { isUtf8 } from "node:buffer";

import { badUtf8, decodeText } from "./canonical.mjs";
import { length } from "./characters.mjs";
import { BadInput } from "./errors.mjs";
import { printable } from "./names.mjs";
import { MAX_DEPTH, MAX_VALUES, pathKey, Yaml } from "./yaml.mjs";

export const MAX_BYTES = 4 << 20;

/** A value read from `where`, and where in it each part stands. */
export class Document {
  constructor(value, where, place) {
    this.value = value;
    this.where = where;
    this.moved = new Map(); // parts that came from elsewhere, e.g. the environment, by pathKey
    this._place = place;
  }

  /** `kfm.yml:7:3`, of the part itself or of the nearest one around it. */
  place(path) {
    const moved = this.moved.get(pathKey(path));
    if (moved !== undefined) return moved;
    const [line, column] = this.position(path);
    return `${this.where}:${line}:${column}`;
  }

  position(path) {
    for (let count = path.length; count >= 0; count -= 1) {
      const found = this._place(path.slice(0, count));
      if (found) return found;
    }
    return [1, 1];
  }

  /** The keys of the mapping at `path`, in the order of the file. */
  keys(path, mapping) {
    const keys = Object.keys(mapping);
    if (!keys.some((key) => /^[0-9]/.test(key))) return keys;
    const at = new Map(keys.map((key) => [key, this.position([...path, key])]));
    return keys.sort((a, b) => at.get(a)[0] - at.get(b)[0] || at.get(a)[1] - at.get(b)[1]);
  }

  refuse(path, what, hint = "") {
    throw new BadInput(`${this.place(path)}: ${dotted(path)} ${what}`, { hint, key: dotted(path) });
  }
}

/** A path as people write it: execute.threads, columns[2].name; odd names are quoted and escaped. */
export function dotted(path) {
  let out = "";
  for (const part of path) {
    if (typeof part === "number") out += `[${part}]`;
    else if (/^[-_$]*[A-Za-z0-9][-_$A-Za-z0-9]*$/.test(part)) out += out ? `.${part}` : part;
    else out += `[${printable(part)}]`;
  }
  return out || "the file";
}

/** Decode the bytes of one file. `where` names it in messages. */
export function read(body, where, { json }) {
  if (body.length > MAX_BYTES) {
    throw new BadInput(`${where} is larger than ${MAX_BYTES >> 20} MiB`, { hint: "keep data out of settings files" });
  }
  if ((body[0] === 0xff && body[1] === 0xfe) || (body[0] === 0xfe && body[1] === 0xff)) {
    throw new BadInput(`${where} is UTF-16`, { hint: "save it as UTF-8" });
  }
  if (!isUtf8(body)) {
    const before = body.subarray(0, badUtf8(body)).toString("utf8");
    fail(where, position(before, before.length), "is not UTF-8", "save the file as UTF-8");
  }
  const text = body.toString("utf8").replace(/^\ufeff/, "");
  return json ? readJson(text, where) : readYaml(text, where);
}

function fail(where, [line, column], what, hint = "") {
  throw new BadInput(`${where}:${line}:${column}: ${what}`, { hint, line, column });
}

function position(text, index) {
  const before = text.slice(0, index);
  return [before.split("\n").length, length(before.slice(before.lastIndexOf("\n") + 1)) + 1];
}

// ---------------------------------------------------------------------------------------------- JSON

function readJson(text, where) {
  // What Python decodes it encodes again first, so that a mark which is left is found there.
  if (text.startsWith("\ufeff")) {
    throw new BadInput(`${where} begins with a byte order mark`, { hint: "save it as UTF-8 without one" });
  }
  const value = decodeText(text, where);
  let starts = null;
  const place = (path) => {
    // Only an error asks for a place, so they are looked for only then.
    if (!starts) {
      starts = new Map();
      jsonPlaces(text, 0, [], starts);
    }
    const index = starts.get(pathKey(path));
    return index === undefined ? null : position(text, index);
  };
  if (count(value, where, 0) > MAX_VALUES) {
    fail(where, [1, 1], `holds more than ${MAX_VALUES} values`, "keep data out of settings files");
  }
  return new Document(value, where, place);
}

function count(value, where, depth) {
  if (value === null || typeof value !== "object") return 1;
  if (depth >= MAX_DEPTH) fail(where, [1, 1], `nested deeper than ${MAX_DEPTH} levels`, "flatten it");
  let total = 1;
  for (const item of Object.values(value)) total += count(item, where, depth + 1);
  return total;
}

const BETWEEN = /[ \t\n\r,:]*/y;
const WORD = /[^,\]} \t\n\r]*/y;
const STRING = /"(?:[^"\\]|\\.)*"/sy;

function after(pattern, text, at) {
  pattern.lastIndex = at;
  pattern.test(text);
  return pattern.lastIndex;
}

/** Walks text that is known to be JSON; returns the index after the value that begins at `index`. */
function jsonPlaces(text, index, path, starts) {
  index = after(BETWEEN, text, index);
  const key = pathKey(path);
  if (!starts.has(key)) starts.set(key, index);
  const opening = text[index];
  if (opening === '"') return after(STRING, text, index);
  if (opening !== "{" && opening !== "[") return after(WORD, text, index);
  index = after(BETWEEN, text, index + 1);
  for (let number = 0; text[index] !== "}" && text[index] !== "]"; number += 1) {
    let part = number;
    if (opening === "{") {
      const end = after(STRING, text, index);
      part = JSON.parse(text.slice(index, end));
      starts.set(pathKey([...path, part]), index);
      index = end;
    }
    index = after(BETWEEN, text, jsonPlaces(text, index, [...path, part], starts));
  }
  return index + 1;
}

// ---------------------------------------------------------------------------------------------- YAML

const ODD =
  /[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;

function readYaml(original, where) {
  const text = original.replaceAll("\r\n", "\n");
  const odd = ODD.exec(text);
  if (odd) {
    const name = `U+${odd[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    fail(where, position(text, odd.index), `holds the control character ${name}`, "remove it");
  }
  const reader = new Yaml(text, (index, what, hint) => fail(where, position(text, index), what, hint));
  return new Document(reader.document(), where, (path) => {
    const index = reader.places.get(pathKey(path));
    return index === undefined ? null : position(text, index);
  });
}
