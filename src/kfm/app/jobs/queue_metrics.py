"""The queue in numbers, for Prometheus."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kfm.projections.signals import Metric

if TYPE_CHECKING:
    from kfm.app.jobs.job_worker import QueueDepth


def queue_metrics(depth: QueueDepth, pools: Collection[str] = ()) -> Iterator[Metric]:
    """Yield the metrics of the queue. `pools` name what the workers that ask may claim."""
    labels = {"pool": ",".join(sorted(pools))} if pools else {}

    def gauge(name: str, about: str, value: float) -> Metric:
        return Metric(name, "gauge", about, [(labels, value)])

    yield gauge("kfm_queue_depth", "jobs that a worker could claim now", float(depth.ready))
    yield gauge("kfm_queue_lag_seconds", "age of the oldest job that a worker could claim", depth.lag_ms / 1000)
    yield gauge("kfm_queue_waiting", "jobs that no worker has, also those that wait for a thaw", float(depth.waiting))
    yield gauge("kfm_jobs_running", "jobs that workers have", float(depth.running))
    yield gauge("kfm_jobs_dead", "dead letters", float(depth.dead))
