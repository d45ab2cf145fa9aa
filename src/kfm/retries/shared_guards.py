"""Breakers and budgets that all processes of an installation share, through its state.

A call that succeeds at once writes nothing: it costs one read. A change is one transaction that reads the row again, so
exactly one process gets the trial of a half-open breaker or the last token of a budget. Its commit survives the death
of the process. It is not synced: a power cut may forget a few failures, which only makes the breaker wait for more.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from kfm.retries.budget import BudgetRules, spent, taken, tokens_at
from kfm.retries.circuit import (
    BreakerRules,
    Passed,
    admitted,
    after_failure,
    after_interrupt,
    after_success,
    refusal,
)

if TYPE_CHECKING:
    from kfm.errors import CircuitOpen
    from kfm.model.ports import State
    from kfm.model.retries.retry_records import BreakerState

Change = Callable[["BreakerState | None", int], "BreakerState | None"]
OnChange = Callable[[str, str, str], None]  # the breaker, its new state, and the code of the failure


def _say_nothing(name: str, state: str, why: str) -> None:
    """Tell nobody of a change."""


class SharedBreaker:
    """A breaker in the state. Its clock is that of the state, so processes on several machines agree."""

    blocks = True

    def __init__(
        self,
        state: State,
        name: str,
        rules: BreakerRules | None = None,
        *,
        who: str = "",
        on_change: OnChange = _say_nothing,
    ) -> None:
        self.name = name
        self.rules = rules or BreakerRules()
        self._state = state
        self._who = who
        self._trials = count(1)
        self._on_change = on_change

    def admit(self) -> Passed:
        breaker = self._state.breakers.get(self.name)
        if breaker is None:
            return _PASSED
        if (problem := refusal(breaker, self._state.now_ms())) is not None:
            raise problem
        if breaker.state == "closed":
            return Passed(noted=True)
        with self._state.transaction(durable=False) as tx:  # another process may be let through meanwhile
            breaker, now = tx.breakers.get(self.name), self._state.now_ms()
            if (problem := refusal(breaker, now)) is not None:
                raise problem
            if breaker is None or breaker.state == "closed":
                return Passed(noted=breaker is not None)
            trial = f"{self._who}#{next(self._trials)}"
            tx.breakers.keep(admitted(breaker, now, self.rules, trial, self._who))
        self._on_change(self.name, "half-open", breaker.why)
        return Passed(trial, noted=True)

    def succeeded(self, passed: Passed) -> None:
        if passed.noted:
            self._change(lambda breaker, _now: after_success(breaker, passed))

    def failed(self, passed: Passed, why: str) -> CircuitOpen | None:
        breaker = self._change(
            lambda breaker, now: after_failure(breaker, self.name, passed, now, self.rules, why, self._who), why
        )
        return refusal(breaker, self._state.now_ms())

    def abandoned(self, passed: Passed) -> None:
        if passed.trial:
            self._change(lambda breaker, now: after_interrupt(breaker, passed, now))

    def _change(
        self, change: Callable[[BreakerState | None, int], BreakerState | None], why: str = ""
    ) -> BreakerState | None:
        with self._state.transaction(durable=False) as tx:
            before = tx.breakers.get(self.name)
            after = change(before, self._state.now_ms())
            if after == before:
                return after
            if after is None:
                tx.breakers.forget(self.name)
            else:
                tx.breakers.keep(after)
        was = "closed" if before is None else before.state
        now = "closed" if after is None else after.state
        if was != now:
            self._on_change(self.name, now, why)
        return after


class SharedBudget:
    """A budget in the state. Successes are counted in memory and written with the next retry of this process; if it is
    killed before, they are lost, and retries become fewer."""

    blocks = True

    def __init__(self, state: State, name: str, rules: BudgetRules | None = None, *, who: str = "") -> None:
        self.name = name
        self.rules = rules or BudgetRules()
        self._state = state
        self._who = who
        self._given = 0.0

    def take(self, why: str) -> None:
        known = self._state.budgets.get(self.name)
        # A budget that was found empty is most likely still empty: then nothing is written.
        if known is not None and known.since_ms and tokens_at(known, self._state.now_ms(), self.rules, self._given) < 1:
            raise spent(known)
        given, self._given = self._given, 0.0
        with self._state.transaction(durable=False) as tx:
            granted, budget = taken(
                tx.budgets.get(self.name), self.name, self._state.now_ms(), self.rules, given, why, self._who
            )
            if not budget.closed:
                tx.budgets.keep(budget)
        if not granted:
            raise spent(budget)

    def give_back(self) -> None:
        self._given = min(self._given + self.rules.ratio, self.rules.tokens)


_PASSED = Passed()
