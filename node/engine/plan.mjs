/**
 * Makes the plan twice, holds the two against each other and against the lock, and journals it.
 *
 * A plan is a header line and a line a step, canonical JSON each; its hash is that of those bytes. Both
 * makings stream, so a plan of a million steps is never whole in memory.
 */

import { createHash } from "node:crypto";

import { canonical } from "../canonical.mjs";
import { isPrintable, length } from "../characters.mjs";
import { BadInput, Corrupt, PlanChanged, PlanDrift, PlanImpure, Refused } from "../errors.mjs";
import { checkRef, printable } from "../names.mjs";
import { replace, Segment } from "../records.mjs";
import { authorCall } from "./acquire.mjs";
import { beat } from "./heartbeat.mjs";
import { SettledPlan } from "./walk.mjs";

export const CHUNK = 1000;
export const KEEP_CHUNKS = 64; // plans up to this many chunks stay in memory for the run
const NEWLINE = Buffer.from("\n");

export async function settlePlan(walk) {
  walk.stage = "PLAN";
  if (walk.run !== null && walk.run.plan_hash) {
    recheck(walk);
    return;
  }
  const made = make(walk);
  const locked = walk.ports.state.lockedPlan(walk.claimKey);
  if (locked !== null && locked !== made.planHash) throw await changed(walk, locked);
  const again = make(walk, { like: made });
  if (again.planHash !== made.planHash) throw twice(walk);
  walk.plan = made;
  journal(walk, made);
}

/** The plan this code makes must be the journaled one, byte for byte; otherwise stop. */
export function recheck(walk) {
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
  if (!walk.updater.declared) return;
  const now = walk.inputs;
  walk.inputs = done.inputs; // with the partitions that were found in them
  if (make(walk).planHash !== done.plan_hash) throw await changed(walk, done.plan_hash);
  walk.inputs = now;
}

export function drift(walk, why) {
  return new PlanDrift(`run ${walk.run.run_id} cannot be resumed: ${why}`, {
    hint: `finish it with the code that planned it, or abandon it: \`kfm run ${walk.dataset} --abandon --reason …\``,
  });
}

export async function changed(walk, locked) {
  const made = make(walk);
  const old = [];
  for (const body of walk.ports.state.planChunks(locked)) {
    old.push(body);
    if (old.length > KEEP_CHUNKS) break;
  }
  let diff = `it has ${made.steps} steps now, too many to show`;
  if (made.chunks !== null && old.length <= KEEP_CHUNKS) {
    const { planDiff } = await import("../plans.mjs");
    diff = planDiff(Buffer.concat(old), Buffer.concat(made.chunks)).replaceAll("\n", ", ");
  }
  const { id, version } = walk.updater;
  return new PlanChanged(`the plan of ${id} ${version} changed for the same inputs: ${diff}`, {
    hint: "bump its version in the configuration", // what is not declared is not run here
    discreet: `the plan of ${id} ${version} changed for the same inputs (\`kfm plan ${walk.dataset}\` tells how)`,
  });
}

/**
 * Call plan(), check every step, hash the bytes. `like`: only the hash is wanted, and if the plan
 * is too large to keep, its chunks are written under that hash.
 */
export function make(walk, { like = null } = {}) {
  const { updater } = walk;
  const plan = authorCall(walk, "plan", () => updater.plan(Object.freeze([...walk.inputs])));
  if (plan === null || typeof plan !== "object" || typeof plan.steps?.[Symbol.iterator] !== "function") {
    throw new Refused(`plan() of ${updater.id} gave something that is not a Plan`, { hint: "return Plan(steps=[…])" });
  }
  const complete = plan.complete === true;
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
  const checker = new Checker({ moves: updater.moves_only === true });
  let kept = like === null ? [] : null;
  let stepsKept = [];
  const spill = like !== null && like.chunks === null ? new ChunkWriter(walk, like) : null;
  let count = 0;
  let chunks = 0;
  let pending = header;
  for (const batch of batches(walk, inOrder(plan.steps))) {
    chunks += 1;
    beat(walk);
    const lines = like === null ? checker.check(batch, count) : encode(batch, count);
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
    hasNeeds: like === null ? checker.hasNeeds : like.hasNeeds,
    chunks: kept,
    batches: kept !== null ? stepsKept : null,
    hasMoves: checker.hasMoves,
  });
}

/** A generator plan computes as it is read, so reading it is the author's code too. */
function* batches(walk, steps) {
  const source = steps[Symbol.iterator]();
  const next = () => {
    const batch = [];
    while (batch.length < CHUNK) {
      const { done, value } = source.next();
      if (done) break;
      batch.push(value);
    }
    return batch;
  };
  while (true) {
    const batch = authorCall(walk, "plan", next);
    if (!batch.length) return;
    yield batch;
  }
}

/** Every step: a name of its own, needs that come before it, a key that is texts. */
export class Checker {
  #moves;

  constructor({ moves }) {
    this.#moves = moves;
    this.index = new Map(); // id → position
    this.hasNeeds = false;
    this.hasMoves = false;
  }

  check(batch, first) {
    batch.forEach((step, i) => {
      const position = first + i;
      if (step === null || typeof step !== "object") {
        throw new Refused(`step ${position + 1} of the plan is not a Step`, { hint: "build it with kfm.Step" });
      }
      const name = step.id;
      if (typeof name !== "string" || !name || length(name) > 200 || !isPrintable(name)) {
        throw new Refused(`step ${position + 1} of the plan has no printable id of at most 200 characters`);
      }
      if (step.key !== null && !isKey(step.key)) {
        throw new Refused(`step ${printable(name)}: its key is not a tuple of texts`, {
          hint: 'for example key=("stations", "KS")',
          discreet: `step ${position + 1} of the plan: its key is not a tuple of texts`,
        });
      }
      if (step.params === null || typeof step.params !== "object" || Array.isArray(step.params)) {
        throw misshapen(step, position, "params are not a dict", 'for example params={"state": "KS"}');
      }
      if (!Array.isArray(step.needs) || step.needs.length) this.#checkNeeds(step, position);
      if (step.move !== null) this.#checkMove(step, position);
      if (this.index.has(name)) throw namedTwice(step, position);
      this.index.set(name, position);
    });
    return encode(batch, first);
  }

  #checkNeeds(step, position) {
    if (!areNeeds(step.needs)) {
      throw misshapen(step, position, "needs are not a tuple of ids", 'for example needs=("state-KS",)');
    }
    this.hasNeeds = true;
    for (const need of step.needs) {
      if (!this.index.has(need)) {
        throw new Refused(`step ${printable(step.id)} needs ${printable(need)}, which does not come before it`, {
          hint: "list a step after the steps it needs; a list (not a generator) is sorted for you",
          discreet: `step ${position + 1} of the plan needs one that does not come before it`,
        });
      }
    }
  }

  #checkMove(step, position) {
    this.hasMoves = true;
    if (!this.#moves) throw misshapen(step, position, "move is not for it to make", "only operations move refs");
    checkRef(step.move.ref);
  }
}

function misshapen(step, position, what, hint) {
  return new Refused(`step ${printable(step.id)}: its ${what}`, {
    hint,
    discreet: `step ${position + 1} of the plan: its ${what}`,
  });
}

function namedTwice(step, position) {
  return new Refused(`two steps are called ${printable(step.id)}`, {
    hint: "give every step an id of its own",
    discreet: `step ${position + 1} of the plan has the id of an earlier one`,
  });
}

function areNeeds(needs) {
  return Array.isArray(needs) && needs.every((need) => typeof need === "string");
}

function isKey(key) {
  return Array.isArray(key) && key.length > 0 && key.every((part) => typeof part === "string" && part !== "");
}

/** Canonical lines. */
export function encode(batch, first) {
  const lines = [];
  batch.forEach((step, i) => {
    try {
      lines.push(canonical(step), NEWLINE);
    } catch (problem) {
      if (!(problem instanceof BadInput)) throw problem;
      throw new Refused(`step ${first + i + 1} of the plan has no canonical form: ${problem.message}`, {
        hint: problem.hint,
        cause: problem,
      });
    }
  });
  return Buffer.concat(lines);
}

export function twice(walk) {
  return new PlanImpure(`plan() of ${walk.updater.id} gave two different plans for the same inputs`, {
    hint: "look for sets, object addresses or state kept between calls",
  });
}

/**
 * A list may be in any order: it is sorted so that needs come first, keeping the author's order
 * where it can. A cycle is refused by naming it.
 */
export function inOrder(steps) {
  if (!Array.isArray(steps)) return steps;
  const seen = new Set();
  for (const step of steps) {
    if (!canBeSorted(step)) return steps; // it is refused where every step is looked at
    if (!step.needs.every((need) => seen.has(need))) return steps.every(canBeSorted) ? sortedByNeeds(steps) : steps;
    seen.add(step.id);
  }
  return steps;
}

function canBeSorted(step) {
  return step !== null && typeof step === "object" && typeof step.id === "string" && areNeeds(step.needs);
}

function sortedByNeeds(steps) {
  const byName = new Map();
  steps.forEach((step, position) => {
    if (byName.has(step.id)) throw namedTwice(step, position);
    byName.set(step.id, step);
  });
  const state = new Map(); // 1: on the path, 2: placed
  const ordered = [];
  for (const root of steps) {
    if (state.get(root.id)) continue;
    const stack = [[root, root.needs[Symbol.iterator]()]];
    state.set(root.id, 1);
    while (stack.length) {
      const [step, needs] = stack.at(-1);
      const { done, value: need } = needs.next();
      if (done) {
        stack.pop();
        state.set(step.id, 2);
        ordered.push(step);
        continue;
      }
      if (!byName.has(need)) {
        throw new Refused(`step ${printable(step.id)} needs ${printable(need)}, which is not in the plan`, {
          hint: "`needs` names ids of steps",
          discreet: "a step needs one that is not in the plan",
        });
      }
      if (state.get(need) === 1) {
        const path = stack.map((entry) => entry[0].id);
        const loop = [...path.slice(path.indexOf(need)), need];
        const shown = loop.length <= 12 ? loop : [...loop.slice(0, 10), "…", need];
        throw new Refused(`the plan has a cycle: ${shown.join(" → ")}`, {
          hint: "break it",
          discreet: `the plan has a cycle of ${loop.length - 1} steps`,
        });
      }
      if (!state.get(need)) {
        state.set(need, 1);
        stack.push([byName.get(need), byName.get(need).needs[Symbol.iterator]()]);
      }
    }
  }
  return ordered;
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
export function journal(walk, plan) {
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
export function append(walk, tx, phases, { done = [], intent = [], failed = [], payload = {} } = {}) {
  const segment = Segment({
    n: walk.segments,
    prev: walk.lastSegment,
    plan_hash: walk.plan.planHash,
    phases,
    done,
    intent,
    failed,
    payload,
    ts: walk.now(),
  });
  walk.lastSegment = tx.segment(walk.run.run_id, segment);
  walk.segments += 1;
}
