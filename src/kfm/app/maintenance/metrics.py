"""Events about ended runs, and metrics of the present state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kfm.app.jobs.job_worker import JobWorker
from kfm.app.jobs.queue_metrics import queue_metrics
from kfm.app.runs.due_schedules import schedule_statuses
from kfm.app.runs.freshness import freshness
from kfm.app.session.datasets import dataset_config
from kfm.clock import parse_instant, rfc3339
from kfm.delivery.public_runs import public_run
from kfm.model import refs
from kfm.projections.signals import Metric, RunFacts, exposition, final_state, signals
from kfm.scheduling.freshness_rules import length_ms
from kfm.scheduling.pool_slots import pool_status
from kfm.store.process_identity import is_held

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry

MINUTE_MS = 60_000


def events(session: Session, datasets: Sequence[str], *, after: int = 0, limit: int = -1) -> Iterator[dict[str, Any]]:
    """Yield the events of runs after this ledger entry, of at most `limit` runs; without datasets, of all."""
    wanted, count = frozenset(datasets), 0
    for entry in session.state.ledger.entries(after=after):
        if count == limit:
            return
        if not wanted or entry.dataset in wanted:
            count += 1
            run = public_run(session.state, session.objects, entry)
            if not run.dry_run:
                yield from signals(run, _facts(session, entry, run.before, run.finished_at))


def _facts(session: Session, entry: LedgerEntry, before: str, finished_at: str) -> RunFacts:
    ledger, declared = session.state.ledger, session.config.datasets.get(entry.dataset)
    measured = ledger.telemetry(entry.run_id)
    version = ledger.version(entry.dataset, before) if before else None
    said = declared.freshness if declared is not None else None
    ended_ms, latency_ms = parse_instant(finished_at, "a run"), measured.latency_ms if measured is not None else 0
    made_at = version.created_at if version is not None else ""
    return RunFacts(
        emitter=entry.operator,
        latency_ms=latency_ms,
        wait_ms=measured.pool_wait_ms if measured is not None else 0,
        errors=tuple(measured.errors) if measured is not None else (),
        queued_at=rfc3339(ended_ms - latency_ms),
        age_ms=ended_ms - parse_instant(made_at, "a version") if made_at else None,
        target_ms=length_ms(said.max_age) if said is not None and said.max_age else None,
    )


def metrics(session: Session) -> list[Metric]:
    """Return all metrics of the present state."""
    return [
        _lifecycle(session),
        *_freshness(session),
        *_pools(session),
        *_artifacts(session),
        *_ticks(session),
        *queue_metrics(JobWorker(session, pools=None).depth()),
    ]


def lines(session: Session) -> Iterator[str]:
    """Yield all metrics in the Prometheus text format."""
    return exposition(metrics(session))


def _lifecycle(session: Session) -> Metric:
    """Return the metric of runs by state: ended runs are counted in total, waiting and running ones as of now."""
    found: Counter[tuple[str, str]] = Counter()
    for entry in session.state.ledger.entries():
        bad = entry.outcome in ("failed", "held", "denied", "escalated", "abandoned", "cancelled")
        state = final_state(entry.outcome, "FAILED" if bad else "SUCCESS")
        if state != "queued":
            found[entry.dataset, state] += 1
    found.update((run.dataset, "started") for run in session.state.runs.unfinished())
    found.update((each.dataset, "queued") for each in session.state.inbox.waiting())
    samples = [({"dataset": name, "state": state}, float(n)) for (name, state), n in sorted(found.items())]
    return Metric("kfm_run_lifecycle", "gauge", "runs by their state", samples)


def _freshness(session: Session) -> Iterator[Metric]:
    datasets = freshness(session, sorted(session.config.datasets))
    ages = [({"dataset": each.dataset}, float(each.age_min)) for each in datasets if each.age_min is not None]
    yield Metric("kfm_freshness_age_minutes", "gauge", "age of what is public", sorted(ages, key=str))
    deltas = []
    for each in datasets:
        said = dataset_config(session, each.dataset).freshness
        if said is not None and each.age_min is not None:
            most = length_ms(said.max_age) if said.max_age else None
            delta = each.late_min if most is None else each.age_min - most // MINUTE_MS
            deltas.append(({"dataset": each.dataset}, float(delta)))
    yield Metric("kfm_freshness_delta_minutes", "gauge", "age beyond the target", sorted(deltas, key=str))


def _pools(session: Session) -> Iterator[Metric]:
    now_ms = session.state.now_ms()
    waits, held = [], []
    for name in sorted(session.config.pools):
        now = pool_status(session.state.leases.below(f"pool/{name}"), now_ms, is_held)
        longest = max((now_ms - claim.since_ms for claim in now.waiting), default=0)
        waits.append(({"pool": name}, float(longest)))
        held.append(({"pool": name}, float(len(now.held))))
    yield Metric("kfm_pool_wait_ms", "gauge", "longest time that a run waits", waits)
    yield Metric("kfm_pool_held", "gauge", "slots that are taken", held)


def _artifacts(session: Session) -> Iterator[Metric]:
    sizes, uris = [], []
    for name in sorted(session.config.datasets):
        digest = session.state.refs.at(refs.published(name)) or session.state.refs.at(refs.processed(name))
        version = session.state.ledger.version(name, digest) if digest else None
        if version is None:
            continue
        uris.append(({"dataset": name, "uri": f"kfm://dataset/{name}#{digest}"}, 1.0))
        if dataset_config(session, name).metadata().get("sensitivity") == "public":  # other sizes stay hidden
            sizes.append(({"dataset": name}, float(version.size)))
    yield Metric("kfm_artifact_size_bytes", "gauge", "size of the present version", sizes)
    yield Metric("kfm_artifact_uri", "gauge", "the present version, by its address", uris)


def _ticks(session: Session) -> Iterator[Metric]:
    """Yield how long a tick has been unclaimed, so that an alert can show that no scheduler runs."""
    now_ms = session.clock.now_ms()
    due = [each.next_ms for each in schedule_statuses(session) if each.next_ms is not None]
    late = max(now_ms - min(due), 0) // MINUTE_MS if due else 0
    yield Metric(
        "kfm_tick_overdue_minutes", "gauge", "time since the oldest unclaimed tick was due", [({}, float(late))]
    )
    newest = session.state.ticks.newest()
    at: list[tuple[dict[str, str], float]] = [] if newest is None else [({}, newest.claimed_ms / 1000)]
    yield Metric("kfm_tick_claimed_timestamp_seconds", "gauge", "when the last tick was claimed", at)
