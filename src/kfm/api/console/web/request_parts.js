// A change request, whole, as its signers read it. What is signed is computed from what is shown here.
import { code, element, pairs } from "./page_parts.js";
import { digestOf } from "./signature.js";

const WORDS = {
  id: "Id",
  action: "What is done",
  dataset: "Dataset",
  requester: "Asked by",
  purpose: "Reason",
  created_at: "Made at",
  expires_at: "Ends at",
  custodian: "Custodian",
  subject: "About",
  records: "Records",
  before: "Before",
  after: "After",
};

/** A text in which nothing hides: what cannot be seen, or turns the direction of writing, is written as its number. */
export const visible = (text) =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (sign) =>
    sign === "\n" ? sign : `\\u{${sign.codePointAt(0).toString(16)}}`) || "nothing";

function* lines(name, value) {
  if (value === null || typeof value !== "object") yield [name, visible(String(value))];
  else if (Object.keys(value).length === 0) yield [name, "nothing"];
  else for (const [part, inside] of Object.entries(value)) yield* lines(`${name} ${visible(part)}`, inside);
}

/** The request with every field that it has, and its digest. It throws if the digest is another one than `told`. */
export async function wholeRequest(given, told) {
  const request = structuredClone(given); // what is shown, what is hashed and what is signed is this one object
  const digest = await digestOf(request);
  if (digest !== told) {
    throw new Error(`what the server shows has the digest ${digest}, and the server says ${told}; nothing is signed`);
  }
  const shown = Object.entries(request).flatMap(([name, value]) => [...lines(WORDS[name] ?? name, value)]);
  const list = pairs([...shown, ["Digest that is signed", digest]].map(([name, text]) => [name, code(text)]));
  return { request, list: element("div", { class: "whole" }, list) };
}
