"""Events about ended runs, for dashboards and alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kfm.clock import parse_instant, rfc3339
from kfm.delivery.public_runs import public_run
from kfm.projections.signals import RunFacts, signals
from kfm.scheduling.freshness_rules import length_ms

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry


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
