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

export function admit(walk) {
  walk.stage = "ADMIT";
  const { trigger, updater } = walk;
  checkReason(trigger);
  walk.inputHash = inputHash(walk.inputs);
  walk.runKey = runKeyOf(walk.inputs, trigger.window, updater.version);
  walk.claimKey = claimKey(
    updater.id,
    updater.version,
    walk.dataset,
    trigger.window,
    walk.inputHash,
    trigger.params,
  );
  const { state } = walk.ports;
  walk.codeChanged = codeChanged(state, updater, walk.dataset);
  const done = hasRivals(walk) ? null : duplicate(walk, state.claimed(walk.claimKey));
  if (done !== null) {
    return walk.switches.every((name) => ["", "open"].includes(state.ref(name))) ? done : stopped(walk);
  }
  try {
    return claim(walk);
  } catch (problem) {
    if (problem instanceof Frozen) return stopped(walk); // reported before anything was claimed
    throw problem;
  }
}

export function stopped(walk) {
  walk.admission = "frozen";
  return new Stopped();
}

export function duplicate(walk, latest) {
  if (latest === null || latest.status !== "COMMITTED" || walk.trigger.force || !isLive(walk, latest)) return null;
  walk.admission = "duplicate";
  return new Duplicate(latest);
}

export function isLive(walk, run) {
  const { state } = walk.ports;
  if (state.ref(`processed/${run.dataset}`) !== run.version_digest) return false;
  const version = state.datasetVersion(run.dataset, run.version_digest);
  const last = version && (version.validated_by || version.run_id);
  const other = last && last !== run.run_id ? state.run(last) : run;
  if (other === null || contractsOf(other) !== contractsOf(run)) return false;
  return isThere(walk.ports.objects, run.version_digest);
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

export function claim(walk) {
  const { updater } = walk;
  const { settings, state } = walk.ports;
  let lease = null;
  let run = null;
  const admission = state.transaction(null, { durable: false, switches: walk.switches }, (tx) => {
    const latest = state.claimed(walk.claimKey); // read again inside the transaction
    const done = duplicate(walk, latest);
    if (done !== null && !hasRivals(walk)) return done;
    lease = tx.acquire(`${updater.id}/${walk.dataset}`, settings.holder, settings.lease_ms);
    if (done !== null) {
      closeSuperseded(walk, tx);
      tx.release(lease);
      return done;
    }
    if (latest !== null && latest.status === "RUNNING" && !abandonsUnfinished(walk.trigger)) {
      run = replace(latest, { attempt: latest.attempt + 1, trigger: takenUp(walk, latest) });
      tx.saveRun(run);
      return new Resume(run);
    }
    closeSuperseded(walk, tx);
    run = newRun(walk, latest);
    tx.claim(run);
    return new Fresh(run.n);
  });
  // Only now: what a transaction said that was rolled back is not so.
  tellSuperseded(walk);
  if (admission instanceof Duplicate) return admission;
  walk.lease = lease;
  walk.run = run;
  walk.renewedMs = walk.ports.clock.nowMs();
  if (!settings.dry_run) heartbeat.begin(walk);
  if (admission instanceof Resume) {
    walk.trigger = replace(walk.trigger, { correlation_id: run.trigger.correlation_id });
    walk.admission = "resume";
    walk.startedMs = walk.renewedMs;
    walk.replays = run.attempt - 1;
  }
  walk.bind(run.run_id);
  walk.say("run.started", { status: "started", admission: walk.admission });
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

export function newRun(walk, latest) {
  const n = latest !== null ? latest.n + 1 : 0;
  return Run({
    run_id: runId(walk.claimKey, n),
    claim_key: walk.claimKey,
    n,
    run_key: walk.runKey,
    input_hash: walk.inputHash,
    updater_id: walk.updater.id,
    updater_version: walk.updater.version,
    dataset: walk.dataset,
    trigger: walk.trigger,
    status: "RUNNING",
    started_at: rfc3339(walk.startedMs),
    inputs: [...walk.inputs],
    metadata: { ...walk.ports.metadata },
    continues: continued(walk, latest),
    code_hash: walk.updater.code_hash,
  });
}

function continued({ trigger }, latest) {
  if (latest?.status !== "FAILED" || trigger.force || abandonsUnfinished(trigger)) return "";
  return latest.plan_hash ? latest.run_id : latest.continues;
}

export function* rivals(walk) {
  const wanted = canonical(walk.trigger.params);
  for (const run of walk.ports.state.openRuns(walk.dataset)) {
    if (
      run.updater_id === walk.updater.id &&
      run.dataset === walk.dataset &&
      run.trigger.window === walk.trigger.window &&
      canonical(run.trigger.params).equals(wanted)
    ) {
      yield run;
    }
  }
}

function hasRivals(walk) {
  for (const _ of rivals(walk)) return true;
  return false;
}

export function closeSuperseded(walk, tx) {
  for (const old of rivals(walk)) {
    if (old.updater_version !== walk.updater.version && !abandonsUnfinished(walk.trigger)) {
      throw new PlanDrift(
        `run ${old.run_id} of ${old.updater_id} ${old.updater_version} is unfinished ` +
          `and this is version ${walk.updater.version}`,
        {
          hint:
            "finish it with the old version (`kfm resume`), or abandon it: " +
            `\`kfm run ${walk.dataset} --abandon --reason …\``,
        },
      );
    }
    let why = "a later run over other inputs took its place";
    if (abandonsUnfinished(walk.trigger)) {
      why = `abandoned with --abandon by ${walk.trigger.actor}: ${walk.trigger.reason}`;
    }
    const note = ErrorNote({ code: "run.superseded", message: why });
    tx.saveRun(replace(old, { status: "FAILED" }));
    tx.receipt(closingReceipt(walk, old, "superseded", note), { op: walk.updater.op });
    measureSuperseded(walk, tx, old, note);
    walk.superseded.push([old, note]);
    if (old.trigger.trigger_id !== walk.trigger.trigger_id) tx.finishTrigger(old.trigger, old.run_id);
  }
}

function tellSuperseded(walk) {
  for (const [old, { code }] of walk.superseded) {
    const correlation_id = old.trigger.correlation_id || old.trigger.trigger_id || null;
    const log = walk.log.bind({ run_id: old.run_id, job_id: old.claim_key.slice(0, 32), correlation_id });
    log.event("run.superseded", { status: "failed", outcome: "superseded", error: { code } });
  }
}

export function staysOpen(problem) {
  return [Broken, Conflict, Frozen, PlanDrift].some((kind) => problem instanceof kind);
}

export function leave(walk) {
  if (walk.lease === null) return;
  try {
    walk.ports.state.release(walk.lease);
  } catch (problem) {
    if (!(problem instanceof KfmError)) throw problem;
  }
}
