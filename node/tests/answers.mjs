/** What twin.mjs can be asked. */

import { canonicalText, decode, ecmascriptNumber } from "../canonical.mjs";
import { isPrintable, strip } from "../characters.mjs";
import { parseInstant, rfc3339 } from "../clock.mjs";
import { read } from "../documents.mjs";
import * as names from "../names.mjs";
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

export const ANSWERS = {
  document: (body, json) => {
    const document = read(bytes(body), "kfm.yml", { json });
    return canonicalText(placed(document, document.value, []));
  },
  decode: (body) => canonicalText(decode(bytes(body), "the text")),
  doubles: (bits) => bits.map((hex) => ecmascriptNumber(double(hex))),
  printable: (texts) => texts.map((text) => [isPrintable(text), names.printable(text), names.isFileName(text), strip(text)]),
  instant: (text) => rfc3339(parseInstant(text, "it")),
};
