/** The telemetry of a run, written in the transaction that ends it. An unknown value is null, never 0. */

import process from "node:process";

import { parseInstant } from "../clock.mjs";
import { RunTelemetry } from "../records.mjs";
import { VERSION } from "../generated/words.mjs";

export function measure(context, tx, status = "SUCCESS", runId = "", errors = []) {
  // Of a run that failed, what was made on the way depends on which step was quicker, and is named by nothing.
  const results = status !== "FAILED" ? context.results : null;
  const found = {
    run_id: runId || (context.run?.run_id ?? ""),
    source_id: context.inputs[0]?.name ?? "",
    status,
    failure_stage: status === "FAILED" ? context.stage : null,
    idempotency_state: context.admission,
    duration_ms: context.elapsedMs(),
    wal_replay_count: context.replays,
    inputs_count: context.inputs.length,
    outputs_count: context.version?.entries ?? 0,
    artifact_count: results?.done ?? 0,
    bytes_in: context.bytesIn,
    bytes_out: results?.totalSize() ?? 0,
    errors,
  };
  tx.telemetry(telemetry(context.ports, context.trigger, context.updater, found));
}

export function measureSuperseded(context, tx, old, note) {
  let retries = 0;
  for (const [segment] of context.ports.state.segments(old.run_id)) retries += segment.failed.length;
  const found = {
    run_id: old.run_id,
    version: old.updater_version,
    source_id: old.inputs[0]?.name ?? "",
    status: "FAILED",
    idempotency_state: old.attempt === 1 ? "fresh" : "resume",
    duration_ms: null,
    retries,
    wal_replay_count: old.attempt - 1,
    inputs_count: old.inputs.length,
    bytes_in: null,
    errors: [note.code],
    energy_method: "unknown: another process ended the run",
  };
  tx.telemetry(telemetry(context.ports, old.trigger, context.updater, found));
}

/** Under a clock that stands still, runners write the same. */
function unmetered(clock) {
  if (!clock.isStopped) return "unknown: this runner reads no meter";
  return "unknown: KFM_NOW or SOURCE_DATE_EPOCH stops the clock, and a run leaves the same bytes again";
}

function telemetry({ clock, settings }, trigger, updater, found) {
  const now = clock.nowMs();
  const asked = trigger.received_at ? parseInstant(trigger.received_at, "a trigger") : now - (found.duration_ms ?? 0);
  const latency = Math.max(0, now - asked);
  const target = updater.slo_target_latency_ms;
  return RunTelemetry({
    updater_id: updater.id,
    version: updater.version,
    dataset: trigger.dataset,
    trigger: trigger.kind,
    failure_stage: null,
    latency_ms: latency,
    retries: 0, // what is declared fails for good or not at all: nothing is tried again here
    outputs_count: 0,
    artifact_count: 0,
    bytes_out: 0,
    energy_kwh: null,
    co2e_g: null,
    energy_method: unmetered(clock),
    slo_target_latency_ms: target,
    slo_ok: found.idempotency_state === "frozen" ? null : found.status !== "FAILED" && latency <= target,
    error_budget_burn: null,
    dry_run: settings.dry_run,
    correlation_id: trigger.correlation_id || trigger.trigger_id,
    tool_versions: { kfm: VERSION, node: process.versions.node },
    ...found,
  });
}
