"""A lock in the state: one holder among all machines, renewed while it works, and free when its time has ended."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kfm.clock import Clock, from_environment
from kfm.store.memory import MemoryTables
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState
from kfm.store.state_lock import StateLock


class Later:
    """A state whose clock a test moves on."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.state = StoredState(MemoryTables(), lambda: self.now_ms)


def test_one_of_two_holders_has_the_lock() -> None:
    state = Later().state
    one, other = StateLock(state, "publish"), StateLock(state, "publish")
    assert one.take()
    assert not other.take()
    assert not one.take()
    one.release()
    assert other.take()
    other.close()


def test_locks_of_other_names_are_free() -> None:
    state = Later().state
    one, other = StateLock(state, "publish"), StateLock(state, "sink-graph")
    assert one.take()
    assert other.take()
    one.close()
    other.close()


def test_a_lock_that_is_not_renewed_is_taken_over_and_its_old_holder_frees_nothing() -> None:
    later = Later()
    stopped, next_one, third = (StateLock(later.state, "publish") for _ in range(3))
    assert stopped.take()
    later.now_ms += 31_000  # the thread that renews it has not run
    assert next_one.take()
    stopped.close()
    assert not third.take()
    next_one.close()
    assert third.take()
    third.close()


def test_a_lock_is_renewed_while_its_holder_works() -> None:
    clock: Clock = from_environment()
    state = StoredState(MemoryTables(), clock.now_ms)
    holder, other = StateLock(state, "publish", ttl_ms=300), StateLock(state, "publish", ttl_ms=300)
    assert holder.take()
    first = state.leases.of("lock/publish")
    assert first is not None
    for _ in range(200):
        now = state.leases.of("lock/publish")
        assert now is not None
        if now.expires_ms > first.expires_ms + 300:
            break
        time.sleep(0.02)
    else:
        pytest.fail("it was not renewed")
    assert not other.take()
    holder.close()
    assert other.take()
    other.close()


def test_sixteen_threads_take_turns(tmp_path: Path) -> None:
    clock = from_environment()
    inside, most, turns = [0], [0], [0]
    guard = threading.Lock()

    def work() -> None:
        state = StoredState(SqliteTables(str(tmp_path / "state.db")), clock.now_ms)
        lock = StateLock(state, "publish")
        for _ in range(3):
            while not lock.take():
                time.sleep(0.002)
            with guard:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.001)
            with guard:
                inside[0] -= 1
                turns[0] += 1
            lock.release()
        state.close()

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], turns[0]) == (1, 48)
