"""The telemetry stage: writes the telemetry of every run in the transaction that ends it. Unknown values are null."""

from __future__ import annotations

from functools import cache
from typing import Any

from kfm.clock import parse_instant
from kfm.engine.author_overrides import measured
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import NOTHING_MADE, Assembled
from kfm.model.ports import Tx
from kfm.model.records import ErrorNote, Receipt, Run, RunTelemetry, Status, Trigger


def measure(
    context: RunContext,
    tx: Tx,
    status: Status,
    run_id: str,
    errors: list[str] | None = None,
    made: Assembled = NOTHING_MADE,
) -> None:
    reached = context.reached
    admitted, claimed, executed, inputs = reached.admitted, reached.claimed, reached.executed, reached.inputs
    # What a failed run made depends on which step was quicker, and nothing refers to it, so it is not counted.
    results = executed.results if executed is not None and status != "FAILED" else None
    found = _telemetry(
        context,
        context.trigger,
        run_id=run_id,
        source_id=inputs[0].name if inputs else "",
        status=status,
        failure_stage=context.stage if status == "FAILED" else None,
        idempotency_state=admitted.told if admitted is not None else "fresh",
        duration_ms=context.elapsed_ms(),
        pool_wait_ms=context.guards.waited_ms,
        retries=executed.results.retries if executed is not None else 0,
        wal_replay_count=claimed.run.attempt - 1 if claimed is not None else 0,
        inputs_count=len(inputs),
        outputs_count=made.version.entries if made.version else 0,
        artifact_count=results.done if results else 0,
        bytes_in=reached.acquired.bytes_in,
        bytes_out=results.total_size() if results else 0,
        errors=errors or [],
        **_energy(context),
    )
    tx.ledger.keep_telemetry(measured(context, found))


def measure_superseded(context: RunContext, tx: Tx, old: Run, note: ErrorNote) -> None:
    """Write the telemetry of another run that this one ends, from its row and its journal."""
    tx.ledger.keep_telemetry(
        _telemetry(
            context,
            old.trigger,
            run_id=old.run_id,
            version=old.updater_version,
            source_id=old.inputs[0].name if old.inputs else "",
            status="FAILED",
            idempotency_state="fresh" if old.attempt == 1 else "resume",
            duration_ms=None,
            pool_wait_ms=context.guards.waited_ms,
            retries=sum(len(segment.failed) for segment, _ in context.world.state.journal.segments(old.run_id)),
            wal_replay_count=old.attempt - 1,
            inputs_count=len(old.inputs),
            bytes_in=None,
            errors=[note.code],
            energy_method="unknown: another process ended the run",
        )
    )


def measure_merged(context: RunContext, tx: Tx, receipt: Receipt) -> None:
    """Write the telemetry of a trigger that the run for another one answered. It took no time of its own."""
    into = context.world.state.ledger.telemetry(str(receipt.provenance["merged_into"]))
    tx.ledger.keep_telemetry(
        _telemetry(
            context,
            context.trigger,
            run_id=receipt.run_id,
            source_id=into.source_id if into is not None else "",
            status=receipt.status,
            idempotency_state="merged",
            duration_ms=0,
            inputs_count=len(receipt.inputs),
            bytes_in=0,
            errors=[],
            energy_method="unknown: the run that answered this one has it",
        )
    )


def _energy(context: RunContext) -> dict[str, Any]:
    """Return what the run has used so far. What the workers of a cluster used is not known here, and neither is what
    earlier attempts of the run used."""
    if context.metering is None:
        return {}
    reached = context.reached
    if context.world.crew is not None and reached.planned is not None:
        return {"energy_method": "unknown: a cluster performed the steps"}
    is_resumed = reached.claimed is not None and reached.claimed.run.attempt > 1
    kwh, grams, method = context.metering.used(context.world.clock.now_ms(), is_resumed=is_resumed)
    return {"energy_kwh": kwh, "co2e_g": grams, "energy_method": method}


def _telemetry(context: RunContext, trigger: Trigger, **found: Any) -> RunTelemetry:
    world, updater, spent_share = context.world, context.updater, context.guards.spent_share
    now = world.clock.now_ms()
    asked = (
        parse_instant(trigger.received_at, "a trigger") if trigger.received_at else now - (found["duration_ms"] or 0)
    )
    latency, target = max(0, now - asked), updater.slo_target_latency_ms
    known = {
        "updater_id": updater.id,
        "version": updater.version,
        "dataset": trigger.dataset,
        "trigger": trigger.kind,
        "failure_stage": None,
        "latency_ms": latency,
        "retries": 0,
        "wal_replay_count": 0,
        "outputs_count": 0,
        "artifact_count": 0,
        "bytes_out": 0,
        "energy_kwh": None,
        "co2e_g": None,
        "energy_method": "unknown: no meter is read",
        "slo_target_latency_ms": target,
        "slo_ok": None if found["idempotency_state"] == "frozen" else found["status"] != "FAILED" and latency <= target,
        "error_budget_burn": None if spent_share is None else spent_share(),
        "dry_run": world.settings.dry_run,
        "correlation_id": trigger.correlation_id or trigger.trigger_id,
        "tool_versions": _tool_versions(world.settings.worker_image),
        "pool_wait_ms": 0,
    }
    return RunTelemetry(**{**known, **found})


@cache
def _tool_versions(worker_image: str) -> dict[str, str]:
    import sys

    from kfm import __version__

    found = {"kfm": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    return {**found, "worker_image": worker_image} if worker_image else found
