"""A worker keeps its lease however long a step takes; a stopped worker begins no further step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, SystemClock
from kfm.config import load
from kfm.engine import heartbeat
from kfm.errors import Busy, Frozen
from kfm.model.records import Step
from kfm.model.updater import Output, Plan, Reader
from tests.engine.crowds import STATES, Installation, together
from tests.engine.site_under_test import Lines, MemorySite

LEASE_MS = 600
PATIENCE_S = 60


def wait_for(what: Callable[[], bool]) -> None:
    for _ in range(PATIENCE_S * 100):
        if what():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen")


class Slow:
    """Stands in for perform(): takes several leases' time, and somebody tries to take the work over meanwhile."""

    def __init__(self, clock: FixedClock, session: Session, other: Session) -> None:
        self._clock, self._session, self._other = clock, session, other
        self.refused = 0

    def __call__(self, _step: Step, _read: Reader) -> Output:
        if not self.refused:
            for _ in range(6):
                before = self._expires()
                self._clock.advance(LEASE_MS // 2)
                wait_for(lambda before=before: self._expires() > before)  # type: ignore[misc]
                with pytest.raises(Busy):
                    run_trigger(self._other, new_trigger(self._other, "demo"))
                self.refused += 1
        return Output.text("x")

    def _expires(self) -> int:
        lease = self._other.state.leases.of("parts/demo")
        assert lease is not None
        return lease.expires_ms


def long_run(site: Installation) -> tuple[str, int, list[str]]:
    clock = FixedClock()
    resolved = load(str(site.folder / "kfm.yml"), {})
    with open_session(resolved, clock=clock) as session, open_session(resolved, clock=clock) as other:
        slow = Slow(clock, session, other)
        dataset_updater(session, "demo").perform = slow  # type: ignore[method-assign]
        receipt = run_trigger(session, new_trigger(session, "demo"))
        lease = session.state.leases.of("parts/demo")
        assert lease is not None and lease.expires_ms == 0 and not heartbeat._kept
        run = session.state.runs.get(receipt.run_id)
        assert run is not None and run.attempt == 1
        return receipt.outcome, slow.refused, [entry.outcome for entry in session.state.ledger.entries()]


@pytest.mark.parametrize("state", STATES)
def test_a_step_that_takes_longer_than_the_lease_does_not_lose_it(state: str, place: Path) -> None:
    assert long_run(Installation(place, state, lease_s=LEASE_MS / 1000)) == ("done", 6, ["done"])


def test_so_does_a_process_that_was_forked_from_one_at_work(place: Path) -> None:
    site = Installation(place, "sqlite", lease_s=LEASE_MS / 1000)
    inside, over = threading.Event(), threading.Event()

    class Waiting(Lines):
        def perform(self, step: Step, read: Reader) -> Output:
            inside.set()
            over.wait(PATIENCE_S)
            return super().perform(step, read)

    thread = threading.Thread(target=MemorySite().run, args=(Waiting(),))
    thread.start()
    assert inside.wait(PATIENCE_S)
    try:
        assert together([lambda: long_run(site)]) == [["done", 6, ["done"]]]
    finally:
        over.set()
        thread.join()


def test_the_thread_goes_when_there_is_nothing_to_do(place: Path) -> None:
    site = Installation(place, "sqlite", lease_s=0.06)
    with site.open() as session:
        run_trigger(session, new_trigger(session, "demo"))
    wait_for(lambda: heartbeat._thread is None)
    site.source("other")
    with site.open() as session:
        assert run_trigger(session, new_trigger(session, "demo")).outcome == "done"


def test_a_lease_that_was_given_back_is_not_renewed() -> None:
    site = MemorySite()
    lease = site.state.leases.acquire("scope", "holder", 1000)
    site.state.leases.release(lease)
    with site.state.transaction(lease) as tx:
        tx.leases.renew(lease, 1000)
    assert site.state.leases.acquire("scope", "another", 1000).token > lease.token


def test_a_run_that_was_stopped_begins_no_further_step() -> None:
    site = MemorySite(threads=2, window=8)
    site.world.clock = SystemClock()
    frozen, over = threading.Event(), threading.Event()
    begun: list[str] = []

    class Stopping(Lines):
        def perform(self, step: Step, read: Reader) -> Output:
            begun.append(step.id)
            if step.id == "1":
                site.operate("freeze", dataset="demo", scope="demo")
                frozen.set()
            elif step.id != "0":
                over.wait(PATIENCE_S)
            else:
                time.sleep(0.01)  # long enough to be given to threads
            return super().perform(step, read)

    before: set[Any] = set(threading.enumerate())
    plan = Plan([Step(id=str(n), key=(str(n),)) for n in range(8)])
    with pytest.raises(Frozen, match=r"^demo is frozen; .*`kfm thaw demo --reason …` opens it$"):
        site.run(Stopping(lambda _inputs: plan))
    assert frozen.is_set()
    over.set()
    wait_for(lambda: {t for t in set(threading.enumerate()) - before if t is not heartbeat._thread} == set())
    assert len(begun) <= 4, "the first, the one that froze, and one that each thread had begun"
