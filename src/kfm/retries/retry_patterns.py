"""A retried operation as a function, a loop or a decorator, synchronous and asynchronous.

feeds = Retrying(Policy(attempts=5, deadline_s=60), "feeds")

feeds.call(fetch, url)                # a function
await feeds.acall(fetch, url)         # an asynchronous one

for attempt in feeds:                 # a block; `async for` where the waits must not block
    with attempt:
        fetch(url, key=attempt.key)
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kfm.clock import Clock, SystemClock
from kfm.errors import KfmError
from kfm.retries.attempts import Attempt, Course, Observer, _current
from kfm.retries.policy import Policy

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from kfm.retries.budget import Budget
    from kfm.retries.circuit import Breaker

P = ParamSpec("P")
T = TypeVar("T")
_CLOCK = SystemClock()


class Retrying:
    """How one operation is retried: its policy, and who else has a say in it. It may be shared by threads and tasks."""

    def __init__(
        self,
        policy: Policy | None = None,
        operation: str = "a call",
        *,
        breaker: Breaker | None = None,
        budget: Budget | None = None,
        stop: Callable[[], KfmError | None] | None = None,
        observe: Observer | None = None,
        key: str | Callable[[], str] = "",
        clock: Clock = _CLOCK,
        chance: Callable[[], float] = random.random,
        asleep: Callable[[float], Awaitable[Any]] | None = None,
    ) -> None:
        """`stop` returns an error if all work is stopped, such as Frozen: no further attempt begins. `key` is the
        idempotency key, or makes one for each call; without it a random one is made when it is first asked for.
        `chance` gives random numbers from 0 to 1. `asleep` is the wait of asynchronous calls."""
        self.policy = policy or Policy()
        self.operation = operation
        self.breaker = breaker
        self.budget = budget
        self.observe = observe
        self.clock = clock
        self.chance = chance
        self._stop = stop
        self._key = key
        self._asleep = asleep
        self._blocks = any(each is not None and each.blocks for each in (breaker, budget)) or stop is not None

    def with_policy(self, policy: Policy) -> Retrying:
        """Return the same with another policy."""
        other = copy(self)
        other.policy = policy
        return other

    # -- what a course asks

    def halt(self) -> KfmError | None:
        """Return the error that stops all work; None if work goes on."""
        return None if self._stop is None else self._stop()

    def new_key(self) -> str:
        if self._key:
            return self._key if isinstance(self._key, str) else self._key()
        return "".join(f"{int(self.chance() * 2**32) & 0xFFFFFFFF:08x}" for _ in range(4))

    def asked_wait_s(self, problem: BaseException) -> float | None:
        from kfm.retries.http_status import asked_wait_s

        return asked_wait_s(problem, self.clock.now_ms())

    # -- a function

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function until it succeeds, and return its result. Raise its own exception if it is not repeated,
        BudgetSpent or CircuitOpen if that is why, and the error of `stop` if all work is stopped."""
        course = Course(self)
        while True:
            course.begin()
            token = _current.set(course)
            try:
                result = function(*args, **kwargs)
            except Exception as problem:
                wait = course.failed(problem)
                if wait is None:
                    raise
            except BaseException:
                course.interrupted()
                raise
            else:
                course.succeeded()
                return result
            finally:
                _current.reset(token)
            self.clock.sleep(wait)

    async def acall(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do as `call` does for an asynchronous function. A shared breaker or budget is asked in a thread."""
        course = Course(self)
        while True:
            await self._apart(course.begin)
            token = _current.set(course)
            try:
                result = await function(*args, **kwargs)
            except Exception as problem:
                wait = await self._apart(course.failed, problem)
                if wait is None:
                    raise
            except BaseException:
                course.interrupted()
                raise
            else:
                await self._apart(course.succeeded)
                return result
            finally:
                _current.reset(token)
            await self._sleep(wait)

    async def _apart(self, work: Callable[..., T], *args: Any) -> T:
        if not self._blocks:
            return work(*args)
        import asyncio

        return await asyncio.to_thread(work, *args)

    async def _sleep(self, seconds: float) -> None:
        if self._asleep is not None:
            await self._asleep(seconds)
            return
        import asyncio

        await asyncio.sleep(seconds)

    # -- a block

    def __iter__(self) -> Iterator[Block]:
        block = Block(Course(self))
        while block.goes_on:
            if block.wait_s:
                self.clock.sleep(block.wait_s)
            block.course.begin()
            yield block.ready()

    async def __aiter__(self) -> AsyncIterator[Block]:
        block = Block(Course(self))
        while block.goes_on:
            if block.wait_s:
                await self._sleep(block.wait_s)
            await self._apart(block.course.begin)
            yield block.ready()


class Block(Attempt):
    """One attempt of a block, as a context manager. A problem that may pass ends the block, and the loop repeats it."""

    __slots__ = ("_token", "course", "goes_on", "wait_s")

    def __init__(self, course: Course) -> None:
        super().__init__(course)
        self.course = course
        self.goes_on = True
        self.wait_s = 0.0
        self._token: Token[Course | None] | None = None

    def ready(self) -> Block:
        self.goes_on = False  # a loop whose body does not enter the block ends
        return self

    def __enter__(self) -> Block:
        self._token = _current.set(self.course)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._token is not None:
            _current.reset(self._token)
        if problem is None:
            self.course.succeeded()
            return False
        if not isinstance(problem, Exception):
            self.course.interrupted()
            return False
        wait = self.course.failed(problem)
        if wait is None:
            return False
        self.goes_on, self.wait_s = True, wait
        return True
