/** What twin.mjs can be asked. */

import { canonicalText, decode, ecmascriptNumber } from "../canonical.mjs";
import { compare, escaped, first, isPrintable, length, strip } from "../characters.mjs";
import { parseInstant, rfc3339 } from "../clock.mjs";
import * as config from "../config.mjs";
import { read } from "../documents.mjs";
import * as names from "../names.mjs";
import { redacted } from "../redaction.mjs";
import { size } from "../render.mjs";
import { parse, HelpRequest } from "../runner.mjs";
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

function about(text) {
  return [
    isPrintable(text), names.printable(text), names.isFileName(text), names.isIdentifier(text), strip(text), length(text),
    first(text, 2), escaped(text),
  ];
}

export const ANSWERS = {
  document: (body, json) => {
    const document = read(bytes(body), "kfm.yml", { json });
    return canonicalText(placed(document, document.value, []));
  },
  decode: (body) => canonicalText(decode(bytes(body), "the text")),
  config: async (file, env) => {
    const resolved = await config.load(file, env);
    return canonicalText([resolved.config, resolved.path, resolved.root]);
  },
  doubles: (bits) => bits.map((hex) => ecmascriptNumber(double(hex))),
  instant: (text) => rfc3339(parseInstant(text, "it")),
  redacted: (value) => canonicalText(redacted(value)),
  sizes: (counts) => counts.map(size),
  texts: (texts) => texts.map(about),
  sorted: (texts) => texts.sort(compare),
  typed: (argv) => {
    try {
      const { scope: _, help_text: __, ...found } = parse(argv);
      return found;
    } catch (problem) {
      if (problem instanceof HelpRequest) return { told: problem.message };
      throw problem;
    }
  },
};
