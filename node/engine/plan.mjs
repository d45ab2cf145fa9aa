/**
 * Makes the plan, compares it with the locked one, and journals it.
 *
 * A plan is a header line and a line a step, canonical JSON each; its hash is that of those bytes. What an author's plan
 * may be (impure, out of order, misshapen, endless) is looked for in Python: here only declarations are planned.
 */

import { createHash } from "node:crypto";

import { canonicalText } from "../canonical.mjs";
import { Corrupt, PlanChanged, PlanDrift } from "../errors.mjs";
import { replace, Segment } from "../records.mjs";
import { beat } from "./heartbeat.mjs";

const CHUNK = 1000;

export async function settlePlan(walk) {
  walk.stage = "PLAN";
  if (walk.run !== null && walk.run.plan_hash) {
    recheck(walk);
    return;
  }
  const made = make(walk);
  const locked = walk.ports.state.lockedPlan(walk.claimKey);
  if (locked !== null && locked !== made.planHash) throw changed(walk);
  walk.plan = made;
  journal(walk, made);
}

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

/** Call plan(), hash the bytes. */
export function make(walk) {
  const { updater } = walk;
  const { complete, steps } = updater.plan(walk.inputs);
  const header = {
    plan: 1,
    updater_id: updater.id,
    updater_version: updater.version,
    dataset: walk.dataset,
    complete,
    window: walk.trigger.window,
    input_hash: walk.inputHash,
  };
  const all = [...steps];
  const chunks = [];
  for (let at = 0; at < all.length || !at; at += CHUNK) {
    beat(walk);
    const lines = all.slice(at, at + CHUNK);
    if (!at) lines.unshift(header);
    chunks.push(Buffer.from(lines.map((line) => `${canonicalText(line)}\n`).join(""), "utf8"));
    if (at && at % 100_000 === 0) walk.ports.progress("plan", at, 0);
  }
  const total = createHash("sha256");
  for (const body of chunks) total.update(body);
  return { planHash: `sha256:${total.digest("hex")}`, steps: all.length, complete, chunks, all };
}

function journal(walk, plan) {
  walk.run = replace(walk.run, {
    plan_hash: plan.planHash,
    steps: plan.steps,
    inputs: [...walk.inputs],
    held: walk.heldReport,
  });
}

export function writePlan(walk, tx) {
  const { plan } = walk;
  if (walk.ports.state.lockedPlan(walk.claimKey) === null) {
    walk.run = replace(walk.run, { locked_plan: true });
    plan.chunks.forEach((body, n) => tx.planChunk(plan.planHash, n, body));
  }
  const { run } = walk;
  tx.lockPlan(walk.claimKey, plan.planHash);
  tx.saveRun(run);
  for (const checkpoint of walk.checkpoints) tx.checkpoint(checkpoint); // a resume has read no source and could not
  const payload = { plan_hash: plan.planHash, steps: plan.steps, complete: plan.complete };
  return run.continues ? { ...payload, continues: run.continues } : payload;
}

function describedIn(walk, done) {
  const said = walk.results?.described;
  return said?.size ? done.filter(([at]) => said.has(at)).map(([at]) => [at, said.get(at)]) : [];
}

export function append(walk, tx, phases, { done = [], intent = [], failed = [], payload = {}, then = [] } = {}) {
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
    then,
  });
  walk.lastSegment = tx.segment(walk.run.run_id, segment);
  walk.segments += 1;
}
