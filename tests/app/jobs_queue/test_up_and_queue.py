"""`kfm up` answers triggers itself, or leaves them to workers if `queue` is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.runs.run_control import resume_runs
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.errors import KfmError
from kfm.scheduling.triggers import keep
from tests.app.jobs_queue.queue_site import asked, later, lay_out, mood, opened

QUEUE = "queue: redis://127.0.0.1:1/0\n"


def up(session: Session) -> tuple[list[str], list[KfmError]]:
    problems: list[KfmError] = []
    daemon = Daemon(session, sorted(session.config.datasets), lambda _about, problem: problems.append(problem))
    return [receipt.trigger for receipt in daemon.turn(patient=False)], problems


def test_without_a_queue_it_does_jobs_as_workers_do(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "moody")) as session:
        job = asked(session, "moody").job
        mood(tmp_path, "raise")
        assert "job" in up(session)[0]
        assert "job" not in up(session)[0], "the pause before another attempt was not kept"
        later(session, 60)
        mood(tmp_path, "well")
        assert "job" in up(session)[0]
        left = session.state.jobs.get(job.trigger.trigger_id)
        assert left is not None and (left.status, len(left.failures)) == ("ended", 1)


def test_with_a_queue_it_leaves_every_trigger_to_workers(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one", head=QUEUE)) as session:
        asked(session, "one")
        keep(session.state, new_trigger(session, "one", kind="schedule"))
        assert up(session)[0] == []
        waiting = [trigger.kind for trigger in session.state.inbox.waiting()]
        assert sorted(set(waiting)) == ["job", "poll", "schedule"], "a change of the source made no trigger"
        worker = JobWorker(session)
        while worker.turn() is not None:
            pass
        assert not list(session.state.inbox.waiting())


@pytest.mark.parametrize("held", [True, False])
def test_resume_leaves_a_job_that_a_worker_has(tmp_path: Path, held: bool) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        if held:
            session.state.leases.acquire(f"job/{job.trigger.trigger_id}", "elsewhere:1:1", 60_000)
        assert len(list(resume_runs(session))) == (0 if held else 1)


def test_a_job_that_resume_has_answered_is_ended_by_the_next_worker(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        (receipt,) = resume_runs(session)
        assert JobWorker(session).turn() is None
        left = session.state.jobs.get(job.trigger.trigger_id)
        assert left is not None and (left.status, left.run_id) == ("ended", receipt.run_id)
