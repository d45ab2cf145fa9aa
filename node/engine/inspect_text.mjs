/** Bytes to text in blocks of whole lines, with a bound on what is held at once. Twin of src/kfm/validation/text_blocks.py. */

import { length } from "../characters.mjs";
import { encodingOf, opened, Undecodable } from "../encodings.mjs";
import { KNOWN } from "../generated/encodings.mjs";
import { grouped, SOURCE, Unreadable } from "./inspect_findings.mjs";

/** How much is read and held at once. Tests make it less. */
export const LIMITS = Object.freeze({
  block: 1 << 16,
  maxLine: 1 << 22, // characters
  chunk: 1 << 18,
  maxRecord: 1 << 25, // bytes of one record, and of all that surrounds the list
});

/** Why a name cannot be the encoding of a source, or empty. */
export const encodingProblem = (name) => encodingOf(name) ? "" : `is none of these: ${KNOWN.join(", ")}`;

/** Exactly `size` bytes of a stream, fewer only at its end. They are good until the next read. */
export function readFull(body, size) {
  const first = body.read(size);
  if (!first.length || first.length === size) return first;
  const parts = [Buffer.from(first)]; // copies: what a stream gives may be used again
  let left = size - first.length;
  while (left > 0) {
    const more = body.read(left);
    if (!more.length) break;
    parts.push(Buffer.from(more));
    left -= more.length;
  }
  return parts.length === 1 ? parts[0] : Buffer.concat(parts);
}

/** The text, decoded strictly. What stands before a byte that cannot be decoded is given first. */
export function* textBlocks(body, encoding, limits = LIMITS) {
  let chunk = readFull(body, limits.block);
  while (chunk.length > 0 && chunk.length < 3) {
    const begun = Buffer.from(chunk);
    const more = readFull(body, limits.block);
    chunk = Buffer.concat([begun, more]);
    if (!more.length) break;
  }
  const { decoder, mark } = opened(encoding, chunk);
  let final = !chunk.length;
  chunk = chunk.subarray(mark);
  for (;;) {
    let text;
    try {
      text = decoder.decode(chunk, final);
    } catch (problem) {
      if (!(problem instanceof Undecodable)) throw problem;
      if (problem.good) yield problem.good;
      throw new Unreadable("encoding", "a byte cannot be read in the declared encoding; the source is held");
    }
    if (text) yield text;
    if (final) return;
    chunk = readFull(body, limits.block);
    final = !chunk.length;
  }
}

/** Whether a text has more characters than this; they are counted only if it has as many units. */
export const isLonger = (text, most) => text.length > most && length(text) > most;

/** Runs of whole lines, each with its own ending (`\n`, `\r\n` or `\r`); only the last may lack one. */
export function* lineBlocks(body, encoding, limits = LIMITS) {
  let rest = "";
  for (let text of textBlocks(body, encoding, limits)) {
    const nul = text.indexOf("\0");
    if (nul >= 0) text = text.slice(0, nul);
    let cut = text.lastIndexOf("\n") + 1;
    if (!cut && text.length > 1) cut = text.lastIndexOf("\r", text.length - 2) + 1; // a last \r may be half of \r\n
    if (cut) {
      yield rest + text.slice(0, cut);
      rest = text.slice(cut);
    } else {
      if (rest.endsWith("\r") && !text.startsWith("\n")) {
        yield rest;
        rest = "";
      }
      rest += text;
    }
    if (nul >= 0) throw new Unreadable("nul", "there is a NUL character; the source is held");
    if (isLonger(rest, limits.maxLine)) {
      throw new Unreadable("too-long", `a line is longer than ${grouped(limits.maxLine)} characters; the source is held`);
    }
  }
  if (rest) yield rest;
}

/** Plain text: every byte can be decoded. A flaw is placed by its line; lines are not rows. */
export function inspectText(openBody, contract, out, limits = LIMITS) {
  let line = 1;
  const body = openBody();
  try {
    for (const text of textBlocks(body, contract.encoding, limits)) {
      for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) line += 1;
    }
  } catch (problem) {
    if (!(problem instanceof Unreadable)) throw problem;
    out.add(SOURCE, problem.rule, problem.message, line);
  } finally {
    body.close();
  }
}
