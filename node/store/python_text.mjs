/** How Python writes a value: the seal of a state's tables is a checksum of such text, and messages quote it. */

import { isPrintable } from "../characters.mjs";

const NAMED = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const hex = (code, width) => code.toString(16).padStart(width, "0");

function quoted(text, shown) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inside = [...text].map((character) => (character === quote ? `\\${quote}` : NAMED[character] ?? shown(character)));
  return quote + inside.join("") + quote;
}

/** `repr` of a text, a number or None. */
export function pythonRepr(value) {
  if (value === null) return "None";
  if (typeof value !== "string") return String(value);
  return quoted(value, (character) => {
    if (isPrintable(character)) return character;
    const code = character.codePointAt(0);
    return code < 0x100 ? `\\x${hex(code, 2)}` : code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
  });
}

/** `str` of what a column may hold. */
export function asPythonText(value) {
  if (typeof value === "string") return value;
  if (!Buffer.isBuffer(value)) return pythonRepr(value ?? null);
  const shown = (character) => (/[ -~]/.test(character) ? character : `\\x${hex(character.charCodeAt(0), 2)}`);
  return "b" + quoted(value.toString("latin1"), shown);
}
