"""When a failed call is repeated, how often, and after which wait: the one arithmetic of all retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kfm.errors import BadInput, Broken, BudgetSpent, CircuitOpen, Conflict, KfmError, Unavailable

# Another attempt would not help (Broken, Conflict), or would undo the protection (CircuitOpen, BudgetSpent): a retry
# around a retry repeats none of them.
NEVER = (Broken, Conflict, CircuitOpen, BudgetSpent)
PASSING = (Unavailable, ConnectionError, TimeoutError)
STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
MOST_ATTEMPTS = 1_000_000
LONGEST_S = 31_536_000.0  # a year: no wait and no deadline is longer

Kinds = tuple[type[BaseException], ...]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How one operation is retried.

    The longest wait after failure n is `first_s * factor ** (n - 1)`, at most `longest_s`. `jitter` is the share of it
    that is random: 1 (full jitter) spreads callers that failed together best; 0 repeats at fixed times.
    """

    attempts: int = 3  # in all, the first one included; 0: no limit
    deadline_s: float | None = None  # no attempt begins later than this after the first one began
    first_s: float = 0.5
    longest_s: float = 60.0
    factor: float = 2.0
    jitter: float = 1.0
    on: Kinds | Callable[[BaseException], bool] = PASSING  # the exceptions that may be gone at the next attempt
    never: Kinds = ()  # exceptions that are not repeated, whatever `on` and `statuses` say
    # An exception with an HTTP status is repeated for these statuses only; None: its class alone decides.
    statuses: frozenset[int] | None = STATUSES

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 0 <= self.attempts <= MOST_ATTEMPTS:
            raise _wrong("attempts", f"a whole number from 0 (no limit) to {MOST_ATTEMPTS}")
        for name in ("first_s", "longest_s"):
            if not _is_number(getattr(self, name), 0, LONGEST_S):
                raise _wrong(name, "a number of seconds, 0 or more")
        if self.deadline_s is not None and not _is_number(self.deadline_s, 0, LONGEST_S):
            raise _wrong("deadline_s", "a number of seconds, 0 or more, or None")
        if not _is_number(self.factor, 1, 1000):
            raise _wrong("factor", "a number from 1 to 1000")
        if not _is_number(self.jitter, 0, 1):
            raise _wrong("jitter", "a number from 0 (fixed waits) to 1 (full jitter)")
        if isinstance(self.on, type) or not (callable(self.on) or _are_kinds(self.on)):
            raise _wrong("on", "a tuple of exceptions, or a function that gets the exception")
        if not _are_kinds(self.never):
            raise _wrong("never", "a tuple of exceptions")
        if self.statuses is not None and not all(type(one) is int and 100 <= one <= 599 for one in self.statuses):
            raise _wrong("statuses", "a set of HTTP statuses, such as frozenset({503})")

    def longest_wait_s(self, failed: int) -> float:
        """Return the longest wait after this many failed attempts, before any randomness."""
        try:
            return min(self.longest_s, self.first_s * self.factor ** (failed - 1))
        except OverflowError:
            return self.longest_s

    def wait_s(self, failed: int, chance: float = 1.0, asked_s: float | None = None) -> float:
        """Return the wait after this many failed attempts. `chance` is a random number from 0 to 1.

        The wait is never shorter than `asked_s`, which the other side asked for with `Retry-After`. Many callers may
        have been asked for the same wait, so the random part comes on top of it.
        """
        longest = self.longest_wait_s(failed)
        own = longest * (1.0 - self.jitter * (1.0 - chance))
        return own if asked_s is None else max(own, asked_s + longest - own)

    def is_passing(self, problem: BaseException) -> bool:
        """Return whether this problem may be gone at the next attempt. Errors of KFM are judged by their class, and
        others that have an HTTP status by that."""
        if isinstance(problem, (*NEVER, *self.never)):
            return False
        if self.statuses is not None and not isinstance(problem, KfmError):
            from kfm.retries.http_status import status_of

            status = status_of(problem)
            if status is not None:
                return status in self.statuses
        if isinstance(self.on, tuple):
            return isinstance(problem, self.on)
        return bool(self.on(problem))


def _is_number(value: Any, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= value <= most  # no NaN: it compares as false


def _are_kinds(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in value)


def _wrong(name: str, what: str) -> BadInput:
    return BadInput(f"{name} of a retry policy is wrong", hint=f"give {what}")
