/** A run in Node: what must hold for every updater, and after a kill at any moment. */

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import test from "node:test";

import { run } from "../engine/run.mjs";
import { byParts } from "../engine/manifest_builder.mjs";
import { ranges } from "../engine/execute.mjs";
import { roundHalfEven } from "../characters.mjs";
import { Busy, Corrupt, Fenced, PlanDrift, Refused } from "../errors.mjs";
import { canonicalText } from "../canonical.mjs";
import { Step } from "../records.mjs";
import { Fs } from "../store/fsio.mjs";
import { FileObjects } from "../store/objects.mjs";
import { counting, Died, DyingTables, World } from "./run_driver.mjs";

const COMPARED = ["refs", "history", "versions", "receipts", "ledger", "plans", "plan_locks", "outbox"];

function left(tables) {
  const shown = ([key, body], table) => `${table} ${key} ${body}`.replace(/"token":\d+/, ""); // each holder has its own
  return COMPARED.map((table) => [...tables.scan(table)].map((row) => shown(row, table)));
}

async function outcome(world, updater, options) {
  return (await run(world.trigger(updater, options), updater, world.ports())).outcome;
}

test("a run, the same again, and another source", async () => {
  const world = new World();
  const updater = counting(5);
  assert.equal(await outcome(world, updater), "done");
  assert.equal(await outcome(world, updater), "noop");
  world.body = Buffer.from("three\n");
  assert.equal(await outcome(world, updater), "done");
  assert.deepEqual(world.events.map((line) => line.event), [
    "source.pinned", "run.started", "run.committed", "source.pinned", "run.skipped",
    "source.pinned", "run.started", "run.committed",
  ]);
});

for (const before of [true, false]) {
  test(`dead ${before ? "before" : "after"} any commit, and taken up: the same is left`, async () => {
    const undisturbed = new World({ settings: { window: 3 } });
    const first = counting(10);
    await run(undisturbed.trigger(first), first, undisturbed.ports());
    const expected = left(undisturbed.tables);
    let deaths = 0;
    for (let n = 1; ; n += 1) {
      const world = new World({ settings: { window: 3 } });
      const updater = counting(10);
      const dying = new DyingTables(world.tables, n, { before });
      let died = false;
      try {
        await run(world.trigger(updater), updater, world.ports({ tables: dying }));
      } catch (problem) {
        assert.ok(problem instanceof Died, problem);
        died = true;
      }
      if (!died) break;
      deaths += 1;
      const open = [...world.tables.scan("open_runs")].length;
      const again = counting(10);
      const ports = world.ports({ holder: "here:2:2" });
      for (const [scope] of world.tables.scan("leases")) free(ports.state, scope);
      const receipt = await run(world.trigger(again), again, ports);
      if (open) assert.equal(receipt.outcome, "done");
      const rest = left(world.tables);
      if (receipt.outcome === "noop") continue; // it had committed before it died: one receipt more says so
      assert.deepEqual(rest, expected, `after death ${n}`);
    }
    assert.ok(deaths >= 6, `${deaths} deaths`);
  });
}

function free(state, scope) {
  const lease = state.lease(scope);
  state.release(lease);
}

test("a resumed run does not repeat finished steps", async () => {
  const world = new World({ settings: { window: 2 } });
  const updater = counting(8);
  const dying = new DyingTables(world.tables, 4); // claim, then three windows' intents
  await assert.rejects(run(world.trigger(updater), updater, world.ports({ tables: dying })), Died);
  free(world.ports().state, "words/words");
  const again = counting(8);
  assert.equal(await outcome(world, again), "done");
  assert.deepEqual(again.performed, ["step-4", "step-5", "step-6", "step-7"]);
});

test("other code does not finish what it did not plan", async () => {
  const world = new World({ settings: { window: 2 } });
  const updater = counting(8);
  await assert.rejects(
    run(world.trigger(updater), updater, world.ports({ tables: new DyingTables(world.tables, 3) })),
    Died,
  );
  free(world.ports().state, "words/words");
  const other = counting(7);
  await assert.rejects(run(world.trigger(other), other, world.ports()), PlanDrift);
  assert.equal(await outcome(world, counting(8)), "done");
});

test("a step that takes longer than the lease keeps it", async () => {
  const world = new World({ settings: { lease_ms: 9000 } });
  let rival = null;
  const slow = counting(3, {
    perform(step, read) {
      const file = read.open("words");
      while (file.read(1).length) world.clock.advance(2000);
      file.close();
      const ports = world.ports({ holder: "there:2:2" });
      assert.throws(() => ports.state.acquire("words/words", "there:2:2", 9000), Busy);
      rival = step.id;
      return { body: Buffer.from(step.id), media_type: "text/plain" };
    },
  });
  assert.equal(await outcome(world, slow), "done");
  assert.equal(rival, "step-2");
});

test("a worker whose lease was taken over writes nothing more", async () => {
  const world = new World({ settings: { lease_ms: 9000, window: 1 } });
  const slow = counting(3, {
    perform(step) {
      if (step.params.n === 1) {
        world.clock.advance(10_000); // stopped for longer than its lease, and not heard of
        world.ports().state.acquire("words/words", "there:2:2", 9000);
      }
      return { body: Buffer.from(step.id), media_type: "text/plain" };
    },
  });
  await assert.rejects(run(world.trigger(slow), slow, world.ports()), Fenced);
  assert.equal([...world.tables.scan("receipts")].length, 0);
  assert.equal(world.ports().state.ref("processed/words"), "");
});

test("a plan too large to keep is journaled in chunks and read from there", async () => {
  const world = new World({ settings: { window: 40_000 } });
  const many = (n) => (function* () {
    for (let i = 0; i < n; i += 1) yield Step({ id: `step-${i}`, key: ["part", String(i)], params: { n: i } });
  })();
  const updater = counting(0, {
    plan: () => ({ steps: many(66_000), complete: false }),
    perform: (step) => ({ body: Buffer.from(step.id), media_type: "text/plain" }),
  });
  const receipt = await run(world.trigger(updater), updater, world.ports());
  assert.equal(receipt.outcome, "done");
  assert.equal(receipt.steps, 66_000);
  assert.equal([...world.tables.scan("plans")].length, 66);
});

test("a step that fails ends the run, and what was done is kept", async () => {
  const world = new World({ settings: { window: 2 } });
  const failing = counting(5, {
    perform(step) {
      if (step.params.n === 3) throw new Refused("a row cannot be read");
      return { body: Buffer.from(step.id), media_type: "text/plain" };
    },
  });
  const receipt = await run(world.trigger(failing), failing, world.ports());
  assert.equal(receipt.status, "FAILED");
  assert.deepEqual(receipt.errors, [{ code: "refused", message: "a row cannot be read" }]);
  const segments = [...world.tables.scan("segments")].map(([, body]) => JSON.parse(body));
  assert.deepEqual(segments.at(-1).failed, [[3, "refused"]]);
  assert.deepEqual(segments.flatMap((segment) => segment.done.map((entry) => entry[0])), [0, 1, 2]);
});

test("keys are ordered by characters, not by halves of surrogate pairs", async () => {
  assert.ok(byParts(["\ufb33"], ["\u{1f600}"]) < 0);
  assert.ok(byParts(["a"], ["a", "b"]) < 0);
  const world = new World();
  const odd = counting(0, {
    plan: () => ({
      steps: ["\u{1f600}", "\ufb33", "z"].map((key) => Step({ id: key, key: [key] })),
      complete: false,
    }),
    perform: (step) => ({ body: Buffer.from(step.id), media_type: "text/plain" }),
  });
  await outcome(world, odd);
  const { state, objects } = world.ports();
  const manifest = objects.read(state.ref("processed/words")).toString().trimEnd().split("\n");
  assert.deepEqual(manifest.map((line) => JSON.parse(line).key[0]), ["z", "\ufb33", "\u{1f600}"]);
  for (const line of manifest) assert.equal(line, canonicalText(JSON.parse(line)));
});

test("steps in a row are one range, others are not", () => {
  const batch = (...positions) => positions.map((position) => [position, null]);
  assert.deepEqual(ranges(batch(0, 1, 2)), [[0, 3]]);
  assert.deepEqual(ranges(batch(0, 2, 3, 7)), [[0, 1], [2, 4], [7, 8]]);
  assert.deepEqual(ranges([]), []);
});

test("halves are rounded to the even number", () => {
  assert.deepEqual([0.5, 1.5, 2.5, 12.5, 0.49, 10].map(roundHalfEven), [0, 2, 2, 12, 0, 10]);
});

for (const [kind, body] of [
  ["whole", Buffer.alloc(200_000, "x")],
  ["in pieces", Array.from({ length: 40 }, () => Buffer.alloc(100_000, "x"))],
]) {
  test(`a large output, ${kind}, that the disk altered is never done`, async () => {
    class Altering extends Fs {
      altered = 0;

      write(fd, piece) {
        const other = Buffer.from(piece);
        if (other.length > 60_000) {
          other[other.length >> 1] ^= 4;
          this.altered += 1;
        }
        super.write(fd, other);
      }
    }
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kfm-"));
    try {
      const world = new World();
      const ports = world.ports();
      const files = new Altering();
      ports.objects = new FileObjects(folder, ports.state, files);
      const updater = counting(1, { perform: () => ({ body, media_type: "text/plain" }) });
      await assert.rejects(run(world.trigger(updater), updater, ports), Corrupt);
      assert.ok(files.altered);
      assert.equal(ports.state.ref("processed/words"), "");
      const [open] = ports.state.openRuns("words");
      for (const [segment] of ports.state.segments(open.run_id)) assert.deepEqual(segment.done, []);
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  });
}
