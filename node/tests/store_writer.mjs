/**
 * Writes to a state and prints what was acknowledged: one line for every transaction that was acknowledged.
 * tests/node/store_writer.py does the same in Python, on the same state, at the same time.
 *
 *     store_writer.mjs <sqlite|jsonl> <path> <name> <rounds> <durable|mixed>
 */

import fs from "node:fs";

import { Busy, KfmError } from "../errors.mjs";
import { sleep } from "../store/locks.mjs";
import { JsonlTables } from "../store/jsonl.mjs";
import { SqliteTables } from "../store/sqlite.mjs";
import { StoredState, thisProcess } from "../store/state.mjs";

const [kind, place, name, rounds, durability] = process.argv.slice(2);
const say = (line) => fs.writeSync(1, line + "\n");

class Left extends Error {}

function patiently(what) {
  for (;;) {
    try {
      return what();
    } catch (problem) {
      if (!(problem instanceof Busy)) throw problem;
      sleep(2);
    }
  }
}

function work() {
  const tables = patiently(() => (kind === "sqlite" ? new SqliteTables(place) : new JsonlTables(place)));
  const state = new StoredState(tables, Date.now);
  const me = thisProcess();
  say("open");
  for (let i = 0; i < Number(rounds); i += 1) {
    if (durability === "mixed") sleep(1); // let the other one in
    // Only the holder of the lease is inside; a process that dies inside is known to be dead.
    const lease = patiently(() => state.acquire("counter", me, 600_000));
    let n = 0;
    try {
      state.transaction(lease, { durable: durability === "durable" || i % 2 === 0 }, (tx) => {
        n = Number(tables.get("runs", "n") ?? 0) + 1;
        tables.put("runs", "n", Buffer.from(String(n)));
        tables.put("refs", `${name}/${String(i).padStart(6, "0")}`, Buffer.from(`${n} ${lease.token}`));
        tx.release(lease);
        if (durability === "mixed" && i % 5 === 0) throw new Left();
      });
    } catch (problem) {
      if (!(problem instanceof Left)) throw problem;
      patiently(() => state.release(lease));
      continue;
    }
    say(`${n} ${lease.token}`);
  }
  tables.close();
  say("closed");
}

try {
  work();
} catch (problem) {
  if (!(problem instanceof KfmError)) throw problem;
  fs.writeSync(2, `${problem}\n`);
  process.exitCode = problem.exitCode;
}
