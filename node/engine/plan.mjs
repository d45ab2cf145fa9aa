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

export async function settlePlan(context) {
  context.stage = "PLAN";
  if (context.run !== null && context.run.plan_hash) {
    recheck(context);
    return;
  }
  const made = make(context);
  const locked = context.ports.state.lockedPlan(context.claimKey);
  if (locked !== null && locked !== made.planHash) throw changed(context);
  context.plan = made;
  journal(context, made);
}

function recheck(context) {
  const { run } = context;
  if (run.updater_version !== context.updater.version) {
    throw drift(context, `it was planned by version ${run.updater_version}, this is ${context.updater.version}`);
  }
  const stored = createHash("sha256");
  for (const body of context.ports.state.planChunks(run.plan_hash)) stored.update(body);
  if (`sha256:${stored.digest("hex")}` !== run.plan_hash) {
    throw new Corrupt(`the journaled plan of run ${run.run_id} is damaged`, { hint: "restore the state from a copy" });
  }
  const made = make(context);
  if (made.planHash !== run.plan_hash) throw drift(context, "this code makes another plan from the same inputs");
  context.plan = made;
}

export async function checkUnchanged(context, done) {
  const now = context.inputs;
  context.inputs = done.inputs; // with the partitions that were found in them
  if (make(context).planHash !== done.plan_hash) throw changed(context);
  context.inputs = now;
}

function drift(context, why) {
  return new PlanDrift(`run ${context.run.run_id} cannot be resumed: ${why}`, {
    hint: `finish it with the code that planned it, or abandon it: \`kfm run ${context.dataset} --abandon --reason …\``,
  });
}

function changed(context) {
  const { id, version } = context.updater;
  return new PlanChanged(`the plan of ${id} ${version} changed for the same inputs`, {
    hint: `bump its version in the configuration; \`kfm plan ${context.dataset}\` tells how it changed`,
  });
}

/** Call plan(), hash the bytes. */
export function make(context) {
  const { updater } = context;
  const { complete, steps } = updater.plan(context.inputs);
  const header = {
    plan: 1,
    updater_id: updater.id,
    updater_version: updater.version,
    dataset: context.dataset,
    complete,
    window: context.trigger.window,
    input_hash: context.inputHash,
  };
  const all = [...steps];
  const chunks = [];
  for (let at = 0; at < all.length || !at; at += CHUNK) {
    beat(context);
    const lines = all.slice(at, at + CHUNK);
    if (!at) lines.unshift(header);
    chunks.push(Buffer.from(lines.map((line) => `${canonicalText(line)}\n`).join(""), "utf8"));
    if (at && at % 100_000 === 0) context.ports.progress("plan", at, 0);
  }
  const total = createHash("sha256");
  for (const body of chunks) total.update(body);
  return { planHash: `sha256:${total.digest("hex")}`, steps: all.length, complete, chunks, all };
}

function journal(context, plan) {
  context.run = replace(context.run, {
    plan_hash: plan.planHash,
    steps: plan.steps,
    inputs: [...context.inputs],
    held: context.heldReport,
  });
}

export function writePlan(context, tx) {
  const { plan } = context;
  if (context.ports.state.lockedPlan(context.claimKey) === null) {
    context.run = replace(context.run, { locked_plan: true });
    plan.chunks.forEach((body, n) => tx.planChunk(plan.planHash, n, body));
  }
  const { run } = context;
  tx.lockPlan(context.claimKey, plan.planHash);
  tx.saveRun(run);
  for (const checkpoint of context.checkpoints) tx.checkpoint(checkpoint); // a resume has read no source and could not
  keepConfig(context, tx);
  const more = Object.entries({ continues: run.continues, config_hash: context.ports.configHash });
  const payload = { plan_hash: plan.planHash, steps: plan.steps, complete: plan.complete };
  return { ...payload, ...Object.fromEntries(more.filter(([, said]) => said)) };
}

export function keepConfig({ ports: { config, configHash, state } }, tx) {
  if (config && state.inlineObject(configHash) === null) tx.objects([[configHash, config]]);
}

function describedIn(context, done) {
  const said = context.results?.described;
  return said?.size ? done.filter(([at]) => said.has(at)).map(([at]) => [at, said.get(at)]) : [];
}

export function append(context, tx, phases, { done = [], intent = [], failed = [], payload = {}, then = [] } = {}) {
  const segment = Segment({
    n: context.segments,
    prev: context.lastSegment,
    plan_hash: context.plan?.planHash ?? "",
    phases,
    done,
    intent,
    failed,
    described: describedIn(context, done),
    payload,
    ts: context.now(),
    then,
  });
  context.lastSegment = tx.segment(context.run.run_id, segment);
  context.segments += 1;
}
