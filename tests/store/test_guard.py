"""Leases and freeze flags are read again whenever another process may have changed them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kfm.errors import Busy, Fenced, Frozen
from kfm.model.records import Lease, RefMove
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState
from tests.store.backends import STORED, open_stored

SWITCHES = ("switch/global", "switch/dataset/d")
# Two states on one connection, and two on two.
PLACES = ("memory", *STORED, *(f"two {kind}" for kind in STORED))


class Site:
    """Two workers' views of one state, with the questions they ask counted."""

    def __init__(self, place: str, folder: Path) -> None:
        self.now = 1000
        kind = place.removeprefix("two ")

        def tables() -> object:
            return MemoryTables() if kind == "memory" else open_stored(kind, str(folder / "state"))

        first = tables()
        second = tables() if place.startswith("two ") else first
        self.states = [StoredState(each, lambda: self.now) for each in (first, second)]  # type: ignore[arg-type]
        self.asked = 0
        for state in self.states:
            self._count(state)

    def _count(self, state: StoredState) -> None:
        asking = state._check_fence

        def counted(lease: Lease) -> None:
            self.asked += 1
            asking(lease)

        state._check_fence = counted  # type: ignore[method-assign]

    def take(self, worker: int, ttl: int = 10) -> Lease:
        return self.states[worker].leases.acquire("scope", f"worker-{worker}", ttl)

    def write(self, worker: int, lease: Lease | None, durable: bool = True) -> None:
        with self.states[worker].transaction(lease, switches=SWITCHES, durable=durable) as tx:
            tx.touch()

    def switch(self, worker: int, name: str, to: str, then: Callable[[], None] = lambda: None) -> None:
        state = self.states[worker]
        with state.transaction() as tx:
            move = RefMove(ref=name, before=state.refs.at(name), after=to)
            tx.refs.move(move, run_id="r", op="freeze", actor="a", reason="", ts="t")
            then()


class Undone(Exception):
    pass


def undo() -> None:
    raise Undone


@pytest.fixture(params=PLACES)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return Site(request.param, tmp_path)


def test_nothing_is_asked_again_while_nothing_changed(site: Site) -> None:
    lease = site.take(0)
    for n in range(20):
        site.write(0, lease, durable=n % 3 == 0)
    assert site.asked == 1


def test_a_lease_that_was_taken_over_and_given_back_is_still_not_ours(site: Site) -> None:
    lease = site.take(0)
    site.write(0, lease)
    site.now += 10
    site.states[1].leases.release(site.take(1))
    with pytest.raises(Fenced):
        site.write(0, lease)
    with pytest.raises(Fenced):
        site.write(0, lease)


def test_a_takeover_is_noticed_although_the_change_was_read_before(site: Site) -> None:
    lease = site.take(0)
    site.write(0, lease)
    site.now += 10
    site.take(1)
    site.states[0].refs.at("switch/global")  # a reading outside a transaction: the connection has seen the change now
    assert site.states[0].leases.of("scope") != lease
    with pytest.raises(Fenced):
        site.write(0, lease)


def test_a_lease_from_a_transaction_that_was_undone_is_none(site: Site) -> None:
    kept: list[Lease] = []
    with pytest.raises(Undone), site.states[0].transaction() as tx:
        kept.append(tx.leases.acquire("scope", "worker-0", 10))
        undo()
    with pytest.raises(Fenced):
        site.write(0, kept[0])
    theirs = site.take(1)
    assert theirs.token == kept[0].token, "a number that was never given out is given out"
    with pytest.raises(Fenced):
        site.write(0, kept[0])
    site.write(1, theirs)


def test_a_takeover_that_was_undone_takes_nothing_over(site: Site) -> None:
    lease = site.take(0)
    site.write(0, lease)
    site.now += 10
    for worker in (0, 1):
        with pytest.raises(Undone), site.states[worker].transaction() as tx:
            tx.leases.acquire("scope", "worker-1", 10)
            undo()
        site.write(0, lease)


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("worker", [0, 1])
def test_a_freeze_is_noticed_and_one_that_was_undone_is_not(site: Site, worker: int, name: str) -> None:
    lease = site.take(0)
    site.write(0, lease)
    with pytest.raises(Undone):
        site.switch(worker, name, "frozen", undo)
    site.write(0, lease)
    site.switch(worker, name, "frozen")
    with pytest.raises(Frozen):
        site.write(0, lease)
    with pytest.raises(Undone):
        site.switch(worker, name, "open", undo)
    with pytest.raises(Frozen):
        site.write(0, lease)
    site.switch(worker, name, "open")
    site.write(0, lease)


def test_other_switches_are_another_question(site: Site) -> None:
    site.switch(0, "switch/dataset/e", "frozen")
    lease = site.take(0)
    site.write(0, lease)
    with pytest.raises(Frozen), site.states[0].transaction(lease, switches=("switch/dataset/e",)):
        pytest.fail("entered while frozen")
    site.write(0, lease)


@pytest.mark.parametrize("kind", STORED)
def test_a_change_that_came_while_we_waited_in_vain_is_noticed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    site = Site(f"two {kind}", tmp_path)
    lease = site.take(0)
    site.write(0, lease)

    def in_vain() -> None:
        with pytest.raises(Busy):
            site.write(0, lease)

    site.switch(1, "switch/global", "frozen", in_vain)
    with pytest.raises(Frozen):
        site.write(0, lease)


@pytest.mark.parametrize("seed", range(4))
def test_in_any_order_of_things_the_answer_is_the_one_a_model_gives(site: Site, seed: int) -> None:
    rng = random.Random(seed)
    owner: dict[int, Lease] = {}  # the last lease each worker got
    current: Lease | None = None
    frozen: dict[str, bool] = dict.fromkeys(SWITCHES, False)
    guarded = refused = 0
    for _ in range(400):
        worker = rng.randrange(2)
        state = site.states[worker]
        dice = rng.random()
        if dice < 0.10:
            site.now += rng.choice((0, 3, 10))
            with contextlib.suppress(Busy):
                current = owner[worker] = site.take(worker)
        elif dice < 0.15 and worker in owner:
            state.leases.release(owner[worker])  # frees it if it is still the current one, and nothing else
        elif dice < 0.20:
            with pytest.raises((Undone, Busy)), state.transaction() as tx:
                tx.leases.acquire("scope", f"worker-{worker}", 10)
                undo()
        elif dice < 0.30:
            name, to = rng.choice(SWITCHES), rng.choice(("frozen", "open", "open"))
            if rng.random() < 0.3:
                with pytest.raises(Undone):
                    site.switch(worker, name, to, undo)
            else:
                site.switch(worker, name, to)
                frozen[name] = to == "frozen"
        elif dice < 0.40:
            state.refs.at(rng.choice(SWITCHES))
        elif dice < 0.45:
            site.write(worker, None) if not any(frozen.values()) else state.sync()
        elif worker in owner:
            guarded += 1
            lease = owner[worker]
            expected = Fenced if lease != current else Frozen if any(frozen.values()) else None
            if expected is None:
                site.write(worker, lease, durable=rng.random() < 0.2)
            else:
                refused += 1
                with pytest.raises(expected):
                    site.write(worker, lease)
    assert guarded > 100 and 10 < refused < guarded
    assert site.asked < guarded, "nothing was ever remembered"
