"""Work slots: how many jobs of this process compute at a time.

A job is a thread that runs one dataset. It holds a work slot while it computes, and gives it to another job while it
waits for a server or for a slot of a pool. So many sources can be fetched at once, while memory and processors serve
only as many runs as there are work slots.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_here = threading.local()  # the work slots of this thread's job, and whether it holds one


class JobStopped(BaseException):
    """Raised in a job that must end before its run is finished. The run stays resumable."""


class WorkSlots:
    """So many slots, which jobs get in the order in which they ask."""

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._queue: deque[object] = deque()
        self._news = threading.Condition()
        self._stopped = False

    @contextmanager
    def job(self) -> Iterator[None]:
        """Hold a slot of this thread's job while the block runs. JobStopped if the jobs were stopped."""
        _here.slots, _here.holds = self, False
        try:
            self._take()
            yield
        finally:
            self._give()
            _here.slots = None

    @contextmanager
    def idle(self) -> Iterator[None]:
        self._give()
        try:
            yield
        finally:
            self._take()

    def stop(self) -> None:
        """Let every job end with JobStopped when it next asks for a slot or reports progress."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def check(self) -> None:
        """Raise JobStopped if the jobs were stopped."""
        if self._stopped:
            raise JobStopped

    def wait_until_free(self) -> None:
        """Wait until no job computes. A job that waits for a server is not waited for: it has begun nothing."""
        with self._news:
            while self._free < self._slots:
                self._news.wait(0.1)

    def _take(self) -> None:
        ticket = object()
        with self._news:
            self._queue.append(ticket)
            while not self._stopped and not (self._free and self._queue[0] is ticket):
                self._news.wait()
            self._queue.remove(ticket)
            self.check()
            self._free -= 1
            _here.holds = True
            self._news.notify_all()

    def _give(self) -> None:
        if not _here.holds:
            return
        with self._news:
            _here.holds = False
            self._free += 1
            self._news.notify_all()


@contextmanager
def idle() -> Iterator[None]:
    """Give the work slot of this job to another job while the block waits. It has no effect outside a job."""
    slots: WorkSlots | None = getattr(_here, "slots", None)
    if slots is None or not _here.holds:
        yield
        return
    with slots.idle():
        yield
