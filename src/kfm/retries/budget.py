"""Retry budgets: how many calls of one operation may be repeated, over all of its callers.

A budget is a bucket of tokens. A retry takes one; each call that succeeds gives a part of one back, and time gives some
back, too, so that a rare operation is not without retries for good. Retries can therefore never be more than a share of
the calls. The rules are pure functions over one record; a budget in this process and one that all processes share apply
the same.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec

from kfm.clock import Clock, SystemClock, rfc3339
from kfm.errors import BadInput, BudgetSpent
from kfm.model.retries.retry_records import BudgetState


class BudgetRules(msgspec.Struct, frozen=True, kw_only=True):
    """How many retries a budget grants."""

    tokens: float = 10.0  # a full bucket
    ratio: float = 0.1  # what each success gives back
    per_minute: float = 1.0  # what each minute gives back

    def __post_init__(self) -> None:
        for name, least, most in (("tokens", 1, 1e9), ("ratio", 0, 1), ("per_minute", 0, 1e6)):
            value = getattr(self, name)
            if type(value) not in (int, float) or not least <= value <= most:
                raise BadInput(f"{name} of a budget is wrong", hint=f"give a number from {least} to {most:g}")


class Taken(NamedTuple):
    """What became of a retry that asked for a token."""

    granted: bool
    budget: BudgetState


class Budget(Protocol):
    """Grants retries, or raises BudgetSpent."""

    @property
    def blocks(self) -> bool:
        """Whether `take` reads a disk or a server: asynchronous callers use a thread then."""

    def take(self, why: str) -> None:
        """Take a token for one retry after a failure with this code. Raise BudgetSpent if there is none."""

    def give_back(self) -> None:
        """Note that a call succeeded. This only counts in memory."""


def tokens_at(budget: BudgetState, now_ms: int, rules: BudgetRules, given: float) -> float:
    """Return the tokens now: with what time and successes gave back since they were counted."""
    passed_ms = max(now_ms - budget.at_ms, 0)  # a clock that was set back takes nothing away
    if budget.closed:
        return 0.0
    return round(min(rules.tokens, budget.tokens + given + rules.per_minute * passed_ms / 60_000), 6)


def counted(budget: BudgetState | None, name: str, now_ms: int, rules: BudgetRules, given: float) -> BudgetState:
    """Return the budget with what time and successes gave back since it was last counted."""
    if budget is None:
        return BudgetState(name=name, tokens=rules.tokens, at_ms=now_ms)
    if budget.closed:
        return budget
    return msgspec.structs.replace(budget, tokens=tokens_at(budget, now_ms, rules, given), at_ms=now_ms)


def taken(
    budget: BudgetState | None, name: str, now_ms: int, rules: BudgetRules, given: float, why: str, who: str
) -> Taken:
    """Take a token, if there is one."""
    now = counted(budget, name, now_ms, rules, given)
    if now.closed:
        return Taken(False, now)
    if now.tokens < 1:
        return Taken(False, msgspec.structs.replace(now, since_ms=now.since_ms or now_ms))
    left, granted = round(now.tokens - 1, 6), now.granted + 1
    return Taken(True, msgspec.structs.replace(now, tokens=left, granted=granted, since_ms=0, why=why, who=who))


def spent(budget: BudgetState) -> BudgetSpent:
    """Return the error for a retry that got no token."""
    message, hint = _words(budget.name, budget.closed, budget.who, budget.since_ms)
    return BudgetSpent(message, hint=hint)


@lru_cache(maxsize=64)  # in a storm the same budget is asked thousands of times
def _words(name: str, closed: bool, who: str, since_ms: int) -> tuple[str, str]:
    if closed:
        return (
            f"no retry: the retry budget {name} was closed by {who or 'a person'}",
            f"see `kfm budgets`; `kfm budgets reset {name} --reason …` opens it",
        )
    return (
        f"no retry: the retry budget {name} has been used up since {rfc3339(since_ms)}",
        "successes and time fill it again; see `kfm budgets`",
    )


class LocalBudget:
    """A budget of this process alone."""

    blocks = False

    def __init__(self, name: str, rules: BudgetRules | None = None, *, clock: Clock | None = None) -> None:
        self.name = name
        self.rules = rules or BudgetRules()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._given = 0.0
        self.state: BudgetState | None = None  # None: full

    def take(self, why: str) -> None:
        with self._lock:
            given, self._given = self._given, 0.0
            granted, self.state = taken(self.state, self.name, self._clock.now_ms(), self.rules, given, why, "")
            if not granted:
                raise spent(self.state)

    def give_back(self) -> None:
        if self.state is not None:  # else it is full
            self._given += self.rules.ratio  # without a lock: what two threads lose here only makes retries fewer
