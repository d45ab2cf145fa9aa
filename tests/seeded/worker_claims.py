"""What is promised about worker processes, each broken once."""

from __future__ import annotations

from tests.seeded.planting import Bug

TESTS = "tests/workers"

WORKER_CLAIMS: dict[str, Bug] = {
    "W1": Bug(
        "kfm.workers.main:_run",
        "if options.concurrency > 1:",
        "if False:",
        f"{TESTS}/test_worker_processes.py::test_a_child_that_was_killed_is_replaced_and_another_finishes_its_job",
    ),
    "W2 a broker decides nothing": Bug(
        "kfm.app.session.wake_up:WakeUp.ring",
        "            self._failed(problem)\n",
        "            raise\n",
        f"{TESTS}/test_broker_faults.py::test_every_job_ends_exactly_once_whatever_becomes_of_the_broker",
    ),
    "W6 in the lines of a job": Bug(
        "kfm.workers.process:WorkerProcess._open_log",
        'service="workers"',
        'service="kfm"',
        f"{TESTS}/test_worker_processes.py::test_the_log_lines_of_a_job_have_every_field_and_one_correlation_id",
    ),
    "W6 metrics": Bug(
        "kfm.projections.signals:_buckets",
        "count += more",
        "count = more",
        f"{TESTS}/test_worker_metrics.py::test_a_strict_reader_reads_every_metric",
    ),
}
