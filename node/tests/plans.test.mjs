/** Plans and the names of published files, by the vectors that every language answers. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { publishedPath, twinsOf } from "../artifacts.mjs";
import { make } from "../engine/plan.mjs";
import { RunContext } from "../engine/run_context.mjs";
import { KEEPS_CASE } from "../generated/words.mjs";
import { Step } from "../records.mjs";
import { counting, World } from "./run_driver.mjs";

const DIGEST = `sha256:${"0123456789abcdef".repeat(4)}`;

function vectors(name) {
  return JSON.parse(readFileSync(new URL(`../../conformance/${name}.json`, import.meta.url), "utf8")).vectors;
}

for (const { why, key, media_type, keys, published_path: path } of vectors("artifacts/published_path")) {
  test(`artifacts/published_path: ${why}`, () => {
    const made = keys && { validation: { [KEEPS_CASE]: 1 } };
    const twins = twinsOf(made, keys?.map((each) => ({ key: each })));
    assert.equal(publishedPath("gauges", DIGEST, { key, digest: DIGEST, size: 0, media_type }, twins), path);
  });
}

for (const vector of vectors("plans/bytes")) {
  test(`plans/bytes: ${vector.why}`, () => {
    const world = new World();
    const updater = counting(0, {
      id: "gauges",
      plan: () => ({ steps: vector.steps.map(Step), complete: vector.complete }),
    });
    const trigger = { ...world.trigger(updater, { window: vector.window }), dataset: "gauges" };
    const context = new RunContext(trigger, updater, world.ports(), 0);
    context.inputHash = DIGEST;
    const made = make(context);
    assert.equal(Buffer.concat(made.chunks).toString(), vector.bytes);
    assert.equal(made.planHash, vector.plan_hash);
  });
}
