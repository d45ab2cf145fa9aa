"""Jobs that are delivered several times, late, out of order and by two workers have one end and one receipt each."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kfm.app.jobs.job_requests import enqueue, new_envelope
from kfm.app.jobs.job_worker import JobWorker
from kfm.clock import SystemClock
from kfm.errors import Conflict
from kfm.model.jobs.job_envelope import JobEnvelope
from kfm.store.index_check import differences
from tests.app.jobs_queue.queue_site import asked, lay_out, opened
from tests.crash.harness import Voice, end
from tests.crash.harness import begin as forked
from tests.sampling import sampled

NAMES = tuple(f"d{n}" for n in range(8))
EACH = 3  # jobs of each dataset


@pytest.mark.parametrize("state", ["sqlite", "postgres"])
@pytest.mark.parametrize("seed", sampled(range(20), every=20))
def test_each_job_delivered_up_to_five_times_by_two_workers_has_one_end(tmp_path: Path, seed: int, state: str) -> None:
    lay_out(tmp_path, *NAMES, state=state)
    with opened(tmp_path) as session:
        jobs = [asked(session, name, by=f"user:p{n}").job for name in NAMES for n in range(EACH)]
    ids = [job.trigger.trigger_id for job in jobs]

    def worked(number: int) -> Any:
        def child(_voice: Voice) -> list[str]:
            pick = random.Random(seed * 2 + number)
            messages = [each for each in ids for _ in range(pick.randint(1, 5))]
            pick.shuffle(messages)
            with opened(tmp_path, clock=SystemClock()) as session:
                worker, runs = JobWorker(session), []
                for each in messages:
                    worker.turn([each])
                    runs += [receipt.run_id for receipt in worker.last.receipts] if worker.last else []
                while worker.depth().waiting:
                    worker.turn()
                    runs += [receipt.run_id for receipt in worker.last.receipts] if worker.last else []
            return runs

        return forked(child)

    both = [end(*child) for child in (worked(0), worked(1))]
    assert [ended.code for ended in both] == [0, 0], [ended.failure for ended in both]
    with opened(tmp_path) as session:
        JobWorker(session).turn()
        ended = {job.trigger.trigger_id: job for job in session.state.jobs.done()}
        assert set(ended) == set(ids) and {job.status for job in ended.values()} == {"ended"}
        assert len({job.run_id for job in ended.values()}) == len(ids)
        assert sum(1 for _ in session.state.ledger.entries()) == len(ids)
        outcomes = Counter(entry.outcome for entry in session.state.ledger.entries())
        assert outcomes["done"] == len(NAMES) and set(outcomes) <= {"done", "noop", "unchanged"}
        assert differences(session.state) == []
    told = Counter(run for child in both for run in child.answer)
    assert set(told.values()) == {1}, "a receipt was told twice"


def test_eight_processes_that_enqueue_the_same_envelope_store_one_job(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    with opened(tmp_path) as session:
        envelope: JobEnvelope = new_envelope(session, "ingest.pull_source", "one", requested_by="user:ann")

    def child(_voice: Voice) -> list[Any]:
        with opened(tmp_path) as session:
            while True:
                try:
                    stored = enqueue(session, envelope)
                except Conflict:  # another process has the write lock
                    continue
                return [stored.is_new, stored.job.trigger.trigger_id]

    ended = [end(*each) for each in [forked(child) for _ in range(8)]]
    answers = [each.answer for each in ended]
    assert sorted(is_new for is_new, _ in answers) == [False] * 7 + [True]
    assert len({trigger_id for _, trigger_id in answers}) == 1
    with opened(tmp_path) as session:
        assert len(list(session.state.inbox.waiting())) == 1
