"""The metrics of an installation over HTTP: one thread collects them, and everybody who asks meanwhile gets the same.

So a request costs a look at most once a second, whoever asks and however often. Without an answer in time, or while the
state does not answer, a request is told to come again: an old number would look like a new one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from queue import SimpleQueue

from kfm.app.maintenance.metrics import Metrics
from kfm.app.session.session import Session
from kfm.clock import SystemClock

SECONDS_KEPT = 1.0
SECONDS_TO_ANSWER = 25.0
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
Answer = Callable[[bytes | None], None]


class MetricsCollector(threading.Thread):
    """Collects the metrics when somebody asks. It alone holds its session, and opens it again after a failure."""

    def __init__(self, opened: Callable[[], Session]) -> None:
        super().__init__(name="metrics", daemon=True)
        self._opened = opened
        self._clock = SystemClock()
        self._asked: SimpleQueue[Answer | None] = SimpleQueue()

    async def text(self) -> bytes | None:
        """Return the metrics in the Prometheus text format; None if they cannot be collected now."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bytes | None] = loop.create_future()

        def settle(body: bytes | None) -> None:
            if not waiting.done():  # the client hung up
                waiting.set_result(body)

        def answer(body: bytes | None) -> None:
            loop.call_soon_threadsafe(settle, body)

        self._asked.put(answer)
        try:
            return await asyncio.wait_for(waiting, SECONDS_TO_ANSWER)
        except TimeoutError:
            return None

    def close(self) -> None:
        self._asked.put(None)
        self.join()

    def run(self) -> None:
        body: bytes | None = None
        taken = float("-inf")
        with ExitStack() as opened:
            source: Metrics | None = None
            while (answer := self._asked.get()) is not None:
                if body is None or self._clock.monotonic() - taken >= SECONDS_KEPT:
                    try:
                        if source is None:
                            source = Metrics(opened.enter_context(self._opened()))
                        body = source.text().encode()
                    except Exception:  # whatever fails: every request gets an answer, and the next look begins anew
                        body, source = None, None
                        opened.close()
                    taken = self._clock.monotonic()
                try:
                    answer(body)
                except RuntimeError:  # the server has ended meanwhile
                    return
