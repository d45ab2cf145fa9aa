"""Circuit breakers: calls that keep failing are refused at once, and one at a time finds out whether that is over.

A breaker is closed (calls pass), open (all are refused) or half-open (one call is let through; all others are
refused). The rules are pure functions over one record; a breaker in this process and one that all processes share
apply the same.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from kfm.clock import Clock, SystemClock, rfc3339
from kfm.errors import BadInput, CircuitOpen
from kfm.model.retries.retry_records import BreakerState

if TYPE_CHECKING:
    from kfm.retries.policy import Policy


class BreakerRules(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens, and for how long."""

    failures: int = 5  # in a row, of all callers together
    pause_s: float = 30.0  # how long it stays open; doubled each time its trial fails
    longest_s: float = 600.0
    trial_s: float = 60.0  # how long the one caller may take before another one is let through

    def __post_init__(self) -> None:
        if type(self.failures) is not int or self.failures < 1:
            raise BadInput("failures of a breaker is wrong", hint="give a whole number, 1 or more")
        for name in ("pause_s", "longest_s", "trial_s"):
            if not 0 < getattr(self, name) <= 31_536_000:
                raise BadInput(f"{name} of a breaker is wrong", hint="give a number of seconds above 0")

    def pause_ms(self, opened: int) -> int:
        return round(_pauses(self.pause_s, self.longest_s).longest_wait_s(opened) * 1000)


def _pauses(first_s: float, longest_s: float) -> Policy:
    from kfm.retries.policy import Policy

    return Policy(first_s=first_s, longest_s=longest_s, jitter=0)


class Passed(NamedTuple):
    """A call that a breaker let through. `trial` names the one call of a half-open breaker."""

    trial: str = ""
    noted: bool = False  # the breaker has failures: a success clears them


class Breaker(Protocol):
    """Lets calls through, or refuses them with CircuitOpen. It hears how each call ended."""

    @property
    def blocks(self) -> bool:
        """Whether its methods read a disk or a server: asynchronous callers use a thread then."""

    def admit(self) -> Passed: ...

    def succeeded(self, passed: Passed) -> None: ...

    def failed(self, passed: Passed, why: str) -> CircuitOpen | None:
        """Return the refusal of another attempt if the breaker is open now."""

    def abandoned(self, passed: Passed) -> None:
        """The call was interrupted: nothing is known. Another caller may be let through at once."""


def refusal(breaker: BreakerState | None, now_ms: int) -> CircuitOpen | None:
    """Return the error for a call that arrives now; None if it passes, perhaps as the trial."""
    if breaker is None or breaker.state == "closed":
        return None
    if breaker.until_ms:
        # A clock that was set back must not close a way for years: then the breaker counts as due.
        if not breaker.since_ms <= now_ms < breaker.until_ms:
            return None
        when = f"until {rfc3339(breaker.until_ms)}"
    else:
        when = "until it is closed by hand"
    why = f" ({breaker.why})" if breaker.why and breaker.until_ms else ""
    return CircuitOpen(
        f"the circuit breaker {breaker.name} is {breaker.state}{why}, {when}",
        hint="see `kfm breakers`; the call was not made",
    )


def admitted(breaker: BreakerState | None, now_ms: int, rules: BreakerRules, trial: str, who: str) -> BreakerState:
    """Return the half-open breaker whose one trial is this call. The breaker is due: `refusal` returned None."""
    assert breaker is not None
    return msgspec.structs.replace(
        breaker, state="half-open", since_ms=now_ms, until_ms=now_ms + round(rules.trial_s * 1000), trial=trial, who=who
    )


def after_success(breaker: BreakerState | None, passed: Passed) -> BreakerState | None:
    """Return the breaker after a call that succeeded; None: it is closed, without failures. A late success does not
    close a breaker that opened meanwhile."""
    if breaker is None or breaker.state == "closed":
        return None
    return None if passed.trial and passed.trial == breaker.trial else breaker


def after_failure(
    breaker: BreakerState | None, name: str, passed: Passed, now_ms: int, rules: BreakerRules, why: str, who: str
) -> BreakerState:
    """Return the breaker after a call that failed."""
    if breaker is None:
        breaker = BreakerState(name=name, state="closed", since_ms=now_ms)
    if breaker.state == "closed":
        failures = breaker.failures + 1
        if failures < rules.failures:
            return msgspec.structs.replace(breaker, failures=failures, why=why, who=who)
        breaker = msgspec.structs.replace(breaker, failures=failures)
    elif not passed.trial or passed.trial != breaker.trial:
        return breaker  # a late failure of a call that began before
    opened = breaker.opened + 1
    until = now_ms + rules.pause_ms(opened)
    return msgspec.structs.replace(
        breaker, state="open", since_ms=now_ms, until_ms=until, opened=opened, why=why, who=who, trial=""
    )


def after_interrupt(breaker: BreakerState | None, passed: Passed, now_ms: int) -> BreakerState | None:
    """Return the breaker after its trial was interrupted: the next caller is let through."""
    if breaker is None or not passed.trial or passed.trial != breaker.trial:
        return breaker
    return msgspec.structs.replace(breaker, until_ms=now_ms)


class LocalBreaker:
    """A breaker of this process alone."""

    blocks = False

    def __init__(self, name: str, rules: BreakerRules | None = None, *, clock: Clock | None = None) -> None:
        self.name = name
        self.rules = rules or BreakerRules()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._trials = 0
        self.state: BreakerState | None = None  # None: closed, without failures

    def admit(self) -> Passed:
        if self.state is None:  # nearly always
            return _PASSED
        with self._lock:
            breaker, now = self.state, self._clock.now_ms()
            if (problem := refusal(breaker, now)) is not None:
                raise problem
            if breaker is None or breaker.state == "closed":
                return Passed(noted=breaker is not None)
            self._trials += 1
            self.state = admitted(breaker, now, self.rules, f"{self._trials}", "")
            return Passed(f"{self._trials}", noted=True)

    def succeeded(self, passed: Passed) -> None:
        if passed.noted:
            with self._lock:
                self.state = after_success(self.state, passed)

    def failed(self, passed: Passed, why: str) -> CircuitOpen | None:
        with self._lock:
            now = self._clock.now_ms()
            self.state = after_failure(self.state, self.name, passed, now, self.rules, why, "")
            return refusal(self.state, now)

    def abandoned(self, passed: Passed) -> None:
        if passed.trial:
            with self._lock:
                self.state = after_interrupt(self.state, passed, self._clock.now_ms())


_PASSED = Passed()
