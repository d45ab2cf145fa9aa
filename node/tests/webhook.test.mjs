import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Rejected, signature, verify } from "../webhook_requests.mjs";

const { vectors } = JSON.parse(readFileSync(new URL("../../conformance/webhooks/verify.json", import.meta.url), "utf8"));

for (const vector of vectors) {
  test(`webhooks/verify: ${vector.why}`, () => {
    const body = vector.body_hex === undefined ? Buffer.from(vector.body) : Buffer.from(vector.body_hex, "hex");
    const headers = vector.headers.map(([name, value]) => [name, Buffer.from(value, "latin1")]);
    const hook = vector.hook && { ...vector.hook, secrets: vector.hook.secrets.map((text) => Buffer.from(text)) };
    if (vector.rejected) {
      assert.throws(
        () => verify(hook, headers, body, vector.now_ms),
        (problem) => {
          assert.ok(problem instanceof Rejected, String(problem.stack));
          assert.deepEqual({ reason: problem.reason, status: problem.status }, vector.rejected);
          return true;
        },
      );
    } else {
      const { source_id: _, ...found } = verify(hook, headers, body, vector.now_ms);
      assert.deepEqual(found, vector.accepted);
    }
  });
}

test("the published examples are signed alike", () => {
  const github = Buffer.from("It's a Secret to Everybody");
  assert.equal(
    signature("github", github, Buffer.from("Hello, World!")),
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
  );
});
