/**
 * Makes the plan, holds it against the lock, and journals it.
 *
 * A plan is a header line and a line a step, canonical JSON each; its hash is that of those bytes. It streams, so
 * that a plan of a million steps is never whole in memory: such a one is made twice. What an author's plan may be
 * (impure, out of order, misshapen) is looked for in Python: here only declarations are planned.
 */

import { createHash } from "node:crypto";

import { canonical } from "../canonical.mjs";
import { Corrupt, PlanChanged, PlanDrift } from "../errors.mjs";
import { replace, Segment } from "../records.mjs";
import { beat } from "./heartbeat.mjs";
import { SettledPlan } from "./walk.mjs";

const CHUNK = 1000;
const KEEP_CHUNKS = 64; // plans up to this many chunks stay in memory for the run
const NEWLINE = Buffer.from("\n");

export async function settlePlan(walk) {
  walk.stage = "PLAN";
  if (walk.run !== null && walk.run.plan_hash) {
    recheck(walk);
    return;
  }
  const made = make(walk);
  const locked = walk.ports.state.lockedPlan(walk.claimKey);
  if (locked !== null && locked !== made.planHash) throw changed(walk);
  if (made.chunks === null) make(walk, { like: made });
  walk.plan = made;
  journal(walk, made);
}

/** The plan this code makes must be the journaled one, byte for byte; otherwise stop. */
function recheck(walk) {
  const { run } = walk;
  if (run.updater_version !== walk.updater.version) {
    throw drift(walk, `it was planned by version ${run.updater_version}, this is ${walk.updater.version}`);
  }
  const stored = createHash("sha256");
  for (const body of walk.ports.state.planChunks(run.plan_hash)) stored.update(body);
  if (`sha256:${stored.digest("hex")}` !== run.plan_hash) {
    throw new Corrupt(`the journaled plan of run ${run.run_id} is damaged`, { hint: "restore the state from a copy" });
  }
  const made = make(walk);
  if (made.planHash !== run.plan_hash) throw drift(walk, "this code makes another plan from the same inputs");
  walk.plan = made;
}

/** Before a NOOP: what the configuration declares may have changed although the version did not. */
export async function checkUnchanged(walk, done) {
  const now = walk.inputs;
  walk.inputs = done.inputs; // with the partitions that were found in them
  if (make(walk).planHash !== done.plan_hash) throw changed(walk);
  walk.inputs = now;
}

function drift(walk, why) {
  return new PlanDrift(`run ${walk.run.run_id} cannot be resumed: ${why}`, {
    hint: `finish it with the code that planned it, or abandon it: \`kfm run ${walk.dataset} --abandon --reason …\``,
  });
}

function changed(walk) {
  const { id, version } = walk.updater;
  return new PlanChanged(`the plan of ${id} ${version} changed for the same inputs`, {
    hint: `bump its version in the configuration; \`kfm plan ${walk.dataset}\` tells how it changed`,
  });
}

/**
 * Call plan(), hash the bytes. `like`: only the hash is wanted, and if the plan
 * is too large to keep, its chunks are written under that hash.
 */
export function make(walk, { like = null } = {}) {
  const { updater } = walk;
  const { complete, steps } = updater.plan(walk.inputs);
  const header = Buffer.concat([
    canonical({
      plan: 1,
      updater_id: updater.id,
      updater_version: updater.version,
      dataset: walk.dataset,
      complete,
      window: walk.trigger.window,
      input_hash: walk.inputHash,
    }),
    NEWLINE,
  ]);
  const total = createHash("sha256").update(header);
  let kept = like === null ? [] : null;
  let stepsKept = [];
  const spill = like !== null && like.chunks === null ? new ChunkWriter(walk, like) : null;
  let count = 0;
  let chunks = 0;
  let pending = header;
  for (const batch of batches(steps)) {
    chunks += 1;
    beat(walk);
    const lines = encode(batch);
    total.update(lines);
    const body = pending === null ? lines : Buffer.concat([pending, lines]);
    pending = null;
    count += batch.length;
    if (kept !== null) {
      kept.push(body);
      stepsKept.push(batch);
      if (chunks > KEEP_CHUNKS) {
        kept = null;
        stepsKept = [];
      }
    }
    spill?.add(body);
    if (count % 100_000 < CHUNK) walk.ports.progress("plan", count, 0);
  }
  if (pending !== null) {
    kept?.push(pending);
    spill?.add(pending);
  }
  spill?.flush();
  return new SettledPlan({
    planHash: `sha256:${total.digest("hex")}`,
    steps: count,
    complete,
    chunks: kept,
    batches: kept !== null ? stepsKept : null,
  });
}

function* batches(steps) {
  let batch = [];
  for (const step of steps) {
    batch.push(step);
    if (batch.length === CHUNK) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length) yield batch;
}

/** Canonical lines. */
function encode(batch) {
  return Buffer.concat(batch.flatMap((step) => [canonical(step), NEWLINE]));
}

/** Writes the chunks of a plan too large to keep, some at a time, under the hash known from the first making. */
class ChunkWriter {
  #walk;
  #hash;
  #n = 0;
  #held = [];

  constructor(walk, like) {
    this.#walk = walk;
    this.#hash = like.planHash;
  }

  add(body) {
    this.#held.push(body);
    if (this.#held.length >= 32) this.flush();
  }

  flush() {
    if (!this.#held.length) return;
    this.#walk.ports.state.transaction(this.#walk.lease, { durable: false }, (tx) => {
      for (const body of this.#held) tx.planChunk(this.#hash, this.#n++, body);
    });
    this.#held = [];
  }
}

/**
 * The PLAN record. It is not written here but handed to the first durable write of execute, which
 * also holds the first intents: one sync for both.
 */
function journal(walk, plan) {
  walk.run = replace(walk.run, {
    plan_hash: plan.planHash,
    steps: plan.steps,
    inputs: [...walk.inputs],
    held: walk.heldReport,
  });
}

/** Inside the first transaction of execute; returns what its segment says of the plan. */
export function writePlan(walk, tx) {
  const { plan } = walk;
  if (walk.ports.state.lockedPlan(walk.claimKey) === null) {
    walk.run = replace(walk.run, { locked_plan: true });
    plan.chunks?.forEach((body, n) => tx.planChunk(plan.planHash, n, body));
  }
  const { run } = walk;
  tx.lockPlan(walk.claimKey, plan.planHash);
  tx.saveRun(run);
  for (const checkpoint of walk.checkpoints) tx.checkpoint(checkpoint); // a resume has read no source and could not
  const payload = { plan_hash: plan.planHash, steps: plan.steps, complete: plan.complete };
  return run.continues ? { ...payload, continues: run.continues } : payload;
}

/** Add a segment to the run's journal, in its place in the chain. */
function describedIn(walk, done) {
  const said = walk.results?.described;
  return said?.size ? done.filter(([at]) => said.has(at)).map(([at]) => [at, said.get(at)]) : [];
}

export function append(walk, tx, phases, { done = [], intent = [], failed = [], payload = {} } = {}) {
  const segment = Segment({
    n: walk.segments,
    prev: walk.lastSegment,
    plan_hash: walk.plan.planHash,
    phases,
    done,
    intent,
    failed,
    described: describedIn(walk, done),
    payload,
    ts: walk.now(),
  });
  walk.lastSegment = tx.segment(walk.run.run_id, segment);
  walk.segments += 1;
}
