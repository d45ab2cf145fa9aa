/** Telemetry of the run: on success and on failure, in the transaction that ends it. */

import { RunTelemetry } from "../records.mjs";

export function measure(walk, tx, status = "SUCCESS", runId = "", errors = []) {
  tx.telemetry(telemetryOf(walk, status, runId || (walk.run?.run_id ?? ""), errors));
}

export function telemetryOf(walk, status, runId, errors) {
  const duration = walk.elapsedMs();
  const target = walk.updater.slo_target_latency_ms;
  // Of a run that failed, what was made on the way depends on which step was quicker, and is named by nothing.
  const results = status !== "FAILED" ? walk.results : null;
  return RunTelemetry({
    run_id: runId,
    updater_id: walk.updater.id,
    version: walk.updater.version,
    dataset: walk.dataset,
    source_id: walk.inputs[0]?.name ?? "",
    trigger: walk.trigger.kind,
    status,
    failure_stage: status === "FAILED" ? walk.stage : null,
    idempotency_state: walk.admission,
    duration_ms: duration,
    latency_ms: duration,
    retries: 0,
    wal_replay_count: walk.replays,
    inputs_count: walk.inputs.length,
    outputs_count: walk.version?.entries ?? 0,
    artifact_count: results?.done ?? 0,
    bytes_in: walk.bytesIn,
    bytes_out: results?.totalSize() ?? 0,
    energy_kwh: null,
    co2e_g: null,
    energy_method: "unknown: no meter is read yet",
    slo_target_latency_ms: target,
    slo_ok: status !== "FAILED" && duration <= target,
    error_budget_burn: 0,
    dry_run: walk.ports.settings.dry_run,
    errors,
  });
}
