"""Looks into the queue again and again while jobs run, so that probes and Prometheus need not wait for the state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kfm.errors import KfmError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kfm.app.daemon.worker_health import QueueLook
    from kfm.clock import Clock

SHARE = 10  # a long queue takes long to read: it is looked at for at most a tenth of the time


class Sampler:
    """A thread with a session of its own. `last` is what it saw last; None if the state does not answer."""

    def __init__(self, look: Callable[[], QueueLook], seconds: float, clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._seconds = seconds
        self._ended = threading.Event()
        self.last: QueueLook | None = None
        self.problem: KfmError | None = None

    def sample(self) -> float:
        """Look once; return how long that took."""
        began = self._clock.monotonic()
        try:
            self.last, self.problem = self._look(), None
        except KfmError as problem:
            self.last, self.problem = None, problem
        return self._clock.monotonic() - began

    @contextmanager
    def sampling(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(1)  # a state that does not answer may keep it longer

    def _run(self) -> None:
        took = self.sample()
        while not self._ended.wait(max(self._seconds, SHARE * took)):
            took = self.sample()
