/** What twin.mjs can be asked. */

import { canonicalText, decode, ecmascriptNumber } from "../canonical.mjs";
import { COMBINING, compare, escaped, first, isPrintable, length, PRINTABLE, strip } from "../characters.mjs";
import { parseInstant, rfc3339 } from "../clock.mjs";
import * as config from "../config.mjs";
import * as declared from "../declared.mjs";
import { read } from "../documents.mjs";
import * as names from "../names.mjs";
import * as records from "../records.mjs";
import { redacted } from "../redaction.mjs";
import { size } from "../render.mjs";
import { HELP, parse, Told } from "../runner.mjs";
import { nearest } from "../shape.mjs";
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

function about(text) {
  return [
    isPrintable(text), names.printable(text), names.isFileName(text), names.isIdentifier(text), strip(text), length(text),
    first(text, 2), escaped(text),
  ];
}

export const ANSWERS = {
  kinds: () => canonicalText(kinds()),
  document: (body, json) => {
    const document = read(bytes(body), "kfm.yml", { json });
    return canonicalText(placed(document, document.value, []));
  },
  decode: (body) => canonicalText(decode(bytes(body), "the text")),
  config: async (file, env) => {
    const resolved = await config.load(file, env);
    return canonicalText([resolved.config, resolved.origins, resolved.shown(), resolved.path, resolved.root]);
  },
  doubles: (bits) => bits.map((hex) => ecmascriptNumber(double(hex))),
  instant: (text) => rfc3339(parseInstant(text, "it")),
  nearest: (name, known) => nearest(name, known),
  sizes: (counts) => counts.map(size),
  redacted: (value) => canonicalText(redacted(value)),
  tables: () => ({ printable: PRINTABLE, combining: COMBINING }),
  texts: (texts) => texts.map(about),
  sorted: (texts) => texts.sort(compare),
  help: () => HELP,
  typed: (argv) => {
    try {
      const { scope: _, ...found } = parse(argv);
      return found;
    } catch (problem) {
      if (problem instanceof Told) return { told: problem.message };
      throw problem;
    }
  },
};
