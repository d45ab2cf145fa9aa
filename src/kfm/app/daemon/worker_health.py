"""What a worker says about itself to probes and to Prometheus: counts of jobs, the queue, and whether it can work."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kfm import __version__
from kfm.app.jobs.job_types import job_types
from kfm.app.jobs.job_worker import JobWorker, QueueDepth
from kfm.app.jobs.queue_metrics import queue_metrics
from kfm.app.session.session import open_session
from kfm.model import refs
from kfm.model.records import Record
from kfm.projections.signals import Histogram, Metric, exposition
from kfm.telemetry.worker_metrics import BOUNDS_S, JobCounts, WorkerMetrics, added

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kfm.config import Resolved

__all__ = ["JobCounts", "QueueLook", "WorkerMetrics", "added", "look", "metric_lines", "metrics_of_worker"]


class QueueLook(Record, frozen=True):
    """What a look into the state has found."""

    depth: QueueDepth
    frozen: bool  # everything is frozen: jobs wait for the thaw


def look(resolved: Resolved, pools: Collection[str]) -> QueueLook:
    """Look into the state, as a worker of these pools sees it. Unavailable if it does not answer."""
    with open_session(resolved, mode="read", in_place=True) as session:
        frozen = refs.is_frozen(session.state.refs.at(refs.switch("global")))
        return QueueLook(JobWorker(session, pools=pools).depth(), frozen)


def metrics_of_worker() -> WorkerMetrics:
    """Return the sink that counts jobs by the types of the registry."""
    return WorkerMetrics(job_types())


def metric_lines(
    counts: JobCounts, found: QueueLook | None, pools: Collection[str] = (), *, workers: int = 1, broker: bool | None
) -> Iterator[str]:
    """Yield the metrics in the Prometheus text format. Without a look into the queue, its metrics are left out, because
    an old value would look like a new one. `broker` says whether it answers; None: there is none."""
    yield from exposition(_families(counts, found, pools, workers, broker))


def _families(
    counts: JobCounts, found: QueueLook | None, pools: Collection[str], workers: int, broker: bool | None
) -> Iterator[Metric | Histogram]:
    yield Metric("kfm_build_info", "gauge", "the version of KFM", [({"version": __version__}, 1.0)])
    for name, about, by_type in (
        ("kfm_jobs_started_total", "attempts at jobs that were started", counts.started),
        ("kfm_jobs_succeeded_total", "jobs that succeeded", counts.succeeded),
        ("kfm_jobs_failed_total", "attempts at jobs that failed", counts.failed),
        ("kfm_jobs_skipped_total", "jobs that a worker gave back, such as those of frozen datasets", counts.skipped),
        ("kfm_job_retries_total", "attempts at jobs that failed and are made again", counts.retries),
    ):
        samples = [({"job_type": kind}, float(by_type.get(kind, 0))) for kind in sorted({*job_types(), *by_type})]
        yield Metric(name, "counter", about, samples)
    durations = [({"job_type": kind}, counts.buckets[kind], counts.seconds[kind]) for kind in sorted(counts.buckets)]
    yield Histogram("kfm_job_duration_seconds", "how long jobs took", BOUNDS_S, durations)
    yield Metric("kfm_workers", "gauge", "worker processes that are alive", [({}, float(workers))])
    if broker is not None:
        yield Metric("kfm_queue_broker_up", "gauge", "whether the broker answers", [({}, float(broker))])
        discarded = float(counts.discarded)
        yield Metric("kfm_queue_discarded_total", "counter", "messages of another form", [({}, discarded)])
    yield Metric("kfm_state_up", "gauge", "whether the state answers", [({}, float(found is not None))])
    if found is not None:
        yield from queue_metrics(found.depth, pools)
