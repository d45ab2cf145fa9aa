"""The promises of the table of jobs over every backend: one place for each job, one trigger, one id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kfm.clock import FixedClock
from kfm.model.jobs.job_envelope import JobEnvelope, identified
from kfm.model.jobs.job_records import JobFailure, JobState
from kfm.store.index_check import differences
from kfm.store.state import StoredState
from tests.store.backends import ALL, Backend
from tests.store.records import TS, trigger


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


@pytest.fixture
def state(backend: Backend) -> Iterator[StoredState]:
    opened = StoredState(backend.open(), FixedClock().now_ms)
    yield opened
    opened.close()


def job(by: str = "user:ann", dataset: str = "d") -> JobState:
    envelope = JobEnvelope(job_type="ingest.pull_source", requested_by=by, requested_at=TS)
    return JobState(envelope=identified(envelope), trigger=trigger(kind="job", dataset=dataset))


def enqueued(state: StoredState, by: str = "user:ann") -> JobState:
    with state.transaction() as tx:
        stored, is_new = tx.jobs.enqueue(job(by))
    assert is_new
    return stored


def failure(code: str) -> JobFailure:
    return JobFailure(code=code, at=TS, host="h")


def test_a_job_is_stored_with_its_trigger_and_found_by_both_ids(state: StoredState, backend: Backend) -> None:
    first, second = enqueued(state), enqueued(state, "user:bob")
    with state.transaction() as tx:
        assert tx.jobs.enqueue(job()) == (first, False)
    state = StoredState(backend.reopen(state.tables), state.now_ms)
    assert [each.trigger for each in (first, second)] == list(state.inbox.waiting())
    assert list(state.jobs.open()) == [first, second]
    assert state.jobs.get(first.trigger.trigger_id) == state.jobs.by_id(first.envelope.job_id) == first
    assert list(state.jobs.ids(first.envelope.job_id[:8])) == [first.envelope.job_id]
    assert state.jobs.get("none") is None and state.jobs.by_id("none") is None


def test_a_transaction_that_is_broken_off_stores_neither_job_nor_trigger(state: StoredState) -> None:
    with pytest.raises(KeyError), state.transaction() as tx:
        tx.jobs.enqueue(job())
        raise KeyError
    assert not list(state.jobs.open()) and not list(state.inbox.waiting())


def test_a_job_goes_through_its_life_at_one_place_at_a_time(state: StoredState) -> None:
    now = enqueued(state)
    at = now.trigger.trigger_id
    with state.transaction() as tx:
        now = tx.jobs.attempt(now, "h:1", 5)
    assert (now.attempts, now.holder, now.claimed_ms) == (1, "h:1", 5) and state.jobs.get(at) == now
    with state.transaction() as tx:
        now = tx.jobs.give_back(now, 7)
    assert (now.attempts, now.holder, now.not_before_ms) == (0, "", 7)
    with state.transaction() as tx:
        now = tx.jobs.attempt(now, "h:1", 8)
        tx.inbox.finish(now.trigger, "run-1")
    assert state.inbox.ended(at) is not None
    with state.transaction() as tx:  # its run has failed: it waits again, under its old id
        now = tx.jobs.fail(now, failure("unavailable"), 9)
    assert state.inbox.kept(now.trigger) == now.trigger and state.inbox.ended(at) is None
    assert (now.attempts, now.failures, now.not_before_ms) == (1, (failure("unavailable"),), 9)
    with state.transaction() as tx:
        now = tx.jobs.bury(now, failure("denied"), 10)
    assert (list(state.jobs.dead()), list(state.jobs.open()), list(state.inbox.waiting())) == ([now], [], [])
    assert differences(state) == []
    with state.transaction() as tx:
        now = tx.jobs.revive(now, 11)
    assert (now.status, now.attempts, len(now.failures)) == ("waiting", 0, 2)
    assert (list(state.jobs.dead()), list(state.jobs.open())) == ([], [now])
    with state.transaction() as tx:
        now = tx.jobs.cancel(now, 12)
    assert (list(state.jobs.done()), list(state.inbox.waiting())) == ([now], [])
    with state.transaction() as tx:
        now = tx.jobs.revive(now, 13)
        tx.inbox.finish(now.trigger, "run-2")
        now = tx.jobs.end(now, "run-2", 14)
    assert (now.status, now.run_id) == ("ended", "run-2") and list(state.jobs.done()) == [now]
    assert state.inbox.ended(at) is not None and differences(state) == []
    with state.transaction() as tx:
        tx.jobs.forget(now)
    assert state.jobs.get(at) is None and not list(state.jobs.ids(""))


def test_a_long_history_keeps_its_newest_failures(state: StoredState) -> None:
    now = enqueued(state)
    with state.transaction() as tx:
        for n in range(120):
            now = tx.jobs.fail(now, failure(f"code.{n}"), n)
    assert [each.code for each in now.failures] == [f"code.{n}" for n in range(20, 120)]


def test_damage_of_the_table_is_found(state: StoredState) -> None:
    one = enqueued(state)
    at = one.trigger.trigger_id
    with state.transaction():
        body = state.tables.get("jobs", f"open/{at}")
        assert body is not None
        state.tables.put("jobs", f"dead/{at}", body)
        state.tables.put("jobs", "id/nothing", b"000000000099")
    assert differences(state) == [f"jobs/dead/{at} leads to no job", "jobs/id/nothing leads to no job"]
    with state.transaction() as tx:
        state.tables.delete("jobs", "id/nothing")
        tx.jobs.bury(one, None, 1)
        tx.inbox.keep(msgspec.structs.replace(one.trigger))
    assert differences(state) == [f"inbox/d/{at} is of a dead letter"]
