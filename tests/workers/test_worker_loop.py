"""The loop of a worker, by a clock that the test sets: it works, rests, waits for a state that is gone, and stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kfm.app.daemon.worker_loop import MOST_S, SLICE_S, WorkerLoop
from kfm.app.jobs.job_worker import QueueDepth
from kfm.app.session.wake_up import WakeUp
from kfm.clock import FixedClock
from kfm.errors import Busy, StorageFailed, Unavailable
from kfm.telemetry.log import MemoryLog


class Queue:
    """Some jobs, a bell and a state that may be gone; `ends_ms` is when everything stops."""

    def __init__(self, jobs: int = 0, *, ends_ms: int = 10_000_000) -> None:
        self.clock = FixedClock(0)
        self.log = MemoryLog(self.clock)
        self.jobs = list(range(jobs))
        self.told: list[Any] = []
        self.turns: list[int] = []
        self.waits: list[float] = []
        self.messages: list[str] = []
        self.problems: list[Exception] = []
        self.discarded = 0
        self.openings = 0
        self.does_something = False
        self.last: Any = None
        self.retried_ms = 0  # when a job is tried again
        self.pools: tuple[str, ...] = ()  # that it needs
        self._ends_ms = ends_ms

    # the session
    @contextmanager
    def opened(self) -> Iterator[Any]:
        self.openings += 1
        workers = SimpleNamespace(sweep_s=5.0)
        retried = [SimpleNamespace(not_before_ms=self.retried_ms, pools=self.pools)]
        yield SimpleNamespace(
            wake_up=WakeUp(lambda: self, self.clock, self.log),  # type: ignore[arg-type,return-value]
            config=SimpleNamespace(workers=workers),
            state=SimpleNamespace(home=b"", jobs=SimpleNamespace(open=lambda: retried)),
            tables=SimpleNamespace(get=lambda _table, _key: None),
        )

    # the worker
    def turn(self) -> Any:
        self.turns.append(self.clock.now_ms())
        if self.problems:
            raise self.problems.pop(0)
        self.last = self.jobs.pop(0) if self.jobs else None
        return self.last

    def pause_s(self) -> float:
        return 0.0 if self.does_something else 5.0

    def depth(self) -> QueueDepth:
        return QueueDepth(waiting=len(self.jobs), ready=len(self.jobs), running=0, dead=0, lag_ms=0)

    # the bell
    def wait(self, timeout_s: float) -> set[str]:
        self.waits.append(timeout_s)
        if self.messages:
            return {self.messages.pop(0)}
        self.clock.sleep(timeout_s)
        return set()

    def close(self) -> None: ...

    def loop(self) -> WorkerLoop:
        return WorkerLoop(
            self.opened,
            lambda _session: self,
            told=self.told.append,
            goes_on=lambda: self.clock.now_ms() < self._ends_ms,
            clock=self.clock,
            log=self.log,
        )


def test_a_worker_does_all_that_waits_before_it_rests() -> None:
    queue = Queue(3, ends_ms=1000)
    queue.loop().run()
    assert (queue.told, queue.turns[:4]) == ([0, 1, 2], [0, 0, 0, 0])


def test_a_worker_looks_again_after_the_sweep_and_at_once_after_a_message() -> None:
    queue = Queue(ends_ms=12_000)
    queue.loop().run()
    assert queue.turns == [0, 5000, 10_000]
    queue = Queue(ends_ms=4000)
    queue.messages = ["000000000001"]
    queue.loop().run()
    assert queue.turns[:2] == [0, 0]


def test_each_job_takes_one_message_so_that_none_pile_up() -> None:
    queue = Queue(3, ends_ms=1)
    queue.messages = ["1", "2", "3"]
    queue.loop().run(once=True)
    assert queue.messages == []
    assert queue.waits[:3] == [0, 0, 0]


def test_a_turn_without_a_receipt_that_did_something_is_followed_by_another() -> None:
    queue = Queue(ends_ms=1)
    queue.does_something = True
    original = queue.turn

    def turn() -> Any:
        if len(queue.turns) == 5:
            queue.does_something = False
        return original()

    queue.turn = turn  # type: ignore[method-assign]
    queue.loop().run(once=True)
    assert queue.turns == [0] * 6


def test_once_ends_when_nothing_is_ready() -> None:
    queue = Queue(2)
    queue.loop().run(once=True)
    assert (queue.told, queue.clock.now_ms()) == ([0, 1], 0)


def test_once_waits_for_another_attempt_at_a_job_but_not_for_one_of_another_pool() -> None:
    queue = Queue()
    queue.retried_ms = 3000
    queue.loop().run(once=True)
    assert queue.clock.now_ms() == 3000
    queue = Queue()
    queue.retried_ms, queue.pools = 3000, ("osage",)
    queue.loop().run(once=True)
    assert queue.clock.now_ms() == 0


def test_a_worker_waits_for_a_state_that_is_gone_and_opens_it_again() -> None:
    queue = Queue(1, ends_ms=200_000)
    queue.problems = [Unavailable("gone")] * 8 + [Busy("another process is writing")]
    queue.loop().run(once=True)
    assert queue.told == [0]
    assert queue.openings == 10
    pauses = [b - a for a, b in zip(queue.turns, queue.turns[1:], strict=False)][:9]
    assert pauses == sorted(pauses) and pauses[0] == 500 and pauses[-1] == MOST_S * 1000
    events = [line["event"] for line in queue.log.events]
    assert events == ["state.failed", "state.answered"]


def test_damage_is_not_waited_for() -> None:
    queue = Queue(1)
    queue.problems = [StorageFailed("the disk is full")]
    with pytest.raises(StorageFailed):
        queue.loop().run()


def test_a_rest_and_a_wait_for_the_state_are_cut_into_slices() -> None:
    queue = Queue(ends_ms=600)
    queue.loop().run()
    assert queue.clock.now_ms() == 1000 and max(queue.waits) <= SLICE_S
    queue = Queue(ends_ms=3000)
    queue.problems = [Unavailable("gone")] * 9
    queue.loop().run()
    assert queue.clock.now_ms() < 3000 + SLICE_S * 1000
