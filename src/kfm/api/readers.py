"""Threads that read for requests. Each holds a session of its own, and opens it again when kfm.yml changes or the state
fails.

A session that is open sees the state of each moment: a request reads inside one transaction, so all of its answer is of
one ledger index.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from kfm.app.serving.serve_gate import ServeGate
from kfm.errors import BadInput, KfmError, Unavailable

if TYPE_CHECKING:
    from kfm.app.session.session import Session

T = TypeVar("T")
THREADS = 4
Stamp = tuple[int, int, int]


class Reading:
    """What a thread keeps between requests: its session and what the serve gate remembers."""

    def __init__(self, session: Session, stamp: Stamp) -> None:
        self.session = session
        self.stamp = stamp
        self.gate = ServeGate(session)


class Readers:
    """A pool of reading threads."""

    def __init__(self, opened: Callable[[], Session], config: str, threads: int = THREADS) -> None:
        """`opened` reads kfm.yml, which is at `config`, and opens a session."""
        self._opened = opened
        self._config = config
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")
        self._own = threading.local()
        self._held: list[Reading] = []
        self._holding = threading.Lock()

    async def ask(self, work: Callable[[Reading], T]) -> T:
        """Run `work` in a reading thread and return what it returns."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._work, work)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for reading in self._held:
            reading.session.close()
        self._held.clear()

    def _work(self, work: Callable[[Reading], T]) -> T:
        reading = self._reading()
        try:
            return work(reading)
        except BadInput:
            raise
        except KfmError:
            self._drop(reading)  # the next request opens the state again
            raise

    def _reading(self) -> Reading:
        stamp = stamp_of(self._config)
        known: Reading | None = getattr(self._own, "reading", None)
        if known is not None and known.stamp == stamp:
            return known
        if known is not None:
            self._drop(known)
        try:
            found = Reading(self._opened(), stamp)
        except BadInput as problem:  # a mistake in kfm.yml is not the caller's
            raise Unavailable(problem.message, hint=problem.hint) from problem
        self._own.reading = found
        with self._holding:
            self._held.append(found)
        return found

    def _drop(self, reading: Reading) -> None:
        self._own.reading = None
        with self._holding, suppress(ValueError):
            self._held.remove(reading)
        with suppress(KfmError):
            reading.session.close()


def stamp_of(path: str) -> Stamp:
    """Return what tells whether a file was changed; zeros if it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)
