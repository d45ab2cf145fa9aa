"""Processes that race for the trial of a half-open breaker, or spend a budget until they are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from kfm.errors import CircuitOpen, Unavailable
from kfm.retries import BreakerRules, BudgetRules, SharedBreaker, SharedBudget
from kfm.retries.circuit import Passed
from tests.retries.worlds import state_at

RULES = BreakerRules(failures=3, pause_s=30, trial_s=20)
TOKENS = BudgetRules(tokens=100_000, ratio=0, per_minute=0)


def race(me: int, folder: str, kind: str, now: Any, starts: list[Any], answers: Any) -> None:
    """In every round ask for the trial; who gets it says so, and is killed with the call under way."""
    state = state_at(Path(folder), lambda: int(now.value), kind)
    breaker = SharedBreaker(state, "it", RULES, who=f"{me}")
    for number, start in enumerate(starts):
        start.wait()
        try:
            passed = breaker.admit()
        except CircuitOpen:
            answers.send((number, me, False))
        else:
            assert passed.trial
            answers.send((number, me, True))
            os.kill(os.getpid(), signal.SIGKILL)


def spend(folder: str, kind: str, acknowledged: int) -> None:
    """Take tokens, and write a byte for each that was granted, until the process is killed."""
    state = state_at(Path(folder), lambda: 1_000_000, kind)
    budget = SharedBudget(state, "it", TOKENS, who="spender")
    while True:
        budget.take("unavailable")
        os.write(acknowledged, b".")


def break_it(folder: str, kind: str) -> None:
    """Let a call fail until the breaker opens, then die at once."""
    state = state_at(Path(folder), lambda: 1_000_000, kind)
    breaker = SharedBreaker(state, "it", RULES, who="breaker")
    while breaker.failed(Passed(), Unavailable.code) is None:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
