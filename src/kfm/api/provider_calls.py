"""Calls to the sign-in provider, in threads of their own: however slow it is, what is read for others does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from kfm.api.problems import HttpProblem
from kfm.app.sign_in.sign_ins import PREFIX, SignIns

T = TypeVar("T")
THREADS = 8
MOST_WAITING = 24
SECONDS = 20.0  # after which a caller is told that the provider takes too long
_BUSY = "the sign-in provider takes too long; try again in a moment"


class ProviderCalls:
    """Asks the provider for one server. At most so many calls wait for a thread; further ones are refused."""

    def __init__(self, sign_ins: SignIns) -> None:
        self._sign_ins = sign_ins
        self._pool: ThreadPoolExecutor | None = None  # made when it is first needed
        self._waiting = 0
        self._confirming: dict[str, asyncio.Future[None]] = {}

    async def ask(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread and return what it returns. HttpProblem 503 if too many wait, or for too long."""
        if self._waiting >= MOST_WAITING:
            raise HttpProblem(503, _BUSY)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="provider")
        self._waiting += 1
        asked = asyncio.get_running_loop().run_in_executor(self._pool, work)
        asked.add_done_callback(self._answered)
        try:
            async with asyncio.timeout(SECONDS):
                return await asyncio.shield(asked)
        except TimeoutError:
            raise HttpProblem(503, _BUSY) from None

    async def confirm(self, credential: str) -> None:
        """Return when the provider has said whether the session of this name still holds; it may have ended then. All
        requests of one session ask once. Unavailable if the provider does not say."""
        if not credential.startswith(PREFIX) or self._sign_ins.is_believed(credential):
            return
        known = self._confirming.get(credential)
        if known is None:
            known = asyncio.ensure_future(self.ask(partial(self._sign_ins.confirm, credential)))
            self._confirming[credential] = known
            known.add_done_callback(partial(self._done, credential))
        await asyncio.shield(known)

    def _answered(self, asked: asyncio.Future[T]) -> None:
        self._waiting -= 1
        if not asked.cancelled():
            asked.exception()  # somebody who asked may have left

    def _done(self, credential: str, known: asyncio.Future[None]) -> None:
        self._confirming.pop(credential, None)
        if not known.cancelled():
            known.exception()  # somebody who asked may have left

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
