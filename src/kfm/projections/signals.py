"""The signals of a run: what dashboards and alerts are made of. Pure; of protected data only what may be known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kfm.model.public_run import PublicRun

SIGNALS = ("run.lifecycle", "freshness.delta_minutes", "pool.wait_ms", "artifact.size_bytes", "artifact.uri")


class Facts(NamedTuple):
    """What is known of a run beside what it did."""

    emitter: str  # who asked for it
    latency_ms: int  # from the moment it was asked for
    wait_ms: int  # of it, for a slot of a pool
    errors: tuple[str, ...]  # codes
    queued_at: str
    age_ms: int | None  # when it ended, of the version that it replaced; None: there was none
    target_ms: int | None  # how old the data may become; None: nobody says


def ended_as(outcome: str, status: str) -> str:
    """The last state of a run. One that met a freeze is queued still."""
    if outcome == "frozen":
        return "queued"
    return "cancelled" if outcome == "cancelled" else "failed" if status == "FAILED" else "succeeded"


def signals(run: PublicRun, facts: Facts) -> Iterator[dict[str, Any]]:
    """In the order of time, each with its entry of the ledger: whoever reads on asks for what is behind that."""
    about = {"index": run.index, "dataset": run.dataset, "partition": run.partition, "run_id": run.run_id}

    def one(signal: str, ts: str, **more: Any) -> dict[str, Any]:
        return {"signal": signal, "ts": ts, **about, **more}

    last = ended_as(run.outcome, run.status)
    yield one("run.lifecycle", facts.queued_at, state="queued", trigger=run.trigger, emitter=facts.emitter)
    if last == "queued":
        return
    yield one("pool.wait_ms", run.started_at, value=facts.wait_ms)
    yield one("run.lifecycle", run.started_at, state="started", trigger=run.trigger, emitter=facts.emitter)
    for artifact in run.artifacts:
        uri = f"{artifact.id}#{artifact.digest}"
        yield one("artifact.uri", run.finished_at, uri=uri)
        yield one("artifact.size_bytes", run.finished_at, uri=uri, value=artifact.size)
    made = run.made_a_version() and last == "succeeded"
    age_ms = facts.age_ms if made else None
    if age_ms is not None and facts.target_ms is not None:
        yield one("freshness.delta_minutes", run.finished_at, value=(age_ms - facts.target_ms) // 60_000)
    written = None if run.rows is None or run.held_rows is None else run.rows - run.held_rows if made else 0
    yield one(
        "run.lifecycle",
        run.finished_at,
        state=last,
        trigger=run.trigger,
        emitter=facts.emitter,
        outcome=run.outcome,
        started_at=run.started_at,
        finished_at=run.finished_at,
        rows_read=run.rows,
        rows_written=written,
        errors=list(facts.errors),
        latency_ms=facts.latency_ms,
        freshness_minutes=None if age_ms is None else age_ms // 60_000,
    )


class Metric(NamedTuple):
    """One family of numbers."""

    name: str
    kind: str  # counter | gauge
    help: str
    samples: list[tuple[dict[str, str], float]]


def exposition(metrics: list[Metric]) -> Iterator[str]:
    """As Prometheus reads it, a line each."""
    for metric in metrics:
        yield f"# HELP {metric.name} {metric.help}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for labels, value in metric.samples:
            said = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{metric.name}{{{said}}} {value:.15g}" if said else f"{metric.name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
