"""The metrics of a worker: a strict reader reads them, the counts of processes add up, and no label holds a name of
data."""

from __future__ import annotations

import pytest

from kfm.app.daemon.worker_health import QueueLook, metric_lines
from kfm.app.jobs.job_types import job_types
from kfm.app.jobs.job_worker import QueueDepth
from kfm.clock import FixedClock
from kfm.telemetry.log import EventLog
from kfm.telemetry.worker_metrics import BOUNDS_S, JobCounts, WorkerMetrics, added
from tests.workers.exposition import read

KIND = "ingest.pull_source"
SEEN = QueueLook(QueueDepth(waiting=5, ready=3, running=2, dead=1, lag_ms=12_500), frozen=False)


def heard(*durations_ms: int, kind: str = KIND) -> WorkerMetrics:
    metrics = WorkerMetrics(job_types())
    log = EventLog(FixedClock(), metrics.hear, service="workers").bind(job_type=kind, dataset_ids=["canary-0451"])
    for duration_ms in durations_ms:
        log.event("job.started", status="started")
        log.event("run.committed", status="succeeded")
        log.event("job.ended", status="succeeded", duration_ms=duration_ms)
    return metrics


def text(counts: JobCounts, seen: QueueLook | None = SEEN, **more: bool | None) -> str:
    return "".join(f"{line}\n" for line in metric_lines(counts, seen, **{"broker": True, **more}))  # type: ignore[arg-type]


def test_a_strict_reader_reads_every_metric() -> None:
    metrics = heard(3, 700, 10_000_000)
    log = EventLog(FixedClock(), metrics.hear)
    log.event("job.started", job_type=KIND, status="started")
    log.event("job.retried", job_type=KIND, status="FAILED", duration_ms=5)
    log.event("job.fenced", job_type=KIND, status="FAILED")
    found = read(text(metrics.counts(discarded=4)))
    assert found["kfm_jobs_started_total"].value(job_type=KIND) == 4
    assert found["kfm_jobs_succeeded_total"].value(job_type=KIND) == 3
    assert found["kfm_jobs_failed_total"].value(job_type=KIND) == 1
    assert found["kfm_jobs_skipped_total"].value(job_type=KIND) == 0
    assert found["kfm_job_retries_total"].value(job_type=KIND) == 1
    seconds = found["kfm_job_duration_seconds"]
    assert seconds.kind == "histogram"
    assert seconds.value("_bucket", le="0.005") == 2
    assert seconds.value("_bucket", le="1") == 3
    assert seconds.value("_bucket", le="3600") == 3
    assert seconds.value("_bucket", le="+Inf") == 4
    assert seconds.value("_sum") == pytest.approx(10_000.708)
    assert (found["kfm_queue_depth"].value(), found["kfm_queue_lag_seconds"].value()) == (3, 12.5)
    assert (found["kfm_jobs_running"].value(), found["kfm_jobs_dead"].value()) == (2, 1)
    assert found["kfm_queue_discarded_total"].value() == 4
    assert found["kfm_build_info"].value() == 1


def test_a_counter_of_every_job_type_begins_at_nought() -> None:
    found = read(text(JobCounts()))
    assert {dict(labels)["job_type"] for _, labels in found["kfm_jobs_failed_total"].samples} == set(job_types())


def test_a_job_type_outside_the_registry_is_counted_without_its_name() -> None:
    said = text(heard(5, kind="canary-0451").counts())
    assert read(said)["kfm_jobs_started_total"].value(job_type="other") == 1
    assert "canary" not in said


def test_no_dataset_is_named() -> None:
    assert "canary" not in text(heard(5).counts())


def test_a_state_that_does_not_answer_has_no_old_numbers() -> None:
    found = read(text(JobCounts(), None))
    assert found["kfm_state_up"].value() == 0
    assert "kfm_queue_depth" not in found and "kfm_queue_lag_seconds" not in found


def test_without_a_broker_nothing_is_said_of_one() -> None:
    assert not any("broker" in name or "discarded" in name for name in read(text(JobCounts(), broker=None)))


def test_the_counts_of_two_processes_add_up() -> None:
    one, two = heard(1, 20).counts(1), heard(3, 4, 5000).counts(2)
    both = added(one, two)
    assert both == heard(1, 20, 3, 4, 5000).counts(3)
    assert added(both, JobCounts()) == both
    assert sum(both.buckets[KIND]) == 5 and len(both.buckets[KIND]) == len(BOUNDS_S) + 1


def test_a_log_that_was_bound_keeps_its_service() -> None:
    lines: list[dict[str, object]] = []
    log = EventLog(FixedClock(), lines.append, service="workers")
    log.bind(job_id="x").bind(run_id="y").event("job.started")
    assert (lines[0]["service"], lines[0]["job_id"], lines[0]["run_id"]) == ("workers", "x", "y")


@pytest.mark.parametrize(
    "bad", ["a 1", "# HELP a b\n# TYPE a counter\na 1\n", "# HELP a b\n# TYPE a gauge\na 1\na 2\n"]
)
def test_the_strict_reader_refuses_what_the_format_does_not_allow(bad: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        read(bad)
