"""The metrics of an installation, for Prometheus.

What the ledger counts is folded once (see `ledger_counts`), and the facts about a version are kept while its ref stays.
So a look costs what has happened since the last one. A label holds a name from a closed list: operations, outcomes,
datasets and pools of kfm.yml, configured sinks; nothing else that people write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from kfm import __version__
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.jobs.queue_metrics import queue_metrics
from kfm.app.maintenance.objective_metrics import objective_metrics
from kfm.app.objectives.kept_counts import keep_counts
from kfm.app.objectives.ledger_counts import OPERATIONS
from kfm.app.runs.due_schedules import schedule_statuses
from kfm.app.runs.freshness import check_targets, judged
from kfm.clock import parse_instant
from kfm.config.config_file import follower_names
from kfm.config.upstream_datasets import read_by
from kfm.delivery.followers import progress
from kfm.model import refs
from kfm.operations.registry import operations
from kfm.projections.operation_counts import BUILDING, OTHER, lifecycle, operation_metrics
from kfm.projections.signals import Histogram, Metric, exposition
from kfm.scheduling.freshness_rules import length_ms
from kfm.scheduling.pool_slots import pool_status
from kfm.store.process_identity import is_held

if TYPE_CHECKING:
    from kfm.app.session.session import Session

MINUTE_MS = 60_000
CHECKED_MS = 60_000  # after this time versions are looked up again although their refs stayed
FLAGS = (("red", refs.SWITCH), ("amber", refs.AMBER))  # the levels of a freeze, and where their flags are
SCOPES = ("global", "dataset", "schedule", "backfill", "run", "zone", "updater", "community")

Sample = tuple[dict[str, str], float]


class _Version(NamedTuple):
    """Facts about the current version of a dataset."""

    digest: str
    size: int
    made_ms: int


class Metrics:
    """Collects the metrics of one session, again and again."""

    def __init__(self, session: Session) -> None:
        check_targets(session.resolved)
        self._session = session
        self._versions: dict[str, _Version] = {}
        self._checked_ms = 0
        self._index = -1  # of the last entry when the versions were looked up
        self._broken = self._orphans = 0

    def families(self) -> Iterator[Metric | Histogram]:
        """Yield all metrics as of now."""
        session = self._session
        yield Metric("kfm_build_info", "gauge", "the version of KFM", [({"version": __version__}, 1.0)])
        with session.state.reading():
            counts = OPERATIONS.now(session)
            self._look(counts.index)
            now: Counter[tuple[str, str]] = Counter()
            now.update((run.dataset, "started") for run in session.state.runs.unfinished())
            now.update((each.dataset, "queued") for each in session.state.inbox.waiting())
        samples = lifecycle(counts, now, session.config.datasets)
        yield Metric("kfm_run_lifecycle", "gauge", "runs by their state", samples)
        yield from operation_metrics(counts, (*BUILDING, *operations(), OTHER))
        yield Metric("kfm_ledger_entries_total", "counter", "entries of the ledger", [({}, float(counts.index))])
        yield from self._freshness()
        yield from _pools(session)
        yield from self._artifacts()
        yield from self._links()
        yield from _frozen(session)
        yield from _sinks(session)
        yield from _ticks(session)
        yield from objective_metrics(session)
        yield from queue_metrics(JobWorker(session, pools=None).depth())

    def _look(self, index: int) -> None:
        """Look up the versions whose refs have moved since the last time, if the ledger has grown since; after a while
        all of them, so that a lost one is noticed."""
        session, now_ms = self._session, self._session.clock.now_ms()
        is_due = not 0 <= now_ms - self._checked_ms < CHECKED_MS
        if index == self._index and not is_due:
            return
        self._index = index
        at = {refs.parse(ref).dataset: digest for ref, digest in session.state.refs.all(refs.PROCESSED) if digest}
        at |= {refs.parse(ref).dataset: digest for ref, digest in session.state.refs.all(refs.PUBLISHED) if digest}
        kept = {} if is_due else self._versions
        self._checked_ms = now_ms if is_due else self._checked_ms
        found, self._broken = {}, 0
        for name, digest in at.items():
            known = kept.get(name)
            if known is None or known.digest != digest:
                version = session.state.ledger.version(name, digest)
                if version is None:
                    self._broken += 1
                    continue
                made = version.created_at
                known = _Version(digest, version.size, parse_instant(made, "a version") if made else now_ms)
            found[name] = known
        self._versions = found
        datasets = session.config.datasets
        read = {(name, other) for name in found if name in datasets for _, other, _ in read_by(datasets[name])}
        self._orphans = sum(1 for _, other in read if other not in at)

    def _freshness(self) -> Iterator[Metric]:
        now_ms, datasets = self._session.clock.now_ms(), self._session.config.datasets
        ages: list[Sample] = []
        deltas: list[Sample] = []
        seconds: list[Sample] = []
        for name in sorted(self._versions.keys() & datasets.keys()):
            labels, made_ms = {"dataset": name}, self._versions[name].made_ms
            age_ms = max(now_ms - made_ms, 0)
            ages.append((labels, float(age_ms // MINUTE_MS)))
            seconds.append((labels, age_ms / 1000))
            said = datasets[name].freshness
            if said is not None:
                most = length_ms(said.max_age) if said.max_age else None
                late = judged(said, made_ms, now_ms)[1] if most is None else (age_ms // MINUTE_MS) - most // MINUTE_MS
                deltas.append((labels, float(late)))
        yield Metric("kfm_freshness_age_minutes", "gauge", "age of what is public", ages)
        yield Metric("kfm_freshness_age_seconds", "gauge", "age of what is public", seconds)
        yield Metric("kfm_freshness_delta_minutes", "gauge", "age beyond the target", deltas)

    def _artifacts(self) -> Iterator[Metric]:
        sizes: list[Sample] = []
        uris: list[Sample] = []
        datasets = self._session.config.datasets
        for name in sorted(self._versions.keys() & datasets.keys()):
            version = self._versions[name]
            uris.append(({"dataset": name, "uri": f"kfm://dataset/{name}#{version.digest}"}, 1.0))
            if datasets[name].sensitivity == "public":  # other sizes stay hidden
                sizes.append(({"dataset": name}, float(version.size)))
        yield Metric("kfm_artifact_size_bytes", "gauge", "size of the present version", sizes)
        yield Metric("kfm_artifact_uri", "gauge", "the present version, by its address", uris)

    def _links(self) -> Iterator[Metric]:
        about = "refs that lead to a version which the state does not have"
        yield Metric("kfm_ops_broken_links", "gauge", about, [({}, float(self._broken))])
        about = "datasets with a version that read a dataset which has none any more"
        yield Metric("kfm_ops_orphan_links", "gauge", about, [({}, float(self._orphans))])
        waiting = sum(1 for _ in self._session.state.orders.all())
        about = "change requests that wait for signatures"
        yield Metric("kfm_ops_stewardship_requests", "gauge", about, [({}, float(waiting))])

    def links(self) -> tuple[int, int]:
        """Return how many links are broken now, and how many lead to a dataset that has no version any more."""
        with self._session.state.reading():
            self._look(OPERATIONS.now(self._session).index)
        return self._broken, self._orphans

    def text(self) -> str:
        """Return the metrics in the Prometheus text format, and keep the counts of a ledger that has grown much."""
        keep_counts(self._session)
        return "".join(f"{line}\n" for line in exposition(self.families()))


def metrics(session: Session) -> list[Metric | Histogram]:
    """Return all metrics of the present state."""
    return list(Metrics(session).families())


def metrics_as_data(session: Session) -> list[dict[str, Any]]:
    """Return all metrics as plain values. A sample of a histogram has how many values were up to each bound."""
    found = []
    for each in metrics(session):
        samples: list[dict[str, Any]]
        if isinstance(each, Histogram):
            bounds = [*(f"{bound:g}" for bound in each.bounds), "+Inf"]
            samples = [
                {"labels": labels, "buckets": dict(zip(bounds, accumulate(counts), strict=True)), "sum": total}
                for labels, counts, total in each.samples
            ]
        else:
            samples = [{"labels": labels, "value": value} for labels, value in each.samples]
        kind = "histogram" if isinstance(each, Histogram) else each.kind
        found.append({"name": each.name, "kind": kind, "help": each.help, "samples": samples})
    return found


def lines(session: Session) -> Iterator[str]:
    """Yield all metrics in the Prometheus text format."""
    return exposition(metrics(session))


def _pools(session: Session) -> Iterator[Metric]:
    now_ms = session.state.now_ms()
    waits: list[Sample] = []
    held: list[Sample] = []
    for name in sorted(session.config.pools):
        now = pool_status(session.state.leases.below(f"pool/{name}"), now_ms, is_held)
        longest = max((now_ms - claim.since_ms for claim in now.waiting), default=0)
        waits.append(({"pool": name}, float(longest)))
        held.append(({"pool": name}, float(len(now.held))))
    yield Metric("kfm_pool_wait_ms", "gauge", "longest time that a run waits", waits)
    yield Metric("kfm_pool_wait_seconds", "gauge", "longest time that a run waits", [(k, v / 1000) for k, v in waits])
    yield Metric("kfm_pool_held", "gauge", "slots that are taken", held)


def _frozen(session: Session) -> Iterator[Metric]:
    """Yield how many freeze flags are set, by what they stop and how much. Names of runs and the like stay out."""
    found: Counter[tuple[str, str]] = Counter({("global", level): 0 for level, _ in FLAGS})
    for level, zone in FLAGS:
        for ref, flag in session.state.refs.all(zone):
            if refs.is_frozen(flag):
                scope = refs.parse(ref).rest.partition("/")[0]
                found[scope if scope in SCOPES else OTHER, level] += 1
    samples = [({"scope": scope, "level": level}, float(n)) for (scope, level), n in sorted(found.items())]
    yield Metric("kfm_frozen", "gauge", "freeze flags that are set, by scope and level", samples)


def _sinks(session: Session) -> Iterator[Metric]:
    """Yield how far each configured sink is behind the ledger. No sink is opened for it."""
    lags: list[Sample] = []
    dead: list[Sample] = []
    down: list[Sample] = []
    for each in (progress(session.state, name) for name in follower_names(session.config)):
        labels = {"sink": each.name}
        lags.append((labels, float(each.lag)))
        dead.append((labels, float(len(each.dead))))
        down.append((labels, float(each.stopped is None)))
    yield Metric("kfm_sink_lag_entries", "gauge", "ledger entries that a sink has not received", lags)
    yield Metric("kfm_sink_dead_letters", "gauge", "messages that a sink refused", dead)
    yield Metric("kfm_sink_up", "gauge", "whether a sink took its last message", down)


def _ticks(session: Session) -> Iterator[Metric]:
    """Yield how long a tick has been unclaimed, so that an alert can show that no scheduler runs."""
    now_ms = session.clock.now_ms()
    due = [each.next_ms for each in schedule_statuses(session) if each.next_ms is not None]
    late_ms = max(now_ms - min(due), 0) if due else 0
    about = "time since the oldest unclaimed tick was due"
    yield Metric("kfm_tick_overdue_minutes", "gauge", about, [({}, float(late_ms // MINUTE_MS))])
    yield Metric("kfm_tick_overdue_seconds", "gauge", about, [({}, late_ms / 1000)])
    newest = session.state.ticks.newest()
    at: list[Sample] = [] if newest is None else [({}, newest.claimed_ms / 1000)]
    yield Metric("kfm_tick_claimed_timestamp_seconds", "gauge", "when the last tick was claimed", at)
