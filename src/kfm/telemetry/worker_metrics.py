"""Counts the jobs of a worker from its log lines. It keeps no name but those of job types, so that no label of a metric
can hold anything else."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from kfm.model.records import Record

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
OTHER = "other"  # a job type that the registry does not have
STATUSES = ("started", "succeeded", "failed", "skipped")
STARTED, RETRIED = "job.started", "job.retried"  # events of a worker's log
ENDS = frozenset({"job.ended", "job.cancelled", "job.returned", "job.buried", RETRIED})  # each attempt ends with one


class JobCounts(Record, frozen=True):
    """The counts of one process, or of several together; each by job type."""

    started: dict[str, int] = {}
    succeeded: dict[str, int] = {}
    failed: dict[str, int] = {}
    skipped: dict[str, int] = {}
    retries: dict[str, int] = {}
    seconds: dict[str, float] = {}  # the sum of all durations
    buckets: dict[str, tuple[int, ...]] = {}  # durations up to each of BOUNDS_S, and longer ones
    discarded: int = 0  # messages that were not ours


class WorkerMetrics:
    """A sink of a log that counts what the lines about jobs say."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = frozenset(known)
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[str]] = {status: Counter() for status in (*STATUSES, "retries")}
        self._seconds: dict[str, float] = {}
        self._buckets: dict[str, list[int]] = {}
        self.changes = 0  # how often a count has changed

    def hear(self, line: Mapping[str, Any]) -> None:
        """Count a log line, if it is about the start or the end of an attempt at a job."""
        event = line.get("event")
        if event != STARTED and event not in ENDS:
            return
        said = line.get("job_type")
        kind = said if isinstance(said, str) and said in self._known else OTHER
        with self._lock:
            self.changes += 1
            status = line.get("status")
            if status in STATUSES:
                self._counts[status][kind] += 1
            if event == RETRIED:
                self._counts["retries"][kind] += 1
            duration_ms = line.get("duration_ms")
            if event != STARTED and isinstance(duration_ms, (int, float)):
                self._seconds[kind] = self._seconds.get(kind, 0.0) + duration_ms / 1000
                buckets = self._buckets.setdefault(kind, [0] * (len(BOUNDS_S) + 1))
                at = next((n for n, bound in enumerate(BOUNDS_S) if duration_ms <= bound * 1000), len(BOUNDS_S))
                buckets[at] += 1

    def counts(self, discarded: int = 0) -> JobCounts:
        """Return the counts so far."""
        with self._lock:
            return JobCounts(
                **{name: dict(counter) for name, counter in self._counts.items()},
                seconds=dict(self._seconds),
                buckets={kind: tuple(found) for kind, found in self._buckets.items()},
                discarded=discarded,
            )


def added(one: JobCounts, other: JobCounts) -> JobCounts:
    """Return the counts of two processes together."""
    sums = {name: dict(Counter(getattr(one, name)) + Counter(getattr(other, name))) for name in (*STATUSES, "retries")}
    seconds = {k: one.seconds.get(k, 0.0) + other.seconds.get(k, 0.0) for k in {**one.seconds, **other.seconds}}
    none = (0,) * (len(BOUNDS_S) + 1)
    buckets = {
        kind: tuple(a + b for a, b in zip(one.buckets.get(kind, none), other.buckets.get(kind, none), strict=True))
        for kind in {**one.buckets, **other.buckets}
    }
    return JobCounts(**sums, seconds=seconds, buckets=buckets, discarded=one.discarded + other.discarded)
