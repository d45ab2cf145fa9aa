import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { answer } from "./transforms.mjs";

const FOLDER = new URL("../../conformance/transforms/", import.meta.url);

for (const file of readdirSync(FOLDER)) {
  for (const { why, sources, outputs, ...wanted } of JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")).vectors) {
    test(`transforms/${file.replace(".json", "")}: ${why}`, async () => {
      const found = await answer({ sources, outputs });
      // What is wrong with a declaration each language says in its own words.
      const isRefused = [found, wanted].every(({ refused = "" }) => refused.startsWith("case.json: "));
      if (!isRefused) assert.deepEqual(found, wanted);
    });
  }
}
