"""A worker does each job once, in order, and counts what fails."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from kfm.app.jobs import job_worker
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import prune_inbox
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.errors import Unavailable
from kfm.model.records import Effect, Receipt, Trigger
from kfm.scheduling.triggers import keep
from kfm.store.index_check import differences
from tests.app.jobs_queue.queue_site import Team, asked, change, later, lay_out, mood, opened


def test_a_job_is_done_once_and_leaves_one_receipt(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        worker = JobWorker(session)
        receipt = worker.turn()
        assert receipt is not None and (receipt.status, receipt.trigger, receipt.actor) == ("SUCCESS", "job", "ann")
        assert receipt.correlation_id == job.envelope.job_id
        assert worker.turn() is None and worker.pause_s() == 1
        left = session.state.jobs.by_id(job.envelope.job_id)
        assert left is not None and (left.status, left.run_id, left.attempts) == ("ended", receipt.run_id, 1)
        assert not list(session.state.inbox.waiting()) and not list(session.state.leases.below("job"))
        assert differences(session.state) == []


def test_the_same_envelope_again_is_the_same_job(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        first, second = asked(session, "one"), asked(session, "one")
        assert first.is_new and not second.is_new
        assert first.job == second.job
        assert len(list(session.state.inbox.waiting())) == 1


def test_jobs_are_done_by_priority_and_then_by_arrival(tmp_path: Path) -> None:
    names = ("a", "b", "c", "d")
    with opened(lay_out(tmp_path, *names)) as session:
        for name, priority in zip(names, ("low", "normal", "high", "normal"), strict=True):
            asked(session, name, priority=priority)
            later(session, 1)
        worker = JobWorker(session)
        done = [receipt.dataset for _ in names if (receipt := worker.turn()) is not None]
        assert done == ["c", "b", "d", "a"]


def test_a_trigger_without_an_envelope_is_a_job_too(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        kept = keep(session.state, new_trigger(session, "one", kind="schedule", actor="clock"))
        receipt = JobWorker(session).turn()
        assert receipt is not None and receipt.trigger == "schedule"
        job = session.state.jobs.get(kept.trigger_id)
        assert job is not None and job.status == "ended"
        assert (job.envelope.job_type, job.envelope.requested_by) == ("ingest.pull_source", "system")


def test_operations_are_left_to_people(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        run_trigger(session, new_trigger(session, "one"))
        run_operation(session, "freeze", "one", reason="wait", actor="ann")
        run_operation(session, "promote", "one", reason="later", actor="ann")
        run_operation(session, "thaw", "one", reason="go on", actor="ann")
        waiting = list(session.state.inbox.waiting())
        assert [each.kind for each in waiting] == ["operation"], "the freeze kept no operation: nothing was tried"
        assert JobWorker(session).turn() is None
        assert list(session.state.inbox.waiting()) == waiting


def test_a_frozen_dataset_keeps_its_job_and_its_attempts(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        run_operation(session, "freeze", "one", reason="wait", actor="ann")
        worker = JobWorker(session)
        assert worker.turn() is None
        kept = session.state.jobs.get(job.trigger.trigger_id)
        assert kept == job and worker.depth().waiting == 1 and worker.depth().ready == 0
        run_operation(session, "thaw", "one", reason="go on", actor="ann")
        later(session, 2)
        receipt = worker.turn()
        assert receipt is not None and receipt.status == "SUCCESS"


def test_a_failing_job_waits_longer_each_time_and_becomes_a_dead_letter(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "moody")) as session:
        mood(tmp_path, "raise")
        job = asked(session, "moody").job
        team, waits = Team(session), []
        for _ in range(3):
            receipt = team.worker.turn()
            assert receipt is not None and receipt.status == "FAILED"
            now = session.state.jobs.get(job.trigger.trigger_id)
            assert now is not None
            waits.append(now.not_before_ms - session.clock.now_ms())
            assert team.worker.turn() is None, "it did not wait"
            later(session, 100)
        assert waits[:2] == [10_000, 20_000]
        (dead,) = session.state.jobs.dead()
        assert dead.status == "dead" and dead.attempts == 3
        assert [failure.code for failure in dead.failures] == ["step.failed"] * 3
        assert len({failure.run_id for failure in dead.failures}) == 3
        assert "canary-7f" not in repr(dead)
        assert not list(session.state.inbox.waiting()) and differences(session.state) == []


def test_what_a_person_must_correct_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        change(tmp_path, "one", "n\nx\n")
        asked(session, "one")
        receipt = JobWorker(session).turn()
        assert receipt is not None and receipt.outcome == "held"
        (dead,) = session.state.jobs.dead()
        assert [failure.code for failure in dead.failures] == ["source.held"]


def test_a_dead_letter_that_is_put_back_is_done(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        change(tmp_path, "one", "n\nx\n")
        job = asked(session, "one").job
        worker = JobWorker(session)
        worker.turn()
        (dead,) = session.state.jobs.dead()
        change(tmp_path, "one", "n\n2\n")
        with session.state.transaction() as tx:
            tx.jobs.revive(dead, session.clock.now_ms())
        assert differences(session.state) == []
        later(session, 2)
        receipt = worker.turn()
        assert receipt is not None and receipt.status == "SUCCESS"
        left = session.state.jobs.get(job.trigger.trigger_id)
        assert left is not None and left.status == "ended" and len(left.failures) == 1


def test_a_source_that_does_not_answer_is_tried_again(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        (tmp_path / "one.csv").unlink()
        asked(session, "one")
        team = Team(session)
        first = team.worker.turn()
        assert first is not None and first.status == "FAILED"
        assert [problem.code for _, problem in team.problems] == []
        assert not list(session.state.jobs.dead()) or first.errors[0].code != "unavailable"


def test_equal_triggers_are_answered_together_and_each_has_a_receipt(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        jobs = []
        for person in ("ann", "bob", "eve"):
            jobs.append(asked(session, "one", by=f"user:{person}").job)
        worker = JobWorker(session)
        assert worker.turn() is not None and worker.turn() is None
        ended = [session.state.jobs.get(job.trigger.trigger_id) for job in jobs]
        assert [job.status for job in ended if job is not None] == ["ended"] * 3
        assert len({job.run_id for job in ended if job is not None}) == 3
        assert all(session.state.ledger.receipt(job.run_id) for job in ended if job is not None)


def test_only_the_named_jobs_are_looked_at(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "a", "b")) as session:
        jobs = {name: asked(session, name).job for name in ("a", "b")}
        worker = JobWorker(session)
        receipt = worker.turn([jobs["b"].trigger.trigger_id])
        assert receipt is not None and receipt.dataset == "b"
        assert worker.turn([jobs["b"].trigger.trigger_id, "000000000099"]) is None
        assert [each.dataset for each in session.state.inbox.waiting()] == ["a"]


def test_a_worker_that_stood_still_past_its_lease_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        slow, run = JobWorker(session), JobWorker._run
        others: list[Receipt | None] = []

        def stand_still(self: JobWorker, trigger: Trigger) -> Iterable[Receipt]:
            monkeypatch.setattr(JobWorker, "_run", run)
            with opened(tmp_path, session.clock.now_ms() + 200_000) as other:
                quick = JobWorker(other)
                quick.turn()  # records the lost attempt
                later(other, 11)
                others.append(quick.turn())
            return run(self, trigger)

        monkeypatch.setattr(JobWorker, "_run", stand_still)
        assert slow.turn() is None
        (other,) = others
        assert other is not None and other.status == "SUCCESS", "no other worker took the job over"
        left = session.state.jobs.get(job.trigger.trigger_id)
        assert left is not None and (left.status, left.run_id, left.attempts) == ("ended", other.run_id, 2)
        assert sum(1 for _ in session.state.ledger.entries()) == 1 and differences(session.state) == []


def test_jobs_that_ended_long_ago_are_forgotten_and_dead_letters_stay(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one", "two")) as session:
        change(tmp_path, "two", "n\nx\n")
        jobs = {name: asked(session, name).job for name in ("one", "two")}
        worker = JobWorker(session)
        while worker.turn() is not None:
            pass
        later(session, 400 * 86_400)
        prune_inbox(session, again=True)
        assert session.state.jobs.get(jobs["one"].trigger.trigger_id) is None
        assert session.state.jobs.by_id(jobs["one"].envelope.job_id) is None
        assert [dead.trigger.dataset for dead in session.state.jobs.dead()] == ["two"]
        assert differences(session.state) == []


def test_a_job_that_another_worker_has_is_left_to_it(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        job = asked(session, "one").job
        with session.state.transaction() as tx:
            lease = tx.leases.acquire(f"job/{job.trigger.trigger_id}", "elsewhere:1:1", 60_000)
            held = tx.jobs.attempt(job, "elsewhere:1:1", session.clock.now_ms())
        worker = JobWorker(session)
        assert worker.turn() is None and worker.turn([job.trigger.trigger_id]) is None
        assert session.state.jobs.get(job.trigger.trigger_id) == held
        assert (worker.depth().running, worker.depth().waiting) == (1, 0)
        later(session, 61)
        assert worker.turn() is None, "the lost attempt is recorded first"
        later(session, 11)
        receipt = worker.turn()
        assert receipt is not None and receipt.status == "SUCCESS"
        left = session.state.jobs.get(job.trigger.trigger_id)
        assert left is not None and [each.code for each in left.failures] == ["worker.lost"]
        assert left.failures[0].host == "elsewhere" and left.attempts == 2
        assert session.state.leases.of(lease.scope) is None


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_worker_that_may_not_go_on_claims_nothing(tmp_path: Path, goes_on: bool) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        asked(session, "one")
        assert (JobWorker(session, goes_on=lambda: goes_on).turn() is not None) is goes_on


def test_a_worker_names_what_it_cannot_deliver_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = [Unavailable("the bucket is away", hint="start it")]

    def settle(session: Session) -> list[Effect]:
        session.undelivered = [("", each) for each in away]
        for problem in away:
            raise problem
        return []

    monkeypatch.setattr(job_worker, "settle_session", settle)
    with opened(lay_out(tmp_path, "rain")) as session:
        asked(session, "rain")
        team = Team(session)
        for _ in range(5):
            team.worker.turn()
            later(session, 60)
        assert team.problems == [("", away[0])]
        away.clear()
        team.worker.turn()
        away.append(Unavailable("the bucket is away", hint="start it"))
        later(session, 60)
        team.worker.turn()
        assert len(team.problems) == 2, "it is said again once it was well"
