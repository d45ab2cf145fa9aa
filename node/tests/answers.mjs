/** What twin.mjs can be asked. */

import { canonicalText, decode, ecmascriptNumber } from "../canonical.mjs";
import { isPrintable, strip } from "../characters.mjs";
import { parseInstant, rfc3339 } from "../clock.mjs";
import * as config from "../config.mjs";
import * as declared from "../declared.mjs";
import { read } from "../documents.mjs";
import * as names from "../names.mjs";
import * as records from "../records.mjs";
import { isMapping } from "../types.mjs";

const bytes = (text) => Buffer.from(text, "base64");

const double = (bits) => Buffer.from(bits, "hex").readDoubleBE(0);

/** A document with the place of each of its parts. */
function placed(document, value, path) {
  const [line, column] = document.position(path);
  if (Array.isArray(value)) {
    return [line, column, value.map((item, at) => placed(document, item, [...path, at]))];
  }
  if (!isMapping(value)) return [line, column, value];
  const members = document.keys(path, value).map((key) => [key, placed(document, value[key], [...path, key])]);
  return [line, column, { members }];
}

/** A type in words that both languages have. */
function described(type) {
  const bounds = Object.entries(type).filter(([name]) => ["min", "max", "ge", "gt", "le", "lt"].includes(name));
  const inside = {
    list: () => described(type.item),
    map: () => described(type.item),
    tuple: () => type.items.map(described),
    choice: () => type.types.map(described),
    literal: () => type.values.slice().sort(),
    struct: () => type.name,
  }[type.kind]?.();
  return [type.kind, type.nullable === true, bounds.sort(), inside ?? null];
}

/** Every kind of record, with its fields in their order, their types and what they are if nothing is said. */
function kinds() {
  const found = Object.values({ ...records, ...config, ...declared }).filter((one) => one?.type?.kind === "struct");
  return Object.fromEntries(found.map((kind) => [kind.name, [...kind.fields.values()].map(field)]));
}

const field = ({ name, type, required, fallback }) => [name, described(type), required, required ? null : fallback];

export const ANSWERS = {
  kinds: () => canonicalText(kinds()),
  document: (body, json) => {
    const document = read(bytes(body), "kfm.yml", { json });
    return canonicalText(placed(document, document.value, []));
  },
  decode: (body) => canonicalText(decode(bytes(body), "the text")),
  config: (file, env) => {
    const resolved = config.load(file, env);
    return canonicalText([resolved.config, resolved.origins, resolved.shown(), resolved.path, resolved.root]);
  },
  doubles: (bits) => bits.map((hex) => ecmascriptNumber(double(hex))),
  printable: (texts) => texts.map((text) => [isPrintable(text), names.printable(text), names.isFileName(text), strip(text)]),
  instant: (text) => rfc3339(parseInstant(text, "it")),
};
