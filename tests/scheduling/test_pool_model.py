"""Slots against a small model: whatever is killed, stopped, cancelled or runs out, in whatever order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kfm.clock import FixedClock
from kfm.errors import Busy, Fenced
from kfm.model.ports import Tables
from kfm.model.records import Lease
from kfm.scheduling.pool_slots import WAIT_MS, SlotRequest, leave, take
from kfm.store.jsonl import JsonlTables
from kfm.store.memory import MemoryTables
from kfm.store.process_identity import is_held
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState
from tests.sampling import sampled

LEASE_MS = 60_000
STEPS = 120


class Slot(NamedTuple):
    worker: int
    until_ms: int


class Worker:
    """One process, elsewhere: nobody can see whether it lives."""

    def __init__(self, number: int, low: bool, received_ms: int) -> None:
        self.number = number
        self.key = f"work-{number:04d}"
        self.low = low
        self.received_ms = received_ms
        self.lease: Lease | None = None  # that it believes to have
        self.stopped = False


class Model:
    """What a pool is: slots by number, each somebody's until an instant, and those who wait. Nothing else."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots: dict[int, Slot] = {}
        self.waiting: dict[int, int] = {}  # workers, and until when they are believed to wait
        self.dead: set[int] = set()  # that are known to be: on the machine of whoever looks

    def held(self, now_ms: int) -> dict[int, Slot]:
        return {n: s for n, s in self.slots.items() if s.until_ms > now_ms and s.worker not in self.dead}

    def line(self, workers: dict[int, Worker], now_ms: int) -> list[int]:
        there = [n for n, until_ms in self.waiting.items() if until_ms > now_ms and n not in self.dead]
        return sorted(there, key=lambda n: (workers[n].low, workers[n].received_ms, n))

    def asked(self, worker: Worker, workers: dict[int, Worker], now_ms: int) -> int | None:
        """The slot that it gets, or None: it waits."""
        self.waiting = {n: until for n, until in self.waiting.items() if n in self.line(workers, now_ms)}
        held = self.held(now_ms)
        self.slots = {n: s for n, s in self.slots.items() if n < self.size or n in held}
        mine = (worker.low, worker.received_ms, worker.number)
        ahead = [
            n
            for n in self.line(workers, now_ms)
            if n != worker.number and (workers[n].low, workers[n].received_ms, n) < mine
        ]
        if self.size - len(held) > len(ahead):
            self.waiting.pop(worker.number, None)
            slot = min(set(range(self.size)) - set(held))
            self.slots[slot] = Slot(worker.number, now_ms + LEASE_MS)
            return slot
        return None

    def may_commit(self, worker: Worker) -> bool:
        """Nobody has come into its place."""
        if worker.lease is None:
            return False
        slot = int(worker.lease.scope.rpartition("/")[2])
        return slot in self.slots and self.slots[slot].worker == worker.number


class History:
    """One history of a pool over a store, step by step next to the model."""

    def __init__(self, tables: Tables, seed: int) -> None:
        self.pick = random.Random(seed)
        self.clock = FixedClock(1_780_000_000_000)
        self.state = StoredState(tables, self.clock.now_ms)
        self.model = Model(self.pick.randint(1, 3))
        self.workers: dict[int, Worker] = {}
        self.did: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        moves: list[tuple[int, Callable[[], None]]] = [
            (6, self.comes), (10, self.asks), (6, self.renews), (5, self.commits), (3, self.ends), (3, self.dies),
            (2, self.is_killed_here), (3, self.stops), (3, self.goes_on), (3, self.is_cancelled), (6, self.passes),
            (1, self.resizes),
        ]  # fmt: skip
        for _ in range(STEPS):
            self.pick.choices([move for _, move in moves], [weight for weight, _ in moves])[0]()
            self.check()
        self.comes_back()
        return self.did

    # -- what can happen

    def some(self, fits: Callable[[Worker], bool]) -> Worker | None:
        found = [each for each in self.workers.values() if fits(each) and each.number not in self.model.dead]
        return self.pick.choice(found) if found else None

    def comes(self) -> None:
        number = len(self.workers)
        received = self.clock.now_ms() - self.pick.randrange(100_000)
        self.workers[number] = Worker(number, self.pick.random() < 0.3, received)

    def asks(self) -> None:
        worker = self.some(lambda each: each.lease is None and not each.stopped)
        if worker is not None:
            self.ask(worker)

    def ask(self, worker: Worker) -> None:
        now = self.clock.now_ms()
        gone = worker.number not in self.model.waiting or self.model.waiting[worker.number] <= now
        expected = self.model.asked(worker, self.workers, now)
        given = take(self.state, self._asked(worker), f"elsewhere:{worker.number}", LEASE_MS, now, is_held)
        assert (given and given.scope) == (None if expected is None else f"pool/gpu/{expected}")
        worker.lease = given
        if given is None and (gone or self.model.waiting[worker.number] - now <= WAIT_MS * 2 // 3):
            self.model.waiting[worker.number] = now + WAIT_MS
        self.did["waited" if given is None else "taken"] += 1

    def is_alive(self, holder: str) -> bool | None:
        """None: it cannot be known from here."""
        return False if int(holder.split(":")[1]) in self.model.dead else None

    def _asked(self, worker: Worker) -> SlotRequest:
        return SlotRequest("gpu", self.model.size, worker.key, "rain", worker.received_ms, worker.low)

    def renews(self) -> None:
        worker = self.some(lambda each: each.lease is not None and not each.stopped)
        if worker is None or worker.lease is None:
            return
        may = self.model.may_commit(worker)
        try:
            with self.state.transaction(worker.lease, durable=False) as tx:
                tx.leases.renew(worker.lease, LEASE_MS)
        except Fenced:
            assert not may
            worker.lease = None
            self.did["fenced"] += 1
        else:
            assert may
            slot = int(worker.lease.scope.rpartition("/")[2])
            self.model.slots[slot] = Slot(worker.number, self.clock.now_ms() + LEASE_MS)

    def commits(self) -> None:
        worker = self.some(lambda each: each.lease is not None and not each.stopped)
        if worker is None or worker.lease is None:
            return
        may = self.model.may_commit(worker)
        try:
            with self.state.transaction() as tx:
                tx.leases.check(worker.lease)
        except Fenced:
            assert not may
            worker.lease = None
            self.did["fenced"] += 1
        else:
            assert may
            self.did["committed"] += 1

    def ends(self) -> None:
        worker = self.some(lambda each: each.lease is not None and not each.stopped)
        if worker is not None and worker.lease is not None:
            if self.model.may_commit(worker):
                slot = int(worker.lease.scope.rpartition("/")[2])
                self.model.slots[slot] = Slot(worker.number, 0)
            self.state.leases.release(worker.lease)  # one that was lost frees nothing
            worker.lease = None
            self.did["ended"] += 1

    def dies(self) -> None:
        """Elsewhere: all that is known of it is that it does nothing more."""
        worker = self.some(lambda each: True)
        if worker is not None:
            self.did["killed with a slot" if worker.lease else "killed"] += 1
            worker.stopped, worker.lease = True, None
            worker.key = ""

    def is_killed_here(self) -> None:
        worker = self.some(lambda each: True)
        if worker is not None:
            self.did["killed here"] += 1
            self.model.dead.add(worker.number)

    def stops(self) -> None:
        worker = self.some(lambda each: each.lease is not None)
        if worker is not None:
            worker.stopped = True

    def goes_on(self) -> None:
        worker = self.some(lambda each: each.stopped and bool(each.key))
        if worker is not None:
            worker.stopped = False
            self.did["went on"] += 1

    def is_cancelled(self) -> None:
        worker = self.some(lambda each: each.lease is None and each.number in self.model.waiting and bool(each.key))
        if worker is not None:
            leave(self.state, self._asked(worker))
            self.model.waiting.pop(worker.number)
            self.did["cancelled"] += 1

    def passes(self) -> None:
        self.clock.advance(self.pick.choice((100, 4000, 11_000, LEASE_MS // 2, LEASE_MS + 1)))

    def resizes(self) -> None:
        self.model.size = self.pick.randint(1, 3)
        self.did["resized"] += 1

    # -- what must hold

    def check(self) -> None:
        now = self.clock.now_ms()
        rows = list(self.state.leases.below("pool/gpu"))
        held = {row.scope for row in rows if "/wait/" not in row.scope and is_held(row, now)}
        assert held == {f"pool/gpu/{n}" for n in self.model.held(now)}
        able = [worker for worker in self.workers.values() if self.model.may_commit(worker)]
        assert len(able) <= max(self.model.size, 3)
        assert len({worker.lease.scope for worker in able if worker.lease}) == len(able)

    def comes_back(self) -> None:
        """After one lease in which nobody renews anything, all of the pool is free, and nobody of before commits."""
        self.clock.advance(LEASE_MS + 1)
        for _ in range(self.model.size):
            self.comes()
            self.ask(self.workers[len(self.workers) - 1])
            assert self.workers[len(self.workers) - 1].lease is not None
        new = range(len(self.workers) - self.model.size, len(self.workers))
        for worker in list(self.workers.values()):
            if worker.number not in new and worker.lease is not None:
                with pytest.raises(Fenced), self.state.transaction() as tx:
                    tx.leases.check(worker.lease)
        busy = self.workers[new[0]]
        with pytest.raises(Busy):  # the same work has a slot
            take(self.state, self._asked(busy), "x:9999", LEASE_MS, self.clock.now_ms(), is_held)


def tried(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Tables], seeds: range) -> None:
    did: Counter[str] = Counter()
    for seed in seeds:
        tables = make()
        try:
            history = History(tables, seed)
            monkeypatch.setattr("kfm.store.process_identity._is_alive", history.is_alive)
            did += history.run()
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}") from problem
        finally:
            tables.close()
    assert min(did[what] for what in ("taken", "waited", "fenced", "committed", "ended", "cancelled", "killed here",
                                      "killed with a slot", "went on", "resized")) > 0, did  # fmt: skip


@pytest.mark.parametrize("part", sampled(range(10)))
def test_no_history_takes_more_than_the_pool_has_or_loses_any_of_it(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    tried(monkeypatch, MemoryTables, range(part * 50, part * 50 + 50))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_nor_does_one_over_a_store_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    numbers = iter(range(10_000))

    def make() -> Tables:
        path = str(tmp_path / f"{next(numbers)}.state")
        return SqliteTables(path) if kind == "sqlite" else JsonlTables(path)

    tried(monkeypatch, make, range(1000, 1050))
