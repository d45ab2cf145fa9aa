/** Lays one environment variable over a document. Twin of src/kfm/parsing/environment.py. */

import { isPrintable, length, strip } from "./characters.mjs";
import { read } from "./documents.mjs";
import { BadInput } from "./errors.mjs";
import { pathKey } from "./yaml.mjs";
import { plain } from "./yaml_scalars.mjs";
import { asType, isMapping } from "./types.mjs";

export function apply(document, type, name, text, { fixed = [] } = {}) {
  const shown = isPrintable(name) && length(name) <= 100 ? name : "an environment variable";
  let inside = document.value;
  let info = asType(type);
  const path = [];
  const parts = name.slice(name.indexOf("_") + 1).toLowerCase().split("__");
  parts.forEach((part, depth) => {
    const known = knownIn(info, inside, depth ? [] : fixed);
    const matches = [...known.keys()].filter((key) => folded(key) === folded(part));
    if (matches.length !== 1 || !isMapping(inside)) {
      throw new BadInput(`${shown} ${matches.length > 1 ? "could mean several keys" : "is not a setting"}`, {
        hint: "unset it, or set it in the file",
      });
    }
    info = asType(known.get(matches[0]));
    path.push(matches[0]);
    if (depth < parts.length - 1) {
      if (!Object.hasOwn(inside, matches[0])) inside[matches[0]] = Object.create(null);
      inside = inside[matches[0]];
    }
  });
  if (info.kind === "struct" || info.kind === "map") {
    const keys = [...knownIn(info, {}, []).keys()].filter((key) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(key));
    const example = keys.length ? `${shown}__${keys[0].toUpperCase()}` : "one of its keys";
    throw new BadInput(`${shown} names a whole section`, { hint: `set one key of it, e.g. ${example}` });
  }
  inside[path.at(-1)] = typed(info, text, shown);
  document.moved.set(pathKey(path), shown);
}

function knownIn(info, inside, fixed) {
  if (info.kind === "struct") {
    const fields = [...info.fields.values()].filter((field) => !fixed.includes(field.name));
    return new Map(fields.map((field) => [field.name, field.type]));
  }
  if (info.kind === "map" && isMapping(inside)) return new Map(Object.keys(inside).map((key) => [key, info.item]));
  return new Map();
}

const folded = (name) => name.toLowerCase().replaceAll("-", "_").replaceAll(".", "_");

function typed(leaf, text, shown) {
  const fail = (what, hint) => {
    throw new BadInput(`${shown}: ${what}`, { hint });
  };
  if (!isPrintable(text)) fail("holds a control character", "remove it");
  if (["integer", "number", "boolean"].includes(leaf.kind)) return plain(strip(text), fail);
  if (leaf.kind === "literal" && leaf.values.every((value) => typeof value === "number")) {
    return plain(strip(text), fail);
  }
  if (leaf.kind === "list") {
    if (strip(text).startsWith("[")) return read(Buffer.from(text, "utf8"), shown, { json: false }).value;
    const items = text.split(",").map(strip).filter((item) => item);
    const numbers = ["integer", "number"].includes(asType(leaf.item).kind);
    return numbers ? items.map((item) => plain(item, fail)) : items;
  }
  return text;
}
