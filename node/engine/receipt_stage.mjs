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
import { append, keepConfig } from "./plan.mjs";

export function record(context, tx) {
  const receipt = receiptOf(context, "SUCCESS", outcomeOf(context), context.run.run_id);
  tx.receipt(receipt, { op: context.updater.op, sinks: context.ports.settings.sinks });
  keepConfig(context, tx);
  return receipt;
}

export function outcomeOf(context) {
  const moved = context.moves.some((move) => /^(?:processed|published|switch)\//.test(move.ref));
  return moved ? "done" : "unchanged";
}

/** Would one run answer both? Who asked and why counts only where it goes into the ledger as an order. */
function asksTheSame(one, other) {
  const asked = one.force ? {} : { actor: "", reason: "" };
  const plain = { trigger_id: "", received_at: "", correlation_id: "", ...asked };
  return canonical(replace(one, plain)).equals(canonical(replace(other, plain)));
}

export function skip(context) {
  const frozen = context.admission === "frozen";
  const receipt = context.ports.state.transaction(null, { durable: false }, (tx) => {
    const runId = makeRunId(`skip/${context.claimKey}`, tx.nextIndex());
    const made = receiptOf(context, "SKIPPED", frozen ? "frozen" : "noop", runId);
    tx.receipt(made, { op: context.updater.op });
    keepConfig(context, tx);
    measure(context, tx, "SKIPPED", runId);
    for (const checkpoint of context.checkpoints) tx.checkpoint(checkpoint);
    if (!frozen) tx.finishTrigger(context.trigger, runId);
    else if (
      context.trigger.trigger_id ||
      ![...context.ports.state.inbox(context.dataset)].some((each) => asksTheSame(context.trigger, each))
    ) {
      tx.keepTrigger(context.trigger);
    }
    return made;
  });
  context.bind(receipt.run_id);
  const said = { status: "skipped", outcome: receipt.outcome, duration_ms: context.elapsedMs() };
  context.say("run.skipped", { ...said, zone_in: zonesIn(context), zone_out: [] });
  return receipt;
}

export function fail(context, problem) {
  const outcome = problem instanceof Held ? "held" : problem instanceof Denied ? "denied" : "failed";
  const note = ErrorNote({ code: problem.code, message: String(problem) });
  const { run, trigger } = context;
  const switches = context.heldReport ? context.switches : [];
  const receipt = context.ports.state.transaction(context.lease, { switches }, (tx) => {
    const runId = run?.run_id ?? makeRunId(`fail/${context.updater.id}/${context.dataset}`, tx.nextIndex());
    context.moves = context.heldReport ? quarantineMoves(context) : [];
    for (const move of context.moves) {
      tx.move(move, { runId, op: context.updater.op, actor: trigger.actor, reason: trigger.reason, ts: context.now() });
    }
    context.version = null;
    context.changes = {};
    const made = receiptOf(context, "FAILED", outcome, runId, [note]);
    tx.receipt(made, { op: context.updater.op });
    keepConfig(context, tx);
    measure(context, tx, "FAILED", runId, [problem.code]);
    if (run !== null) {
      keepMade(context, tx, { outcome, code: problem.code, stage: context.stage });
      tx.saveRun(replace(run, { status: "FAILED" }));
    }
    if (context.lease !== null) tx.release(context.lease);
    tx.finishTrigger(trigger, runId);
    return made;
  });
  context.bind(receipt.run_id);
  const said = { status: "failed", outcome, stage: context.stage, error: problem, duration_ms: context.elapsedMs() };
  context.say("run.failed", { ...said, zone_in: zonesIn(context), zone_out: zonesOut(context) });
  return receipt;
}

function keepMade(context, tx, ended) {
  const { plan, ports, run } = context;
  if (plan === null && ports.state.segments(run.run_id).next().done) append(context, tx, [], { payload: { ended } });
  if (context.tail.length) {
    tx.objects(context.tailRows);
    append(context, tx, ["EXECUTE"], { done: context.tail });
  }
  if (context.run.locked_plan && context.results?.done === 0) tx.unlockPlan(context.claimKey);
}

export function closingReceipt(context, old, outcome, note) {
  return replace(receiptOf(context, "FAILED", outcome, old.run_id, [note]), {
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
    moves: [],
    steps: old.steps,
    overrides: overridesOf(old.trigger),
    rows: total(old.inputs, "rows"),
    held_rows: total(old.inputs, "held_rows"),
    changes: {},
    correlation_id: old.trigger.correlation_id || old.trigger.trigger_id,
    partition: old.trigger.partition,
    config_hash: context.ports.state.segments(old.run_id).next().value?.[0].payload.config_hash ?? "",
  });
}

export function quarantineMoves(context) {
  const name = `quarantine/${context.dataset}`;
  const before = context.ports.state.ref(name);
  return before !== context.heldReport ? [RefMove({ ref: name, before, after: context.heldReport })] : [];
}

const total = (inputs, name) => inputs.reduce((sum, source) => sum + source[name], 0);

const itemsOf = (inputs) =>
  inputs.map(({ uri, content_hash }) => Item({ kind: "uri", id: uri, checksum: content_hash, zone: "raw" }));

export const inputItems = (context) => itemsOf(context.inputs);

export const zonesIn = (context) => [...new Set(inputItems(context).map((item) => item.zone))];
export const zonesOut = (context) => [...new Set(context.moves.map((move) => move.ref.split("/")[0]))];
export const outputItems = ({ dataset, version }) =>
  [Item({ kind: "dataset", id: datasetUri(dataset), checksum: version.digest, zone: "processed" })];

export function receiptOf(context, status, outcome, runId, errors = []) {
  const { run, updater, trigger } = context;
  return Receipt({
    run_id: runId,
    job_id: context.claimKey.slice(0, 32),
    job_type: updater.job_type,
    dataset: context.dataset,
    updater_id: updater.id,
    updater_version: updater.version,
    status,
    outcome,
    trigger: trigger.kind,
    actor: trigger.actor,
    reason: trigger.reason,
    run_key: context.runKey,
    input_hash: context.inputHash,
    plan_hash: context.plan?.planHash ?? "",
    started_at: run?.started_at ?? rfc3339(context.startedMs),
    finished_at: context.now(),
    dry_run: context.ports.settings.dry_run,
    inputs: inputItems(context),
    outputs: status === "SUCCESS" ? outputItems(context) : [],
    moves: context.moves,
    steps: context.plan?.steps ?? 0,
    held_rows: total(context.inputs, "held_rows"),
    provenance: { tool_versions: { kfm: VERSION }, transforms: [`${updater.id}@${updater.version}`] },
    policy_decisions: [],
    errors,
    overrides: overridesOf(trigger),
    rows: total(context.inputs, "rows"),
    changes: context.changes,
    correlation_id: trigger.correlation_id,
    code_hash: updater.code_hash,
    warnings: context.codeChanged && !trigger.force ? codeWarnings(updater, outcome) : [],
    config_hash: context.ports.configHash,
  });
}
