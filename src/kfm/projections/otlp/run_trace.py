"""A run as the spans of one trace and one log record of OpenTelemetry. Pure.

All ids are digests of the run's id, so a receiver recognizes a repetition. Attributes follow the conventions for CI/CD
(`cicd.…`); facts that these do not name are `kfm.…`, under the names of the run's telemetry.

Of a run that was not about public data there is less: no steps, no counts of data, and no code of an error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kfm.model.public_run import PublicRun
from kfm.model.records import RunTelemetry
from kfm.projections.signals import final_state
from kfm.projections.vocabulary import name_of

Attributes = dict[str, str | int | float | bool]

STEPS = 100  # most steps of a run that have a span
RUN_ENDED = "run.ended"  # the name of the log record
OTHER = "_OTHER"  # the conventions' word for an error without a class
_SEVERITIES = {"FAILED": "ERROR", "PARTIAL": "WARN"}
_RESULTS = {"succeeded": "success", "failed": "failure", "cancelled": "cancellation", "queued": "skip"}
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,63}\Z")


class StageTime(NamedTuple):
    """When a stage of a run began and ended, by its journal."""

    name: str  # PLAN, EXECUTE, UPSERT or LINEAGE
    start_ms: int
    end_ms: int


class StepTime(NamedTuple):
    """When a step of a run began and ended, by its journal."""

    position: int  # in the plan
    start_ms: int
    end_ms: int
    digest: str = ""  # of its output; empty: it failed
    code: str = ""  # of its error; empty: it succeeded


class RunTimes(NamedTuple):
    """The times of one run: all its stages, and its steps if they may be shown."""

    start_ms: int
    end_ms: int
    stages: tuple[StageTime, ...] = ()
    steps: tuple[StepTime, ...] = ()  # at most STEPS, in the order of the plan
    left: int = 0  # how many steps are not among them


def trace_id(run_id: str) -> str:
    """Return the trace id of a run: 32 hexadecimal digits."""
    return hashlib.sha256(f"kfm trace {run_id}".encode()).hexdigest()[:32]


def span_id(run_id: str, place: str = "") -> str:
    """Return the id of a span of this run: 16 hexadecimal digits. Without a place it is the root."""
    return hashlib.sha256(f"kfm span {run_id} {place}".encode()).hexdigest()[:16]


def otlp_message(
    run: PublicRun, telemetry: RunTelemetry | None, times: RunTimes, signals: tuple[str, ...]
) -> dict[str, Any]:
    """Return the wanted signals of a run as plain values: `spans`, the root first, and `logs`."""
    return {
        "spans": list(spans(run, telemetry, times)) if "traces" in signals else [],
        "logs": [log_record(run, telemetry, times.end_ms)] if "logs" in signals else [],
    }


def spans(run: PublicRun, telemetry: RunTelemetry | None, times: RunTimes) -> Iterator[dict[str, Any]]:
    """Yield the spans of a run: its root, and below it a span for each stage and for some steps."""
    start, end = times.start_ms, times.end_ms
    error = _error(run, telemetry)
    root = _attributes(run, telemetry)
    if error:
        root["error.type"] = error
    if times.left:
        root["kfm.steps.left_out"] = times.left
    action = "BUILD" if not run.job_type.startswith("operation.") else "RUN"
    root["cicd.pipeline.action.name"] = action
    yield _span(run, "", "", f"{action} {_pipeline(run)}", (start, end), error, root)
    failed_at = _failed_stage(telemetry) if error else ""
    stages = list(times.stages)
    if failed_at and failed_at not in {each.name for each in stages}:
        stages.append(StageTime(failed_at, max((each.end_ms for each in stages), default=start), end))
    for stage in stages:
        code = error if stage.name == failed_at else ""
        about = _task(run, stage.name, stage.name, code)
        yield _span(run, stage.name, "", stage.name, _within(stage.start_ms, stage.end_ms, start, end), code, about)
    above = "EXECUTE" if any(each.name == "EXECUTE" for each in stages) else ""
    outputs = _outputs(run)
    for step in times.steps:
        place = f"EXECUTE/{step.position}"
        code = _code(step.code) if step.code else ""
        about = {**_task(run, "step", place, code), "kfm.step.position": step.position}
        if step.digest in outputs:
            id, size = outputs[step.digest]
            about |= {"kfm.output.id": id, "kfm.output.digest": step.digest, "kfm.output.size": size}
        yield _span(run, place, above, "step", _within(step.start_ms, step.end_ms, start, end), code, about)


def log_record(run: PublicRun, telemetry: RunTelemetry | None, end_ms: int) -> dict[str, Any]:
    """Return the log record of the end of a run."""
    about: Attributes = {
        **_about(run),
        "cicd.pipeline.name": _pipeline(run),
        "cicd.pipeline.run.id": run.run_id,
        "cicd.pipeline.result": _result(run),
    }
    error = _error(run, telemetry)
    if error:
        about["error.type"] = error
    return {
        "event": RUN_ENDED,
        "time_ms": end_ms,
        "severity": _SEVERITIES.get(run.status, "INFO"),
        "trace_id": trace_id(run.run_id),
        "span_id": span_id(run.run_id),
        "attributes": about,
    }


def _span(
    run: PublicRun, place: str, above: str, name: str, when: tuple[int, int], error: str, attributes: Attributes
) -> dict[str, Any]:
    return {
        "trace_id": trace_id(run.run_id),
        "span_id": span_id(run.run_id, place),
        "parent_id": span_id(run.run_id, above) if place else "",
        "name": name,
        "kind": "INTERNAL" if place else "SERVER",
        "start_ms": when[0],
        "end_ms": when[1],
        "error": error,  # a code; empty: no error
        "attributes": attributes,
    }


def _within(start: int, end: int, first: int, last: int) -> tuple[int, int]:
    """Return these times inside those of the run: the journal is written a moment before or after them."""
    begun = min(max(start, first), last)
    return begun, min(max(end, begun), last)


def _pipeline(run: PublicRun) -> str:
    return f"{run.updater_id}.{name_of(run.dataset)}"


def _result(run: PublicRun) -> str:
    if run.status == "SKIPPED":
        return "skip"
    if run.status == "PARTIAL":
        return "failure"
    return _RESULTS[final_state(run.outcome, run.status)]


def _error(run: PublicRun, telemetry: RunTelemetry | None) -> str:
    """Return the class of a run's error; empty: it did not fail. The code may depend on data, so a run that was not
    about public data names its outcome alone, as its ledger entry does."""
    if run.status not in ("FAILED", "PARTIAL"):
        return ""
    if run.labels is None and telemetry is not None and telemetry.errors:
        return _code(telemetry.errors[0])
    return _code(run.outcome)


def _code(text: str) -> str:
    return text if _CODE.match(text) else OTHER


def _failed_stage(telemetry: RunTelemetry | None) -> str:
    return telemetry.failure_stage or "" if telemetry is not None else ""


def _about(run: PublicRun) -> Attributes:
    found: Attributes = {
        "kfm.run_id": run.run_id,
        "kfm.ledger_index": run.index,
        "kfm.dataset": name_of(run.dataset),
        "kfm.op_type": run.op,
        "kfm.job_type": run.job_type,
        "kfm.updater_id": run.updater_id,
        "kfm.version": run.updater_version,
        "kfm.trigger": run.trigger,
        "kfm.status": run.status,
        "kfm.outcome": run.outcome,
        "run.lifecycle": final_state(run.outcome, run.status),
    }
    if run.dry_run:
        found["kfm.dry_run"] = True
    if run.correlation_id:
        found["kfm.correlation_id"] = run.correlation_id
    return found


def _attributes(run: PublicRun, telemetry: RunTelemetry | None) -> Attributes:
    """Return the attributes of the root."""
    found: Attributes = {
        "cicd.pipeline.name": _pipeline(run),
        "cicd.pipeline.run.id": run.run_id,
        "cicd.pipeline.run.state": "finalizing",  # the last one that the conventions know
        "cicd.pipeline.result": _result(run),
        **_about(run),
        "kfm.receipt": run.receipt_digest,
        "kfm.inputs_count": len(run.inputs),
    }
    if run.version:
        found["kfm.dataset_version"] = run.version
    if run.partition:
        found["kfm.partition"] = run.partition
    if telemetry is None:
        return found
    known = {
        "kfm.failure_stage": telemetry.failure_stage,
        "kfm.idempotency_state": telemetry.idempotency_state,
        "kfm.duration_ms": telemetry.duration_ms,
        "kfm.ops_latency_ms": telemetry.latency_ms,
        "pool.wait_ms": telemetry.pool_wait_ms,
        "kfm.wal_replay_count": telemetry.wal_replay_count,
        "kfm.slo_target_latency_ms": telemetry.slo_target_latency_ms,
        "kfm.slo_ok": telemetry.slo_ok,
        "kfm.error_budget_burn": telemetry.error_budget_burn,
        "kfm.energy_kwh": telemetry.energy_kwh,
        "kfm.co2e_g": telemetry.co2e_g,
    }
    if run.labels is None:
        known |= {
            "kfm.source_id": telemetry.source_id or None,
            "kfm.ops_retry_count": telemetry.retries + telemetry.wal_replay_count,
            "kfm.outputs_count": telemetry.outputs_count,
            "kfm.artifact_count": telemetry.artifact_count,
            "kfm.bytes_in": telemetry.bytes_in,
            "kfm.bytes_out": telemetry.bytes_out,
            "kfm.rows": run.rows,
            "kfm.held_rows": run.held_rows,
        }
    return found | {name: value for name, value in known.items() if value is not None}


def _task(run: PublicRun, name: str, place: str, error: str) -> Attributes:
    about: Attributes = {
        "cicd.pipeline.task.name": name,
        "cicd.pipeline.task.run.id": f"{run.run_id}/{place}",
        "cicd.pipeline.task.run.result": "failure" if error else "success",
    }
    return {**about, "error.type": error} if error else about


def _outputs(run: PublicRun) -> dict[str, tuple[str, int]]:
    """Return address and size of the run's named outputs by their digest; without those that are the same bytes."""
    found: dict[str, tuple[str, int]] = {}
    twice: set[str] = set()
    for each in run.artifacts:
        if each.digest in found:
            twice.add(each.digest)
        found[each.digest] = (each.id, each.size)
    return {digest: about for digest, about in found.items() if digest not in twice}
