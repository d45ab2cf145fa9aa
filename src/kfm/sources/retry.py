"""Retry a source that is unavailable: refused, reset, silent, cut off, or a status that asks for it (5xx, 429).

The wait has full jitter, so that clients that failed together do not return together, and is never shorter than
`Retry-After`. All attempts share the total time of the source.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from kfm.errors import KfmError, Unavailable
from kfm.model.ports import Objects, Source
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.retries.attempts import AttemptEvent, current_attempt
from kfm.retries.policy import Policy
from kfm.retries.retry_patterns import Retrying

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.retries.budget import Budget
    from kfm.retries.circuit import Breaker

OnRetry = Callable[[str, int, int, KfmError], None]  # source name, number of the failed attempt, wait in ms, error


class RetrySource:
    def __init__(
        self,
        source: Source,
        retries: int,
        clock: Clock,
        tell: OnRetry,
        *,
        chance: Callable[[], float] = random.random,
        breaker: Breaker | None = None,
        budget: Budget | None = None,
        stop: Callable[[], KfmError | None] | None = None,
    ) -> None:
        self._source = source
        self._retries = retries
        self._clock = clock
        self._tell = tell
        self._chance = chance
        self._breaker = breaker
        self._budget = budget
        self._stop = stop

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        from msgspec.structs import replace

        def fetched() -> Fetched:
            attempt = current_attempt()
            assert attempt is not None and attempt.left_s is not None
            left_ms = max(1, round(attempt.left_s * 1000))
            asked = request if attempt.number == 1 else replace(request, total_ms=left_ms)
            return self._source.fetch(asked, known, objects)

        def observe(event: AttemptEvent) -> None:
            if event.outcome == "retried" and isinstance(event.problem, KfmError):
                self._tell(request.name, event.attempt, round(event.wait_s * 1000), event.problem)

        policy = Policy(attempts=self._retries + 1, deadline_s=request.total_ms / 1000, on=(Unavailable,))
        return Retrying(
            policy,
            request.name or "a source",
            breaker=self._breaker,
            budget=self._budget,
            stop=self._stop,
            observe=observe,
            clock=self._clock,
            chance=self._chance,
        ).call(fetched)
