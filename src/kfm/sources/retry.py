"""Retry a source that is unavailable: refused, reset, silent, cut off, or a status that asks for it (5xx, 429).

The wait doubles each time, with a random part so that clients that failed together do not return together. It is never
shorter than `Retry-After`. All attempts share the total time of the source.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from kfm.errors import KfmError, Unavailable
from kfm.model.ports import Objects, Source
from kfm.model.records import Checkpoint, Fetched, FetchRequest

if TYPE_CHECKING:
    from kfm.clock import Clock

FIRST_S = 0.5
LONGEST_S = 60.0

OnRetry = Callable[[str, int, int, KfmError], None]  # source name, number of the failed attempt, wait in ms, error


class RetrySource:
    def __init__(
        self, source: Source, retries: int, clock: Clock, tell: OnRetry, *, chance: Callable[[], float] = random.random
    ) -> None:
        self._source = source
        self._retries = retries
        self._clock = clock
        self._tell = tell
        self._chance = chance

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        from msgspec.structs import replace

        deadline = self._clock.monotonic() + request.total_ms / 1000
        attempt = 1
        while True:
            try:
                return self._source.fetch(request, known, objects)
            except Unavailable as problem:
                wait = self._wait(attempt, problem)
                left = deadline - self._clock.monotonic() - wait
                if attempt > self._retries or left <= 0:
                    raise
                self._tell(request.name, attempt, round(wait * 1000), problem)
            self._clock.sleep(wait)
            attempt += 1
            request = replace(request, total_ms=max(1, round(left * 1000)))

    def _wait(self, attempt: int, problem: Unavailable) -> float:
        asked = problem.fields.get("retry_after_s")
        own = min(LONGEST_S, FIRST_S * float(2 ** (attempt - 1))) * (0.5 + self._chance() / 2)
        return max(own, float(asked) if isinstance(asked, int) else 0.0)
