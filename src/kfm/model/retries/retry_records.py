"""Circuit breakers and retry budgets as all processes of an installation share them, and the ports that store them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

from kfm.model.records import Record

Circuit = Literal["closed", "open", "half-open"]


class BreakerState(Record, frozen=True):
    """One circuit breaker that is not simply closed: it has failures, or it is open. A closed breaker without failures
    has no row."""

    name: str  # `source/` and the host, or another operation
    state: Circuit
    since_ms: int  # when it came into this state
    failures: int = 0  # in a row, while it is closed
    until_ms: int = 0  # open: when one caller is let through; half-open: when another one is; 0: only by hand
    opened: int = 0  # how often in a row it opened; each time it stays open for longer
    why: str = ""  # the code of the last failure, or the reason that a person gave
    who: str = ""  # the process, or the person
    trial: str = ""  # half-open: the one call that was let through


class BudgetState(Record, frozen=True):
    """The tokens that an operation has left for retries. A budget that was never used has no row: it is full."""

    name: str
    tokens: float
    at_ms: int  # when the tokens were counted
    granted: int = 0  # retries, since the last reset
    since_ms: int = 0  # when it was found empty, or when a person closed it; 0: it grants retries
    closed: bool = False  # a person closed it: no retry until a reset
    why: str = ""  # the code of the last failure that took a token, or the reason that a person gave
    who: str = ""  # the process, or the person


class Breakers(Protocol):
    """The circuit breakers that are not simply closed."""

    def get(self, name: str) -> BreakerState | None: ...

    def all(self) -> Iterator[BreakerState]: ...


class BreakersTx(Breakers, Protocol):
    def keep(self, breaker: BreakerState) -> None: ...

    def forget(self, name: str) -> None: ...


class Budgets(Protocol):
    """The retry budgets that were used."""

    def get(self, name: str) -> BudgetState | None: ...

    def all(self) -> Iterator[BudgetState]: ...


class BudgetsTx(Budgets, Protocol):
    def keep(self, budget: BudgetState) -> None: ...

    def forget(self, name: str) -> None: ...
