/** What the publisher says is done is durable: each file, the folder it has its name in, each folder that was made. */

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import test from "node:test";

import { digest } from "../keys.mjs";
import { FilesPublisher } from "../sinks/folder_publisher.mjs";

const BODY = Buffer.from("level\n");
const FREE = { take: () => true, close() {} };

/** What `work` does to the disk, in order, with paths below `root`. */
function calls(t, root, work) {
  const seen = [];
  const open = new Map();
  const below = (name) => path.relative(root, name) || ".";
  const watch = (method, tell) => {
    const real = fs[method];
    t.mock.method(fs, method, (...words) => {
      const answer = real(...words);
      tell(answer, ...words);
      return answer;
    });
  };
  watch("openSync", (fd, name) => open.set(fd, below(name)));
  watch("fsyncSync", (_, fd) => seen.push(`sync ${open.get(fd)}`));
  watch("mkdirSync", (_, name) => seen.push(`make ${below(name)}`));
  watch("renameSync", (_, from, to) => seen.push(`name ${below(to)}`));
  work();
  t.mock.restoreAll();
  return seen;
}

function publisher(t) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), "kfm-publish-"));
  t.after(() => fs.rmSync(root, { recursive: true }));
  return [root, () => new FilesPublisher(new Map([["", root]]), () => FREE)];
}

const ways = [
  ["a file", "d/v/all.bin", (it) => it.writeFile("d/v/all.bin", digest(BODY), BODY.length, "k", [BODY])],
  ["a pointer", "d/v/current.json", (it) => it.updateMetadata("d/v/current.json", { seq: 3 }, "k")],
];
for (const [what, name, publish] of ways) {
  test(`${what} is synced, then its name, in folders that are`, (t) => {
    const [root, open] = publisher(t);
    const seen = calls(t, root, () => publish(open()));
    assert.deepEqual(seen.slice(1), [
      "make d", "sync .", "make d/v", "sync d", "sync d/v/.publishing", `name ${name}`, "sync d/v",
    ]);
  });

  test(`the name of ${what} that is there already is synced too: the process that made it may have died before`, (t) => {
    const [root, open] = publisher(t);
    publish(open());
    assert.deepEqual(calls(t, root, () => publish(open())), ["sync d/v"]);
  });
}

test("so is that of an event", (t) => {
  const [root, open] = publisher(t);
  const publish = () => open().emitEvent({ type: "t" }, "k");
  publish();
  assert.deepEqual(calls(t, root, publish), ["sync events"]);
});
