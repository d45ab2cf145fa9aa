"""One call with all its attempts: which breaker and budget it asks, what it tells, and when it stops."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from kfm.errors import BudgetSpent, CircuitOpen, KfmError
from kfm.retries.circuit import Passed

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.retries.budget import Budget
    from kfm.retries.circuit import Breaker
    from kfm.retries.policy import Policy

Outcome = Literal["succeeded", "retried", "failed", "refused"]
Why = Literal["", "passing", "not-passing", "attempts", "deadline", "budget", "breaker", "frozen", "state"]


class AttemptEvent(NamedTuple):
    """What became of one attempt. It holds no argument, no result and no message: `problem` is the exception itself,
    for an observer that knows what of it may be shown."""

    operation: str
    attempt: int  # from 1
    of: int  # 0: no limit
    outcome: Outcome
    why: Why  # why it is repeated, or why it is not
    wait_s: float  # before the next attempt
    elapsed_s: float  # since the first attempt began
    code: str  # of the problem: the code of an error of KFM, else the name of the class; empty: there is none
    key: str  # the idempotency key; empty if nothing asked for it
    problem: BaseException | None


class Observer(Protocol):
    """Gets one event for every attempt. An observer that raises changes nothing."""

    def __call__(self, event: AttemptEvent, /) -> None: ...


class Conditions(Protocol):
    """What decides about the attempts of a call, and what is told of them."""

    @property
    def policy(self) -> Policy: ...

    @property
    def operation(self) -> str: ...

    @property
    def breaker(self) -> Breaker | None: ...

    @property
    def budget(self) -> Budget | None: ...

    @property
    def observe(self) -> Observer | None: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def chance(self) -> Callable[[], float]: ...

    def halt(self) -> KfmError | None:
        """Return the error that stops all work; None if work goes on."""

    def new_key(self) -> str: ...

    def asked_wait_s(self, problem: BaseException) -> float | None: ...


class Attempt:
    """The attempt under way, as the called function sees it."""

    __slots__ = ("_course",)

    def __init__(self, course: Course) -> None:
        self._course = course

    @property
    def number(self) -> int:
        return self._course.attempt

    @property
    def of(self) -> int:
        """The most attempts; 0: no limit."""
        return self._course.retrying.policy.attempts

    @property
    def key(self) -> str:
        """The idempotency key: the same in all attempts of this call, another one in every other call."""
        return self._course.key

    @property
    def left_s(self) -> float | None:
        """The seconds until the deadline of the call; None if it has none."""
        return self._course.left_s


_current: ContextVar[Course | None] = ContextVar("kfm.retries", default=None)


def current_attempt() -> Attempt | None:
    """Return the innermost attempt under way; None if no retry surrounds the caller."""
    course = _current.get()
    return None if course is None else Attempt(course)


def code_of(problem: BaseException) -> str:
    return problem.code if isinstance(problem, KfmError) else type(problem).__name__


class Course:
    """The attempts of one call. `begin` comes before each of them, and one of `succeeded`, `failed` and `interrupted`
    after it."""

    __slots__ = ("_begun", "_key", "_passed", "attempt", "retrying")

    def __init__(self, retrying: Conditions) -> None:
        self.retrying = retrying
        self.attempt = 0
        self._key = ""
        self._passed: Passed | None = None
        # One reading of the clock for each call, and none where nothing asks how long it took.
        timed = retrying.policy.deadline_s is not None or retrying.observe is not None
        self._begun = retrying.clock.monotonic() if timed else None

    @property
    def key(self) -> str:
        if not self._key:
            self._key = self.retrying.new_key()
        return self._key

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self._begun is None else self.retrying.clock.monotonic() - self._begun

    @property
    def left_s(self) -> float | None:
        deadline = self.retrying.policy.deadline_s
        return None if deadline is None else max(deadline - self.elapsed_s, 0.0)

    def begin(self) -> None:
        """Count the next attempt. Raise CircuitOpen if the breaker refuses it, and the error of `stop` if all work is
        stopped. If the state cannot be read, a first attempt goes on, and a second one does not."""
        self.attempt += 1
        retrying = self.retrying
        if self.attempt > 1 and (halt := retrying.halt()) is not None:
            self._tell("refused", "frozen", halt)
            raise halt
        breaker = retrying.breaker
        if breaker is None:
            return
        self._passed = None
        try:
            self._passed = breaker.admit()
        except CircuitOpen as problem:
            self._tell("refused", "breaker", problem)
            raise
        except Exception as problem:
            if self.attempt > 1:
                self._tell("refused", "state", problem)
                raise unreadable(retrying.operation) from problem

    def succeeded(self) -> None:
        retrying = self.retrying
        if self._passed is not None and retrying.breaker is not None:
            with suppress(Exception):  # what succeeded stays so, also if the state cannot be written
                retrying.breaker.succeeded(self._passed)
        if retrying.budget is not None:
            retrying.budget.give_back()
        if retrying.observe is not None:
            self._tell("succeeded", "", None)

    def failed(self, problem: BaseException) -> float | None:
        """Return the wait before the next attempt, or None if the problem itself is the answer. Raise another error if
        the next attempt is refused."""
        retrying, policy = self.retrying, self.retrying.policy
        passing = policy.is_passing(problem)
        is_kept, opened = self._note_end(problem, passing)
        why: Why = ""
        wait = 0.0
        if not passing:
            why = "not-passing"
        elif policy.attempts and self.attempt >= policy.attempts:
            why = "attempts"
        else:
            wait = policy.wait_s(self.attempt, retrying.chance(), retrying.asked_wait_s(problem))
            left = self.left_s
            if left is not None and wait >= left:
                why = "deadline"
        if why:
            self._tell("failed", why, problem)
            return None
        if (halt := retrying.halt()) is not None:
            self._tell("refused", "frozen", problem)
            raise halt from problem
        if opened is not None:
            self._tell("refused", "breaker", problem)
            raise refused_after(opened, problem) from problem
        if not is_kept:
            self._tell("refused", "state", problem)
            raise unreadable(retrying.operation) from problem
        self._take(problem)
        self._tell("retried", "passing", problem, wait)
        return wait

    def _note_end(self, problem: BaseException, passing: bool) -> tuple[bool, CircuitOpen | None]:
        """Tell the breaker how the attempt ended. Return whether that could be stored, and its refusal if the breaker
        is open now. A problem that will not pass is an answer: the other side is there."""
        breaker, passed = self.retrying.breaker, self._passed
        opened: CircuitOpen | None = None
        if breaker is None:
            return True, None
        try:
            if passing:
                opened = breaker.failed(passed or Passed(), code_of(problem))
            elif passed is not None and passed.noted and not isinstance(problem, (CircuitOpen, BudgetSpent)):
                breaker.succeeded(passed)
        except Exception:
            return False, None
        return passed is not None, opened

    def _take(self, problem: BaseException) -> None:
        budget = self.retrying.budget
        if budget is None:
            return
        try:
            budget.take(code_of(problem))
        except BudgetSpent as refused:
            self._tell("refused", "budget", problem)
            raise refused_after(refused, problem) from problem
        except Exception as broken:
            self._tell("refused", "state", problem)
            raise unreadable(self.retrying.operation) from broken

    def interrupted(self) -> None:
        """The attempt was interrupted from outside, as by Ctrl-C or by the end of an asynchronous task."""
        if self._passed is not None and self._passed.trial and self.retrying.breaker is not None:
            with suppress(Exception):
                self.retrying.breaker.abandoned(self._passed)

    def _tell(self, outcome: Outcome, why: Why, problem: BaseException | None, wait_s: float = 0.0) -> None:
        observe = self.retrying.observe
        if observe is None:
            return
        code = "" if problem is None else code_of(problem)
        operation, of = self.retrying.operation, self.retrying.policy.attempts
        with suppress(Exception):
            observe(
                AttemptEvent(
                    operation, self.attempt, of, outcome, why, wait_s, self.elapsed_s, code, self._key, problem
                )
            )


def refused_after(refused: KfmError, problem: BaseException) -> KfmError:
    """Return the refusal of a retry with what had failed, if that is an error meant for people."""
    if not isinstance(problem, KfmError):
        return refused
    told = type(refused)(
        f"{problem.message}; {refused.message}",
        hint=refused.hint,
        discreet=f"{problem.discreet or problem.message}; {refused.message}",
    )
    told.fields = problem.fields
    return told


def unreadable(operation: str) -> BudgetSpent:
    return BudgetSpent(
        f"no retry of {operation}: its shared budget or breaker cannot be read or written",
        hint="check the state (`kfm doctor`); the first attempt was made",
    )


class Counters:
    """An observer that counts attempts by operation and outcome."""

    def __init__(self, then: Callable[[AttemptEvent], None] | None = None) -> None:
        from threading import Lock

        self._lock = Lock()
        self._then = then
        self.counts: dict[tuple[str, Outcome], int] = {}

    def __call__(self, event: AttemptEvent, /) -> None:
        with self._lock:
            place = event.operation, event.outcome
            self.counts[place] = self.counts.get(place, 0) + 1
        if self._then is not None:
            self._then(event)

    def of(self, operation: str) -> dict[Outcome, int]:
        return {outcome: n for (name, outcome), n in self.counts.items() if name == operation}
