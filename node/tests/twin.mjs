/**
 * Answers what the other language asks, a line of JSON each: `[what, ...arguments]` to `{ok}` or `{error}`.
 *
 * tests/node/twin.py keeps one such process and holds its answers against those of Python. An argument names
 * another module with answers.
 */

import fs from "node:fs";

const { ANSWERS } = await import(process.argv[2] ?? "./answers.mjs");

const BLOCK = Buffer.alloc(1 << 20);

function* lines() {
  let kept = [];
  for (;;) {
    const count = fs.readSync(0, BLOCK, 0, BLOCK.length, null);
    if (!count) return;
    let start = 0;
    for (let end = BLOCK.indexOf(10, 0); end >= 0 && end < count; end = BLOCK.indexOf(10, start)) {
      kept.push(Buffer.from(BLOCK.subarray(start, end)));
      yield Buffer.concat(kept).toString("utf8");
      kept = [];
      start = end + 1;
    }
    if (start < count) kept.push(Buffer.from(BLOCK.subarray(start, count)));
  }
}

async function answer(line) {
  const [what, ...asked] = JSON.parse(line);
  try {
    return { ok: await ANSWERS[what](...asked) };
  } catch (problem) {
    if (problem.fields === undefined) return { bug: String(problem.stack) };
    return { error: String(problem), code: problem.code, fields: problem.fields };
  }
}

for (const line of lines()) {
  const body = Buffer.from(JSON.stringify(await answer(line)) + "\n");
  for (let at = 0; at < body.length; ) at += fs.writeSync(1, body, at);
}
