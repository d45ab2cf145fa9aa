"""Slots over a clock that the test moves: which run goes first, which minutes count for a pool, what is free."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kfm import config
from kfm.app.authority.run_setup import context_of
from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.runs.freshness import freshness
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session import pools
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.engine import heartbeat
from kfm.errors import BadInput, Broken, Fenced, Full
from kfm.model.records import Trigger
from kfm.scheduling.triggers import keep

BEGIN_MS = 1_780_000_000_000
MINUTE = 60_000
DATASET = """\
  NAME:
    version: "1.0.0"
    sensitivity: public
    freshness: {max_age: 1h}
    sources: {rows: {uri: rows.csv, format: csv}}
    outputs: {rows: {from: rows}}
"""


def lay_out(folder: Path, slots: int = 1) -> Path:
    text = f"publish: noop\npools: {{gpu: {slots}, api: 1}}\nwatch: {{poll_s: 0}}\ndatasets:\n"
    for name in ("one", "two", "three"):
        text += DATASET.replace("NAME", name) + "    pool: gpu\n"
    (folder / "kfm.yml").write_text(text + DATASET.replace("NAME", "free"))
    (folder / "rows.csv").write_text("id,n\na,1\n")
    return folder / "kfm.yml"


@contextlib.contextmanager
def opened(path: Path, clock: FixedClock) -> Iterator[Session]:
    with open_session(config.load(str(path), {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=clock) as session:
        yield session


@contextlib.contextmanager
def taken(session: Session, dataset: str, **more: object) -> Iterator[None]:
    """Somebody has a slot, and works, for as long as this lasts."""
    trigger = replace(new_trigger(session, dataset, actor="tester"), **more)
    with pools.slot(session, context_of(session, trigger, dataset_updater(session, dataset)), patient=False):
        yield


def asks(session: Session, trigger: Trigger) -> bool:
    """Did it get a slot? It gives it back at once."""
    try:
        with pools.slot(
            session, context_of(session, trigger, dataset_updater(session, trigger.dataset)), patient=False
        ):
            return True
    except Full:
        return False


def test_a_backfill_lets_everybody_else_go_first(tmp_path: Path) -> None:
    clock = FixedClock(BEGIN_MS)
    with opened(lay_out(tmp_path), clock) as session:
        backfill = keep(session.state, replace(new_trigger(session, "two", actor="tester"), low=True))
        clock.advance(MINUTE)
        nightly = keep(session.state, new_trigger(session, "three", kind="schedule", actor="tester"))
        clock.advance(1000)
        later = keep(session.state, new_trigger(session, "one", actor="tester"))
        with taken(session, "one"):
            assert not asks(session, backfill) and not asks(session, nightly)
        (gpu,) = pools.pool_statuses(session, ["gpu"])
        assert [(each.dataset, each.priority) for each in gpu.waiting] == [("three", "normal"), ("two", "low")]
        assert gpu.free == 1
        assert not asks(session, backfill)  # it came first, and is last
        assert not asks(session, later)  # nor does one who came later pass one who waits
        assert asks(session, nightly) and not asks(session, backfill)
        assert asks(session, later) and asks(session, backfill)


def test_a_trigger_that_does_not_return_keeps_no_other_waiting(tmp_path: Path) -> None:
    clock = FixedClock(BEGIN_MS)
    with opened(lay_out(tmp_path), clock) as session:
        nightly = keep(session.state, new_trigger(session, "three", kind="schedule", actor="tester"))
        with taken(session, "one"):
            assert not asks(session, nightly)
        clock.advance(1000)
        by_hand = new_trigger(session, "two", actor="tester")
        assert not asks(session, by_hand)
        clock.advance(10_000)
        assert asks(session, by_hand)


def test_who_asks_again_waits_once(tmp_path: Path) -> None:
    clock = FixedClock(BEGIN_MS)
    with opened(lay_out(tmp_path), clock) as session:
        trigger = new_trigger(session, "two", actor="tester")  # as a backfill asks: not of the inbox
        with taken(session, "one"):
            for _ in range(3):
                assert not asks(session, trigger)
                clock.advance(1000)
            (gpu,) = pools.pool_statuses(session, ["gpu"])
            assert [(each.dataset, each.waited_ms) for each in gpu.waiting] == [("two", 3000)]
        assert asks(session, trigger)


def test_up_runs_what_needs_no_slot_and_then_what_waits(tmp_path: Path) -> None:
    clock = FixedClock(BEGIN_MS)
    path = lay_out(tmp_path)
    problems: list[object] = []
    with opened(path, clock) as elsewhere, opened(path, clock) as session:
        upkeep = Daemon(session, ["one", "two", "free"], lambda *told: problems.append(told))
        for name in ("two", "free"):
            keep(session.state, new_trigger(session, name, actor="tester"))
        with taken(elsewhere, "one"):
            assert [each.dataset for each in upkeep.turn(patient=False)] == ["free"]
            assert upkeep.waits() and [each.dataset for each in session.state.inbox.waiting()] == ["two"]
            clock.advance(5000)
            assert list(upkeep.turn(patient=False)) == []
        assert [each.dataset for each in upkeep.turn(patient=False)] == ["two"]
        assert not upkeep.waits() and problems == []
        assert free(session) == 1


def test_up_takes_up_what_was_left_when_there_is_a_slot_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FixedClock(BEGIN_MS)
    path = lay_out(tmp_path)
    with opened(path, clock) as session:
        with monkeypatch.context() as patched, pytest.raises(Broken):
            patched.setattr("kfm.engine.execute.execute", _breaks)
            run_trigger(session, new_trigger(session, "two", actor="tester"))
        assert [run.dataset for run in session.state.runs.unfinished()] == ["two"]
        with opened(path, clock) as elsewhere:
            upkeep = Daemon(session, ["two"], lambda *_told: pytest.fail("there is nothing to tell"))
            with taken(elsewhere, "one"):
                assert list(upkeep.begin()) == [] and list(upkeep.turn(patient=False)) == []
                assert upkeep.waits()
            assert [each.outcome for each in upkeep.turn(patient=False)] == ["done"]
        assert not any(session.state.runs.unfinished())


def _breaks(*_: object) -> None:
    raise Broken("the disk is gone")


def free(session: Session, pool: str = "gpu") -> int:
    (found,) = pools.pool_statuses(session, [pool])
    return found.free


def test_a_slot_comes_back_whatever_becomes_of_the_run(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path), FixedClock(BEGIN_MS)) as session:
        assert run_trigger(session, new_trigger(session, "one", actor="tester")).outcome == "done"
        assert run_trigger(session, new_trigger(session, "one", actor="tester")).outcome == "noop"
        run_operation(session, "freeze", "three", actor="tester")
        assert run_trigger(session, new_trigger(session, "three", actor="tester")).outcome == "frozen"
        (tmp_path / "rows.csv").unlink()
        assert run_trigger(session, new_trigger(session, "two", actor="tester")).status == "FAILED"
        with pytest.raises(ZeroDivisionError), taken(session, "one"):
            assert free(session) == 0
            raise ZeroDivisionError
        assert free(session) == 1 and not heartbeat._kept


def test_a_smaller_pool_fences_off_who_lost_a_slot_that_is_gone(tmp_path: Path) -> None:
    clock = FixedClock(BEGIN_MS)
    path = lay_out(tmp_path, slots=2)
    with opened(path, clock) as session, taken(session, "one"), taken(session, "two"):
        (gpu,) = pools.pool_statuses(session, ["gpu"])
        last = session.state.leases.of(f"pool/gpu/{gpu.held[1].slot}")
        assert last is not None and last.scope == "pool/gpu/1"
        heartbeat._kept.clear()  # both are stopped
        path.write_text(path.read_text().replace("gpu: 2", "gpu: 1"))
        with opened(path, clock) as smaller:
            assert not asks(smaller, new_trigger(smaller, "three", actor="tester"))
            clock.advance(61_000)
            with taken(smaller, "three"), pytest.raises(Fenced), smaller.state.transaction() as tx:
                tx.leases.check(last)


def test_a_schedule_may_have_a_pool_of_its_own(tmp_path: Path) -> None:
    path = lay_out(tmp_path)
    (tmp_path / "pipelines/schedules").mkdir(parents=True)
    (tmp_path / "pipelines/schedules/free.yml").write_text(
        "schedules:\n  nightly: {dataset: free, cadence: daily, catch_up: last, pool: api}\n"
    )
    clock = FixedClock(BEGIN_MS)
    with opened(path, clock) as elsewhere, opened(path, clock) as session:
        upkeep = Daemon(session, ["free"], lambda *_told: pytest.fail("there is nothing to tell"))
        list(upkeep.turn(patient=False))
        clock.advance(24 * 60 * MINUTE)
        with taken(elsewhere, "one", pool="api"):
            assert list(upkeep.turn(patient=False)) == [] and upkeep.waits()
            assert (
                run_trigger(session, new_trigger(session, "free", actor="tester")).outcome == "done"
            )  # by hand it needs none
        assert [each.outcome for each in upkeep.turn(patient=False)] == ["noop"]


def test_a_dry_run_and_an_operation_need_no_slot(tmp_path: Path) -> None:
    path = lay_out(tmp_path)
    clock = FixedClock(BEGIN_MS)
    with opened(path, clock) as session, taken(session, "one"):
        assert run_operation(session, "freeze", "two", actor="tester").status == "SUCCESS"
        resolved = config.load(str(path), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
        with open_session(resolved, mode="dry", clock=clock) as dry:
            assert run_trigger(dry, new_trigger(dry, "three", actor="tester")).outcome == "done"


def test_an_updater_is_not_mistaken_for_a_pool(tmp_path: Path) -> None:
    path = lay_out(tmp_path)
    path.write_text(path.read_text().replace("  one:\n", "  pool:\n"))
    with opened(path, FixedClock(BEGIN_MS)) as session, pytest.raises(BadInput, match="cannot be called pool"):
        run_trigger(session, new_trigger(session, "pool", actor="tester"))


# -- freshness


def owed(session: Session, name: str) -> dict[str, int]:
    (found,) = freshness(session, [name])
    assert sum(found.blame.values()) == found.age_min
    return found.blame


def test_minutes_in_which_a_run_waits_for_a_slot_count_for_the_pool(tmp_path: Path) -> None:
    clock = FixedClock(BEGIN_MS)
    path = lay_out(tmp_path)
    with opened(path, clock) as elsewhere, opened(path, clock) as session:
        run_trigger(session, new_trigger(session, "two", actor="tester"))
        clock.advance(30 * MINUTE)
        trigger = keep(session.state, new_trigger(session, "two", actor="tester"))
        clock.advance(5 * MINUTE)
        with taken(elsewhere, "one"):
            for _ in range(20 * 60 // 5):
                assert not asks(session, trigger)
                clock.advance(5000)
                _renewed(elsewhere)
            assert owed(session, "two") == {"not yet noticed": 30, "waiting for a pool": 20, "waiting": 5}
        with pools.slot(session, context_of(session, trigger, dataset_updater(session, "two")), patient=False):
            clock.advance(10 * MINUTE)  # at work: what it waited for is not forgotten
            _renewed(session)
            assert owed(session, "two")["waiting for a pool"] == 20
        assert owed(session, "two") == {"waiting": 35, "not yet noticed": 30}


def _renewed(session: Session) -> None:
    """What the heartbeat does, by the clock of the test."""
    for scope in ("pool/gpu/0",):
        lease = session.state.leases.of(scope)
        assert lease is not None
        with session.state.transaction(lease) as tx:
            tx.leases.renew(lease, 3600_000)
