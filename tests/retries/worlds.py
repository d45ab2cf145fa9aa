"""Functions that fail as often as a test wants, and the breakers and budgets of every kind of state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kfm.clock import FixedClock
from kfm.errors import Unavailable
from kfm.retries import BreakerRules, BudgetRules, LocalBreaker, LocalBudget, SharedBreaker, SharedBudget
from kfm.retries.circuit import Passed
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState

DOWN = Unavailable("nobody answers")


class Flaky:
    """Raises these problems one after the other, then returns `ok`."""

    def __init__(self, *problems: BaseException) -> None:
        self.problems = list(problems)
        self.calls = 0

    def __call__(self, *_args: Any, **_kwargs: Any) -> str:
        self.calls += 1
        if self.problems:
            raise self.problems.pop(0)
        return "ok"


class Naps(FixedClock):
    """A clock that stands still but for sleeps, and notes them."""

    def __init__(self) -> None:
        super().__init__(1_000_000)
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.naps.append(round(seconds, 6))
        super().sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


def breakers(rules: BreakerRules, clock: FixedClock) -> Iterator[Any]:
    """A breaker of this process, and one that is shared."""
    yield LocalBreaker("it", rules, clock=clock)
    yield SharedBreaker(StoredState(MemoryTables(), clock.now_ms), "it", rules, who="me")


def budgets(rules: BudgetRules, clock: FixedClock) -> Iterator[Any]:
    yield LocalBudget("it", rules, clock=clock)
    yield SharedBudget(StoredState(MemoryTables(), clock.now_ms), "it", rules, who="me")


def used_up(name: str) -> None:
    """Let the installation of this folder have a breaker with a failure and a budget with a retry."""
    from kfm import config
    from kfm.app.session.session import open_session

    with open_session(config.load(None, os.environ)) as session:
        SharedBreaker(session.state, name, who="me").failed(Passed(), "unavailable")
        SharedBudget(session.state, name, who="me").take("unavailable")


def state_at(folder: Path, now_ms: Callable[[], int], kind: str = "sqlite") -> StoredState:
    from tests.store.backends import open_stored

    return StoredState(open_stored(kind, str(folder / "state")), now_ms)
