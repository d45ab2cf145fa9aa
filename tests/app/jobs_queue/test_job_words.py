"""What people are told about jobs that wait, failed or are dead letters is true, and names the command that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.jobs.job_reports import find_job, job_rows, report_of
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.maintenance.job_control import cancel_job, retry_job
from kfm.app.maintenance.status import status
from kfm.app.provenance.why_not import why_not
from kfm.app.runs.run_control import run_operation
from kfm.errors import BadInput, Conflict
from kfm.store.index_check import differences
from tests.app.jobs_queue.queue_site import asked, change, later, lay_out, mood, opened

QUEUE = "queue: redis://127.0.0.1:1/0\n"


def test_a_dead_letter_is_named_with_its_cure(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        change(tmp_path, "one", "n\nx\n")
        job = asked(session, "one").job
        assert JobWorker(session).turn() is not None
        start = job.envelope.job_id[:8]
        reason = why_not(session, "one").reasons[0]
        assert reason.why == f"job {start} of it is a dead letter after 1 attempt: source.held"
        assert reason.do == f"kfm jobs retry {start}"
        found = status(session)
        assert [each.dead for each in found.datasets] == [1] and not found.datasets[0].is_quiet
        assert "kfm jobs dead" in [step.command for step in found.next]
        change(tmp_path, "one", "n\n2\n")
        retry_job(session, find_job(session, start), reason="corrected")
        assert not any("dead letter" in each.why for each in why_not(session, "one").reasons)
        assert [each.dead for each in status(session).datasets] == [0]


def test_a_job_in_back_off_is_told_with_its_time(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "moody")) as session:
        mood(tmp_path, "raise")
        asked(session, "moody")
        JobWorker(session).turn()
        (row,) = job_rows(session)
        assert row.state == "back-off" and row.not_before
        said = [each.why for each in why_not(session, "moody").reasons if each.what == "waiting"]
        assert said == [f"job {row.job_id[:8]} of it failed (step.failed), and is tried again after {row.not_before}"]


def test_with_a_queue_waiting_jobs_are_for_workers(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one", head=QUEUE)) as session:
        asked(session, "one")
        (waits,) = [each for each in why_not(session, "one").reasons if each.what == "waiting"]
        assert (waits.why, waits.do) == ("1 job of it waits for a worker", "python -m workers run")
        assert "kfm jobs list" in [step.command for step in status(session).next]


def test_a_cancelled_job_is_not_done_and_its_end_is_in_the_ledger(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        cancelled, receipt = cancel_job(session, job, reason="not wanted", actor="ann")
        assert receipt.job_type == "operation.jobs" and receipt.reason == "not wanted"
        assert cancelled.status == "cancelled" and JobWorker(session).turn() is None
        assert not list(session.state.inbox.waiting()) and differences(session.state) == []
        with pytest.raises(BadInput, match="is cancelled"):
            cancel_job(session, cancelled, reason="again")
        again, _ = retry_job(session, cancelled, reason="wanted after all")
        later(session, 2)
        assert again.status == "waiting" and JobWorker(session).turn() is not None
        ended = find_job(session, job.envelope.job_id)
        with pytest.raises(BadInput, match="is no dead letter: it is ended"):
            retry_job(session, ended, reason="again")


def test_a_job_that_a_worker_has_cannot_be_cancelled(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        session.state.leases.acquire(f"job/{job.trigger.trigger_id}", "elsewhere:1:1", 60_000)
        assert report_of(session, job).job.state == "running"
        with pytest.raises(Conflict, match="a worker has job"):
            cancel_job(session, job, reason="stop")


def test_jobs_are_found_by_their_ids(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one", "two")) as session:
        job = asked(session, "one").job
        for name in (job.envelope.job_id, job.envelope.job_id[:8], job.trigger.trigger_id):
            assert find_job(session, name) == job
        for name in ("", "0", "zz", "../x", "ffffffffffff"):
            with pytest.raises(BadInput, match="there is no job"):
                find_job(session, name)


def test_a_frozen_job_says_so(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        run_operation(session, "freeze", "one", reason="wait", actor="ann")
        report = report_of(session, job)
        assert (report.job.state, report.next) == ("frozen", "kfm thaw one --reason …")
