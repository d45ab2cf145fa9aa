"""Bugs of the jobs of workers."""

from __future__ import annotations

from tests.seeded.planting import Bug

TESTS = "tests/app/jobs_queue"
TABLE = "kfm.store.job_table"
QUEUE = "kfm.app.jobs.job_queue"

QUEUED: dict[str, Bug] = {
    "an attempt that kills its worker is not counted": Bug(
        f"{TABLE}:JobsTx.attempt",
        "attempts=job.attempts + 1",
        "attempts=job.attempts",
        f"{TESTS}/test_worker_kills.py::test_a_job_that_kills_its_workers_becomes_a_dead_letter",
    ),
    "a job that another worker has is claimed": Bug(
        f"{QUEUE}:JobQueue.is_running",
        "return lease is not None and is_held(lease, self._session.state.now_ms())",
        "return False",
        f"{TESTS}/test_job_worker.py::test_a_job_that_another_worker_has_is_left_to_it",
    ),
    "a dead letter is dropped": Bug(
        f"{TABLE}:JobsTx.bury",
        'self._settle(failed, "dead", now_ms, failed.run_id)',
        'self._settle(failed, "ended", now_ms, failed.run_id)',
        f"{TESTS}/test_job_worker.py::test_what_a_person_must_correct_is_a_dead_letter_at_once",
    ),
    "the pool of a job is that of its request": Bug(
        "kfm.app.jobs.job_worker:JobWorker._claim",
        "pools = job_pools(session, trigger.dataset)",
        "pools = seen.pools if seen is not None else ()",
        f"{TESTS}/test_job_pools.py::test_a_label_that_is_tightened_after_the_request_holds_at_the_claim",
    ),
    "a job whose run has failed is not found again": Bug(
        f"{QUEUE}:JobQueue.look",
        "self.orphans = sorted(jobs.keys() - {trigger.trigger_id for trigger in waiting})",
        "self.orphans = []",
        f"{TESTS}/test_up_and_queue.py::test_a_job_that_resume_has_answered_is_ended_by_the_next_worker",
    ),
    "the same envelope again is another job": Bug(
        f"{TABLE}:JobsTx.enqueue",
        "if known is not None:",
        "if False:",
        f"{TESTS}/test_job_delivery.py::test_eight_processes_that_enqueue_the_same_envelope_store_one_job",
    ),
}
