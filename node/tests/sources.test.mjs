/** Answers the vectors of sources, as tests/conformance/test_sources.py does. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { BadInput } from "../errors.mjs";
import { Checkpoint, FetchRequest } from "../records.mjs";
import { refusal } from "../sources/addresses.mjs";
import { conditionLine, isEtag, mayAsk } from "../sources/http.mjs";
import { parse } from "../sources/urls.mjs";
import { Budget } from "../sources/http1.mjs";

const FOLDER = new URL("../../conformance/sources/", import.meta.url);
/** What `known` and `request` of validators.json change. */
const KNOWN = {
  uri: "http://a/", content_hash: `sha256:${"1".repeat(64)}`, size: 1, media_type: "", etag: 'W/"a"',
  last_modified: "Thu, 01 Jan 2026 00:00:00 GMT", fetched_ms: 1000, checked_ms: 1000,
};
const REQUEST = { uri: "http://a/", now_ms: 2000, revalidate_ms: 5000 };

function answerLocation({ url, reference }) {
  try {
    const here = parse(url);
    const there = reference === undefined ? here : here.follow(reference);
    return { location: [there.scheme, there.host, there.port, there.target], shown: there.shown() };
  } catch (problem) {
    if (problem instanceof BadInput) return { refused: String(problem) };
    throw problem;
  }
}

function answerValidator(vector) {
  if (vector.sent !== undefined) return { kept: isEtag(vector.sent) ? vector.sent : "" };
  const known = Checkpoint({ ...KNOWN, ...vector.known });
  const request = FetchRequest({ ...REQUEST, ...vector.request });
  return { condition: mayAsk(request, known, { has: () => vector.stored }) ? conditionLine(known) : "" };
}

const ANSWERS = {
  addresses: ({ host, address, port, allow }) => ({ refusal: refusal(host, address, port, allow) }),
  locations: answerLocation,
  redirects: answerLocation,
  validators: answerValidator,
};
const SAID = ["location", "shown", "refused", "refusal", "kept", "condition"];

for (const file of readdirSync(FOLDER)) {
  const name = file.replace(".json", "");
  for (const vector of JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")).vectors) {
    const wanted = Object.fromEntries(Object.entries(vector).filter(([key]) => SAID.includes(key)));
    test(`sources/${name}: ${vector.why}`, () => {
      assert.deepEqual(ANSWERS[name](vector), wanted);
    });
  }
}

for (const [timeoutMs, waitedMs, said] of [
  [300, 300, "was silent for 300 ms"],
  [300, 700, "was not fetched within 700 ms"],
  [20_000, 699, "was not fetched within 700 ms"],
]) {
  test(`the limit that ran out is named: ${waitedMs} of ${timeoutMs} ms`, () => {
    let now = 0;
    const budget = new Budget({ timeoutMs, totalMs: 700, wireBytes: 1, monotonic: () => now });
    assert.equal(budget.patience(), Math.min(timeoutMs, 700));
    now = waitedMs / 1000;
    assert.throws(() => { throw budget.silence(); }, new RegExp(said));
  });
}
