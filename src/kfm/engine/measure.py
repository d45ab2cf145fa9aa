"""Telemetry of the run: on success and on failure, in the transaction that ends it."""

from __future__ import annotations

from kfm.contract.ports import Tx
from kfm.contract.records import RunTelemetry, Status
from kfm.engine.walk import Walk


def measure(walk: Walk, tx: Tx, status: Status = "SUCCESS", run_id: str = "", errors: list[str] | None = None) -> None:
    tx.telemetry(telemetry_of(walk, status, run_id or (walk.run.run_id if walk.run else ""), errors or []))


def telemetry_of(walk: Walk, status: Status, run_id: str, errors: list[str]) -> RunTelemetry:
    duration = walk.elapsed_ms()
    target = walk.updater.slo_target_latency_ms
    # Of a run that failed, what was made on the way depends on which step was quicker, and is named by nothing.
    results = walk.results if status != "FAILED" else None
    return RunTelemetry(
        run_id=run_id,
        updater_id=walk.updater.id,
        version=walk.updater.version,
        dataset=walk.dataset,
        source_id=walk.inputs[0].name if walk.inputs else "",
        trigger=walk.trigger.kind,
        status=status,
        failure_stage=walk.stage if status == "FAILED" else None,
        idempotency_state=walk.admission,
        duration_ms=duration,
        latency_ms=duration,
        retries=walk.retries,
        wal_replay_count=walk.replays,
        inputs_count=len(walk.inputs),
        outputs_count=walk.version.entries if walk.version else 0,
        artifact_count=results.done if results else 0,
        bytes_in=walk.bytes_in,
        bytes_out=results.total_size() if results else 0,
        energy_kwh=None,
        co2e_g=None,
        energy_method="unknown: no meter is read yet",
        slo_target_latency_ms=target,
        slo_ok=status != "FAILED" and duration <= target,
        error_budget_burn=0,  # as it is written
        dry_run=walk.ports.settings.dry_run,
        errors=errors,
    )
