/** May this run begin? Claims the work by compare-and-swap, or returns why not. */

import { canonical } from "../canonical.mjs";
import { rfc3339 } from "../clock.mjs";
import { Broken, Conflict, Corrupt, Frozen, KfmError, PlanDrift } from "../errors.mjs";
import { claimKey, inputHash, runId, runKeyOf } from "../keys.mjs";
import { larger } from "../manifests.mjs";
import { abandonsUnfinished, checkReason, overridesOf } from "../run_overrides.mjs";
import { ErrorNote, replace, Run } from "../records.mjs";
import { codeChanged } from "./code_changes.mjs";
import * as heartbeat from "./heartbeat.mjs";
import { measureSuperseded } from "./telemetry_stage.mjs";
import { closingReceipt } from "./receipt_stage.mjs";
import { INLINE_MAX } from "./run_context.mjs";

export class Fresh {
  constructor(n) {
    this.n = n;
  }
}

export class Resume {
  constructor(run) {
    this.run = run;
  }
}

export class Duplicate {
  constructor(run) {
    this.run = run;
  }
}

export class Stopped {}

export function admit(context) {
  context.stage = "ADMIT";
  const { trigger, updater } = context;
  checkReason(trigger);
  context.inputHash = inputHash(context.inputs);
  context.runKey = runKeyOf(context.inputs, trigger.window, updater.version);
  context.claimKey = claimKey(
    updater.id,
    updater.version,
    context.dataset,
    trigger.window,
    context.inputHash,
    trigger.params,
  );
  const { state } = context.ports;
  context.codeChanged = codeChanged(state, updater, context.dataset);
  const done = hasRivals(context) ? null : duplicate(context, state.claimed(context.claimKey));
  if (done !== null) {
    return context.switches.every((name) => ["", "open"].includes(state.ref(name))) ? done : stopped(context);
  }
  try {
    return claim(context);
  } catch (problem) {
    if (problem instanceof Frozen) return stopped(context); // reported before anything was claimed
    throw problem;
  }
}

export function stopped(context) {
  context.admission = "frozen";
  return new Stopped();
}

export function duplicate(context, latest) {
  if (latest === null || latest.status !== "COMMITTED" || context.trigger.force || !isLive(context, latest)) return null;
  context.admission = "duplicate";
  return new Duplicate(latest);
}

export function isLive(context, run) {
  const { state } = context.ports;
  if (state.ref(`processed/${run.dataset}`) !== run.version_digest) return false;
  const [filed] = state.history(`quarantine/${run.dataset}`, { reverse: true, limit: 1 });
  if (filed?.after && state.receipt(filed.run_id)?.status === "FAILED") return false;
  const version = state.datasetVersion(run.dataset, run.version_digest);
  const last = version && (version.validated_by || version.run_id);
  const other = last && last !== run.run_id ? state.run(last) : run;
  return other !== null && contractsOf(other) === contractsOf(run) && isThere(context.ports.objects, run.version_digest);
}

function isThere(objects, version) {
  try {
    for (const entry of larger(objects, version, INLINE_MAX)) {
      if (objects.size(entry.digest) !== entry.size) return false;
    }
    return true;
  } catch (problem) {
    if (!(problem instanceof Corrupt)) throw problem;
    return false;
  }
}

const contractsOf = (run) => run.inputs.map((source) => source.contract_hash).join();

export function claim(context) {
  const { updater } = context;
  const { settings, state } = context.ports;
  let lease = null;
  let run = null;
  const admission = state.transaction(null, { durable: false, switches: context.switches }, (tx) => {
    const latest = state.claimed(context.claimKey); // read again inside the transaction
    const done = duplicate(context, latest);
    if (done !== null && !hasRivals(context)) return done;
    lease = tx.acquire(`${updater.id}/${context.dataset}`, settings.holder, settings.lease_ms);
    if (done !== null) {
      closeSuperseded(context, tx);
      tx.release(lease);
      return done;
    }
    if (latest !== null && latest.status === "RUNNING" && !abandonsUnfinished(context.trigger)) {
      run = replace(latest, { attempt: latest.attempt + 1, trigger: takenUp(context, latest) });
      tx.saveRun(run);
      return new Resume(run);
    }
    closeSuperseded(context, tx);
    run = newRun(context, latest);
    tx.claim(run);
    return new Fresh(run.n);
  });
  // Only now: what a transaction said that was rolled back is not so.
  tellSuperseded(context);
  if (admission instanceof Duplicate) return admission;
  context.lease = lease;
  context.run = run;
  context.renewedMs = context.ports.clock.nowMs();
  if (!settings.dry_run) heartbeat.begin(context);
  if (admission instanceof Resume) {
    context.trigger = replace(context.trigger, { correlation_id: run.trigger.correlation_id });
    context.admission = "resume";
    context.startedMs = context.renewedMs;
    context.replays = run.attempt - 1;
  }
  context.bind(run.run_id);
  context.say("run.started", { status: "started", admission: context.admission });
  return admission;
}

function takenUp({ trigger: asked }, latest) {
  let kept = latest.trigger;
  if (!kept.correlation_id) {
    kept = replace(kept, { correlation_id: kept.trigger_id || asked.correlation_id }); // from before all had one
  }
  if (!overridesOf(asked).length) return kept;
  const { force, abandon, allow_deletions, reason, actor } = asked;
  return replace(kept, { force, abandon, allow_deletions, reason, actor });
}

export function newRun(context, latest) {
  const n = latest !== null ? latest.n + 1 : 0;
  return Run({
    run_id: runId(context.claimKey, n),
    claim_key: context.claimKey,
    n,
    run_key: context.runKey,
    input_hash: context.inputHash,
    updater_id: context.updater.id,
    updater_version: context.updater.version,
    dataset: context.dataset,
    trigger: context.trigger,
    status: "RUNNING",
    started_at: rfc3339(context.startedMs),
    inputs: [...context.inputs],
    metadata: { ...context.ports.metadata },
    continues: continued(context, latest),
    code_hash: context.updater.code_hash,
  });
}

function continued({ trigger }, latest) {
  if (latest?.status !== "FAILED" || trigger.force || abandonsUnfinished(trigger)) return "";
  return latest.plan_hash ? latest.run_id : latest.continues;
}

export function* rivals(context) {
  const wanted = canonical(context.trigger.params);
  for (const run of context.ports.state.openRuns(context.dataset)) {
    if (
      run.updater_id === context.updater.id &&
      run.dataset === context.dataset &&
      run.trigger.window === context.trigger.window &&
      canonical(run.trigger.params).equals(wanted)
    ) {
      yield run;
    }
  }
}

function hasRivals(context) {
  for (const _ of rivals(context)) return true;
  return false;
}

export function closeSuperseded(context, tx) {
  for (const old of rivals(context)) {
    if (old.updater_version !== context.updater.version && !abandonsUnfinished(context.trigger)) {
      throw new PlanDrift(
        `run ${old.run_id} of ${old.updater_id} ${old.updater_version} is unfinished ` +
          `and this is version ${context.updater.version}`,
        {
          hint:
            "finish it with the old version (`kfm resume`), or abandon it: " +
            `\`kfm run ${context.dataset} --abandon --reason …\``,
        },
      );
    }
    let why = "a later run over other inputs took its place";
    if (abandonsUnfinished(context.trigger)) {
      why = `abandoned with --abandon by ${context.trigger.actor}: ${context.trigger.reason}`;
    }
    const note = ErrorNote({ code: "run.superseded", message: why });
    tx.saveRun(replace(old, { status: "FAILED" }));
    tx.receipt(closingReceipt(context, old, "superseded", note), { op: context.updater.op });
    measureSuperseded(context, tx, old, note);
    context.superseded.push([old, note]);
    if (old.trigger.trigger_id !== context.trigger.trigger_id) tx.finishTrigger(old.trigger, old.run_id);
  }
}

function tellSuperseded(context) {
  for (const [old, { code }] of context.superseded) {
    const correlation_id = old.trigger.correlation_id || old.trigger.trigger_id || null;
    const log = context.log.bind({ run_id: old.run_id, job_id: old.claim_key.slice(0, 32), correlation_id });
    log.event("run.superseded", { status: "failed", outcome: "superseded", error: { code } });
  }
}

export const staysOpen = (problem) => [Broken, Conflict, Frozen, PlanDrift].some((kind) => problem instanceof kind);

export function leave(context) {
  if (context.lease === null) return;
  try {
    context.ports.state.release(context.lease);
  } catch (problem) {
    if (!(problem instanceof KfmError)) throw problem;
  }
}
