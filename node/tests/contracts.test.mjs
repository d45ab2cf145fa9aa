/** Answers the vectors of data contracts, as tests/conformance/test_contracts.py does. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { dateFormatProblem, dateReader } from "../dates.mjs";
import { encodingOf, opened, Undecodable } from "../encodings.mjs";
import { inspect } from "../engine/source_check.mjs";
import { KfmError } from "../errors.mjs";
import { compiled, patternFlaw } from "../patterns.mjs";
import { convert, DataContract } from "../records.mjs";

const FOLDER = new URL("../../conformance/contracts/", import.meta.url);

function answerInspection({ contract, text, hex }) {
  const body = hex === undefined ? Buffer.from(text, "utf8") : Buffer.from(hex, "hex");
  const open = () => {
    let at = 0;
    return { read: (size) => body.subarray(at, (at += Math.min(size, body.length - at))), close() {} };
  };
  const accepted = [];
  const held = [];
  try {
    const report = inspect(open, convert(DataContract, contract), "stations", (c) => accepted.push(c), (c) => held.push(c));
    const answer = { report };
    if (report.changed) answer.accepted = shown(Buffer.concat(accepted));
    if (held.length) answer.held = Buffer.concat(held).toString("utf8");
    return answer;
  } catch (problem) {
    if (problem instanceof KfmError) return { refused: String(problem) };
    throw problem;
  }
}

function shown(body) {
  const text = body.toString("utf8");
  return Buffer.from(text, "utf8").equals(body) ? { text } : { hex: body.toString("hex") };
}

function answerPattern({ pattern, texts }) {
  const refused = patternFlaw(pattern);
  if (refused) return { refused };
  const [whole, some] = [compiled(pattern), compiled(pattern, { whole: false })];
  return { whole: texts.map((text) => whole(text)), some: texts.map((text) => some(text)) };
}

function answerDate({ format, texts }) {
  const refused = dateFormatProblem(format);
  return refused ? { refused } : { dates: texts.map(dateReader(format)) };
}

function answerEncoding({ name }) {
  const known = encodingOf(name);
  if (!known || known.startsWith("utf")) return { known };
  let upper = "";
  for (let byte = 0x80; byte <= 0xff; byte += 1) upper += one(known, byte);
  return { known, upper };
}

function one(known, byte) {
  try {
    return opened(known, []).decoder.decode(Buffer.from([byte]), true);
  } catch (problem) {
    if (problem instanceof Undecodable) return "\ufffd";
    throw problem;
  }
}

const ANSWERS = { dates: answerDate, encodings: answerEncoding, patterns: answerPattern };
const ASKED = new Set(["why", "contract", "text", "hex", "pattern", "texts", "format", "name"]);
const plain = (value) => JSON.parse(JSON.stringify(value));

for (const file of readdirSync(FOLDER)) {
  const name = file.replace(".json", "");
  for (const vector of JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")).vectors) {
    const wanted = Object.fromEntries(Object.entries(vector).filter(([key]) => !ASKED.has(key)));
    test(`contracts/${name}: ${vector.why}`, () => {
      assert.deepEqual(plain((ANSWERS[name] ?? answerInspection)(vector)), wanted);
    });
  }
}
