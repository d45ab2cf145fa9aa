import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";

import { canonical, canonicalText, decode } from "../canonical.mjs";
import { load } from "../config.mjs";
import { read } from "../documents.mjs";
import { readFrom } from "../engine/output_description.mjs";
import { byParts, plant } from "../engine/manifest_builder.mjs";
import { BadInput } from "../errors.mjs";
import { claimKey, digest, inputHash, outputKey, runId, runKey, runKeyOf } from "../keys.mjs";
import { entriesOf } from "../manifests.mjs";
import { isSemantic } from "../names.mjs";
import { SourceRef } from "../records.mjs";
import { interval, within } from "../time_windows.mjs";

const FOLDER = new URL("../../conformance/", import.meta.url);

function valueOf(vector) {
  if ("double" in vector) return Buffer.from(vector.double, "hex").readDoubleBE(0);
  return decode("bytes" in vector ? Buffer.from(vector.bytes, "hex") : Buffer.from(vector.json), "vector");
}

function answerCanonical(vector) {
  if ("canonical" in vector) {
    assert.equal(canonical(valueOf(vector)).toString(), vector.canonical);
    return;
  }
  const refused = (problem) => {
    assert.ok(problem instanceof BadInput, problem.stack);
    if (vector.refused !== true) assert.ok(problem.message.replace("vector: ", "").startsWith(`${vector.refused} `));
    return true;
  };
  assert.throws(() => canonical(valueOf(vector)), refused);
}

const sources = (vector) => vector.inputs.map((ref) => SourceRef({ ...ref, size: 0 }));

/** The answer under `name`, which also has to be the hash of what the vector says is hashed. */
const key = (name, answer) => (vector) => {
  assert.equal(answer(vector), vector[name]);
  const hashed = digest(Buffer.from(vector.hashed)).slice(7);
  if (name !== "run_id") assert.equal(vector[name].replace("sha256:", ""), hashed);
};

/** Where a refusal says the flaw is: the sentence after that is each language's own. */
const placeIn = (line) => /^\S+:\d+:\d+(?=: )/.exec(line)?.[0] ?? "";

/** What a call gives, or where it refuses. */
async function outcomeOf(call) {
  try {
    return await call();
  } catch (problem) {
    assert.ok(problem instanceof BadInput, problem.stack);
    return { refused: placeIn(String(problem)) };
  }
}

const answerDocument = (json) => async (vector) => {
  const body = "bytes" in vector ? Buffer.from(vector.bytes, "hex") : Buffer.from(vector.text);
  const found = await outcomeOf(() => ({ canonical: canonicalText(read(body, "kfm.yml", { json }).value) }));
  assert.deepEqual(found, "refused" in vector ? { refused: placeIn(vector.refused) } : { canonical: vector.canonical });
};

async function answerConfig(vector) {
  const before = process.cwd();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kfm-"));
  process.chdir(folder);
  try {
    fs.writeFileSync(vector.file, vector.text);
    const found = await outcomeOf(async () => {
      const resolved = await load(vector.file, vector.env);
      const settings = {};
      for (const [at, { origin }] of Object.entries(vector.settings ?? {})) {
        const path = at.split(/[.[\]']+/).filter(Boolean);
        settings[at] = { value: path.reduce((inside, key) => inside[key], resolved.config), origin };
      }
      return { settings };
    });
    const wanted = "refused" in vector ? { refused: placeIn(vector.refused) } : { settings: vector.settings };
    assert.equal(canonicalText(found), canonicalText(wanted));
  } finally {
    process.chdir(before);
    fs.rmSync(folder, { recursive: true });
  }
}

function answerVersion(vector) {
  const lines = Array.from({ length: vector.count }, (_, i) => {
    const entryKey = [...vector.prefix, String(i * vector.step).padStart(vector.pad, "0")];
    const entry = { key: entryKey, digest: digest(canonical(entryKey)), size: i, media_type: "text/plain" };
    return [entryKey, `${canonicalText(entry)}\n`, 1, i];
  });
  lines.sort((a, b) => byParts(a[0], b[0]));
  const stored = new Map();
  const shelf = {
    put(body) {
      stored.set(digest(body), body);
      return digest(body);
    },
  };
  const { digest: version, entries } = plant(shelf, lines);
  assert.deepEqual([version, entries], [vector.version, vector.count]);
  const objects = { open: (name) => ({ read: reading(stored.get(name)), close() {} }) };
  assert.deepEqual([...entriesOf(objects, version)].map((entry) => entry.key), lines.map((line) => line[0]));
}

const reading = (body) => () => [body, (body = Buffer.alloc(0))][0];

function answerWindow({ text, today, window, inside = {}, refused }) {
  if (refused !== undefined) {
    assert.throws(() => interval(text, today), (problem) => String(problem) === refused);
    return;
  }
  assert.equal(interval(text, today), window);
  for (const [value, lies] of Object.entries(inside)) assert.equal(within(window, value), lies, value);
}

const ANSWERS = {
  "updaters/semantic": (v) => assert.equal(isSemantic(v.text), v.semantic),
  "manifests/described": (v) => assert.equal(canonicalText(readFrom(Buffer.from(v.text))), canonicalText(v.said)),
  "manifests/version": answerVersion,
  "canonical/numbers": answerCanonical,
  "canonical/values": answerCanonical,
  "canonical/refused": answerCanonical,
  "config/refused": answerConfig,
  "config/settings": answerConfig,
  "documents/json": answerDocument(true),
  "documents/yaml": answerDocument(false),
  "documents/windows": answerWindow,
  "keys/run_key": key("run_key", (v) => runKey(v.source_url, v.etag, v.window, v.pipeline_version)),
  "keys/run_key_of_sources": key("run_key", (v) => runKeyOf(sources(v), v.window, v.pipeline_version)),
  "keys/input_hash": key("input_hash", (v) => inputHash(sources(v))),
  "keys/claim_key": key("claim_key", (v) => {
    return claimKey(v.updater_id, v.version, v.dataset, v.window, v.input_hash, v.params);
  }),
  "keys/run_id": key("run_id", (v) => runId(v.claim_key, v.n)),
  "keys/output_key": key("output_key", (v) => outputKey(v.updater_id, v.updater_version, v.business_key, v.content_hash)),
};

for (const [name, answer] of Object.entries(ANSWERS)) {
  for (const vector of JSON.parse(fs.readFileSync(new URL(`${name}.json`, FOLDER), "utf8")).vectors) {
    test(`${name}: ${vector.why}`, () => answer(vector));
  }
}
