"""Retries: back-off, deadlines, circuit breakers and retry budgets, for any Python program.

    from kfm.retries import LocalBreaker, LocalBudget, retry

    @retry(attempts=5, deadline_s=60, breaker=LocalBreaker("feeds"), budget=LocalBudget("feeds"))
    def fetch(url): ...

It needs no installation of KFM. With one, breakers and budgets are in its state, and all processes share them:
SharedBreaker and SharedBudget. The names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kfm.errors import BudgetSpent as BudgetSpent
    from kfm.errors import CircuitOpen as CircuitOpen
    from kfm.retries.attempts import Attempt as Attempt
    from kfm.retries.attempts import AttemptEvent as AttemptEvent
    from kfm.retries.attempts import Counters as Counters
    from kfm.retries.attempts import Observer as Observer
    from kfm.retries.attempts import current_attempt as current_attempt
    from kfm.retries.budget import Budget as Budget
    from kfm.retries.budget import BudgetRules as BudgetRules
    from kfm.retries.budget import LocalBudget as LocalBudget
    from kfm.retries.circuit import Breaker as Breaker
    from kfm.retries.circuit import BreakerRules as BreakerRules
    from kfm.retries.circuit import LocalBreaker as LocalBreaker
    from kfm.retries.decorators import retry as retry
    from kfm.retries.http_status import retry_after_s as retry_after_s
    from kfm.retries.policy import Policy as Policy
    from kfm.retries.retry_patterns import Retrying as Retrying
    from kfm.retries.shared_guards import SharedBreaker as SharedBreaker
    from kfm.retries.shared_guards import SharedBudget as SharedBudget

_MODULES = {
    "attempts": ("Attempt", "AttemptEvent", "Counters", "Observer", "current_attempt"),
    "budget": ("Budget", "BudgetRules", "LocalBudget"),
    "circuit": ("Breaker", "BreakerRules", "LocalBreaker"),
    "decorators": ("retry",),
    "http_status": ("retry_after_s",),
    "retry_patterns": ("Retrying",),
    "policy": ("Policy",),
    "shared_guards": ("SharedBreaker", "SharedBudget"),
}
_PLACES = {name: f"kfm.retries.{module}" for module, names in _MODULES.items() for name in names} | {
    "BudgetSpent": "kfm.errors",
    "CircuitOpen": "kfm.errors",
}
__all__ = [*sorted(_PLACES)]


def __dir__() -> list[str]:
    return sorted(_PLACES)


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'kfm.retries' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
