/** The receipt: one for every run, written in the transaction that ends it. */

import { canonical } from "../canonical.mjs";
import { rfc3339 } from "../clock.mjs";
import { Denied, Held } from "../errors.mjs";
import { runId as makeRunId } from "../keys.mjs";
import { datasetUri } from "../names.mjs";
import { overridesOf } from "../run_overrides.mjs";
import { ErrorNote, Item, Receipt, RefMove, replace } from "../records.mjs";
import { VERSION } from "../generated/words.mjs";
import { codeWarnings } from "./code_changes.mjs";
import { measure } from "./telemetry_stage.mjs";
import { append } from "./plan.mjs";

export function record(walk, tx) {
  const receipt = receiptOf(walk, "SUCCESS", outcomeOf(walk), walk.run.run_id);
  tx.receipt(receipt, { op: walk.updater.op });
  return receipt;
}

export function outcomeOf(walk) {
  const moved = walk.moves.some((move) => /^(?:processed|published|switch)\//.test(move.ref));
  return moved ? "done" : "unchanged";
}

/** Would one run answer both? Who asked and why counts only where it goes into the ledger as an order. */
function asksTheSame(one, other) {
  const asked = one.force ? {} : { actor: "", reason: "" };
  const plain = { trigger_id: "", received_at: "", correlation_id: "", ...asked };
  return canonical(replace(one, plain)).equals(canonical(replace(other, plain)));
}

export function skip(walk) {
  const frozen = walk.admission === "frozen";
  const receipt = walk.ports.state.transaction(null, { durable: false }, (tx) => {
    const runId = makeRunId(`skip/${walk.claimKey}`, tx.nextIndex());
    const made = receiptOf(walk, "SKIPPED", frozen ? "frozen" : "noop", runId);
    tx.receipt(made, { op: walk.updater.op });
    measure(walk, tx, "SKIPPED", runId);
    for (const checkpoint of walk.checkpoints) tx.checkpoint(checkpoint);
    if (!frozen) tx.finishTrigger(walk.trigger, runId);
    else if (
      walk.trigger.trigger_id ||
      ![...walk.ports.state.inbox(walk.dataset)].some((each) => asksTheSame(walk.trigger, each))
    ) {
      tx.keepTrigger(walk.trigger);
    }
    return made;
  });
  walk.bind(receipt.run_id);
  walk.say("run.skipped", {
    status: "skipped",
    outcome: receipt.outcome,
    duration_ms: walk.elapsedMs(),
    zone_in: zonesIn(walk),
    zone_out: [],
  });
  return receipt;
}

export function fail(walk, problem) {
  const outcome = problem instanceof Held ? "held" : problem instanceof Denied ? "denied" : "failed";
  const note = ErrorNote({ code: problem.code, message: String(problem) });
  const { run, trigger } = walk;
  const switches = walk.heldReport ? walk.switches : [];
  const receipt = walk.ports.state.transaction(walk.lease, { switches }, (tx) => {
    const runId = run?.run_id ?? makeRunId(`fail/${walk.updater.id}/${walk.dataset}`, tx.nextIndex());
    walk.moves = walk.heldReport ? quarantineMoves(walk) : [];
    for (const move of walk.moves) {
      tx.move(move, { runId, op: walk.updater.op, actor: trigger.actor, reason: trigger.reason, ts: walk.now() });
    }
    walk.version = null;
    walk.changes = {};
    const made = receiptOf(walk, "FAILED", outcome, runId, [note]);
    tx.receipt(made, { op: walk.updater.op });
    measure(walk, tx, "FAILED", runId, [problem.code]);
    if (run !== null) {
      keepMade(walk, tx);
      tx.saveRun(replace(run, { status: "FAILED" }));
    }
    if (walk.lease !== null) tx.release(walk.lease);
    tx.finishTrigger(trigger, runId);
    return made;
  });
  walk.bind(receipt.run_id);
  walk.say("run.failed", {
    status: "failed",
    outcome,
    stage: walk.stage,
    error: problem,
    duration_ms: walk.elapsedMs(),
    zone_in: zonesIn(walk),
    zone_out: zonesOut(walk),
  });
  return receipt;
}

function keepMade(walk, tx) {
  if (walk.tail.length) {
    tx.objects(walk.tailRows);
    append(walk, tx, ["EXECUTE"], { done: walk.tail });
  }
  if (walk.run.locked_plan && walk.results?.done === 0) tx.unlockPlan(walk.claimKey);
}

export function closingReceipt(walk, old, outcome, note) {
  return replace(receiptOf(walk, "FAILED", outcome, old.run_id, [note]), {
    job_id: old.claim_key.slice(0, 32),
    updater_version: old.updater_version,
    code_hash: old.code_hash,
    run_key: old.run_key,
    input_hash: old.input_hash,
    plan_hash: old.plan_hash,
    started_at: old.started_at,
    trigger: old.trigger.kind,
    actor: old.trigger.actor,
    reason: old.trigger.reason,
    inputs: itemsOf(old.inputs),
    outputs: [],
    moves: [],
    steps: old.steps,
    overrides: overridesOf(old.trigger),
    rows: total(old.inputs, "rows"),
    held_rows: total(old.inputs, "held_rows"),
    changes: {},
    correlation_id: old.trigger.correlation_id || old.trigger.trigger_id,
    partition: old.trigger.partition,
    config_hash: "",
  });
}

export function quarantineMoves(walk) {
  const name = `quarantine/${walk.dataset}`;
  const before = walk.ports.state.ref(name);
  return before !== walk.heldReport ? [RefMove({ ref: name, before, after: walk.heldReport })] : [];
}

const total = (inputs, name) => inputs.reduce((sum, source) => sum + source[name], 0);

const itemsOf = (inputs) =>
  inputs.map(({ uri, content_hash }) => Item({ kind: "uri", id: uri, checksum: content_hash, zone: "raw" }));

export const inputItems = (walk) => itemsOf(walk.inputs);

export function zonesIn(walk) {
  return [...new Set(inputItems(walk).map((item) => item.zone))];
}

export function zonesOut(walk) {
  return [...new Set(walk.moves.map((move) => move.ref.split("/")[0]))];
}

export function outputItems(walk) {
  return [Item({ kind: "dataset", id: datasetUri(walk.dataset), checksum: walk.version.digest, zone: "processed" })];
}

export function receiptOf(walk, status, outcome, runId, errors = []) {
  const { run, updater, trigger } = walk;
  return Receipt({
    run_id: runId,
    job_id: walk.claimKey.slice(0, 32),
    job_type: updater.job_type,
    dataset: walk.dataset,
    updater_id: updater.id,
    updater_version: updater.version,
    status,
    outcome,
    trigger: trigger.kind,
    actor: trigger.actor,
    reason: trigger.reason,
    run_key: walk.runKey,
    input_hash: walk.inputHash,
    plan_hash: walk.plan?.planHash ?? "",
    started_at: run?.started_at ?? rfc3339(walk.startedMs),
    finished_at: walk.now(),
    dry_run: walk.ports.settings.dry_run,
    inputs: inputItems(walk),
    outputs: status === "SUCCESS" ? outputItems(walk) : [],
    moves: walk.moves,
    steps: walk.plan?.steps ?? 0,
    held_rows: total(walk.inputs, "held_rows"),
    provenance: { tool_versions: { kfm: VERSION }, transforms: [`${updater.id}@${updater.version}`] },
    policy_decisions: [],
    errors,
    overrides: overridesOf(trigger),
    rows: total(walk.inputs, "rows"),
    changes: walk.changes,
    correlation_id: trigger.correlation_id,
    code_hash: updater.code_hash,
    warnings: walk.codeChanged && !trigger.force ? codeWarnings(updater, outcome) : [],
    config_hash: walk.ports.configHash,
  });
}
