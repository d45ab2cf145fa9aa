"""The signals of a run, for dashboards and alerts. Pure. A protected dataset's signals hold public facts only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kfm.model.public_run import PublicRun

SIGNALS = ("run.lifecycle", "freshness.delta_minutes", "pool.wait_ms", "artifact.size_bytes", "artifact.uri")


class RunFacts(NamedTuple):
    """Facts about a run that its public record does not hold."""

    emitter: str  # who requested the run
    latency_ms: int  # since the request
    wait_ms: int  # part of it spent waiting for a pool slot
    errors: tuple[str, ...]  # error codes
    queued_at: str
    age_ms: int | None  # age of the replaced version when the run ended; None: there was none
    target_ms: int | None  # how old the data may become; None: not declared


def final_state(outcome: str, status: str) -> str:
    """Return the last lifecycle state of a run. A run that met a freeze is still queued."""
    if outcome == "frozen":
        return "queued"
    return "cancelled" if outcome == "cancelled" else "failed" if status == "FAILED" else "succeeded"


def signals(run: PublicRun, facts: RunFacts) -> Iterator[dict[str, Any]]:
    """Yield the signals in order of time, each with its ledger index, from which a reader can continue."""
    about = {"index": run.index, "dataset": run.dataset, "partition": run.partition, "run_id": run.run_id}

    def one(signal: str, ts: str, **more: Any) -> dict[str, Any]:
        return {"signal": signal, "ts": ts, **about, **more}

    last = final_state(run.outcome, run.status)
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
    """One metric family."""

    name: str
    kind: str  # counter | gauge
    help: str
    samples: list[tuple[dict[str, str], float]]


class Histogram(NamedTuple):
    """One metric family of durations or sizes."""

    name: str
    help: str
    bounds: tuple[float, ...]
    samples: Sequence[tuple[dict[str, str], Sequence[int], float]]  # how many up to each bound, and more; and their sum


def exposition(metrics: Iterable[Metric | Histogram]) -> Iterator[str]:
    """Yield these metrics in the Prometheus text format, line by line."""
    for metric in metrics:
        yield f"# HELP {metric.name} {metric.help}"
        if isinstance(metric, Histogram):
            yield f"# TYPE {metric.name} histogram"
            yield from _buckets(metric)
            continue
        name = metric.name
        yield f"# TYPE {name} {metric.kind}"
        for labels, value in metric.samples:
            yield f"{_head(name, *labels.items())} {value:.15g}"


def _buckets(metric: Histogram) -> Iterator[str]:
    for labels, found, total in metric.samples:
        count = 0
        for bound, more in zip((*(f"{each:g}" for each in metric.bounds), "+Inf"), found, strict=True):
            count += more
            yield _sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
        yield _sample(f"{metric.name}_sum", labels, total)
        yield _sample(f"{metric.name}_count", labels, count)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    return f"{_head(name, *labels.items())} {value:.15g}"


@lru_cache(maxsize=200_000)
def _head(name: str, *labels: tuple[str, str]) -> str:
    """Return a sample without its value. Cached, because an installation with many datasets shows the same again and
    again."""
    said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{said}}}" if said else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
