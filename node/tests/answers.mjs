/** What twin.mjs can be asked. */

import { canonicalText, decode, ecmascriptNumber } from "../canonical.mjs";
import { isPrintable, strip } from "../characters.mjs";
import { parseInstant, rfc3339 } from "../clock.mjs";
import * as names from "../names.mjs";

const bytes = (text) => Buffer.from(text, "base64");

const double = (bits) => Buffer.from(bits, "hex").readDoubleBE(0);

export const ANSWERS = {
  decode: (body) => canonicalText(decode(bytes(body), "the text")),
  doubles: (bits) => bits.map((hex) => ecmascriptNumber(double(hex))),
  printable: (texts) => texts.map((text) => [isPrintable(text), names.printable(text), names.isFileName(text), strip(text)]),
  instant: (text) => rfc3339(parseInstant(text, "it")),
};
