"""Sends notices next to the loop of `kfm up`, so that a receiver that is slow or down delays no run, no sink and no
other receiver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from kfm.app.metadata.notice_sinks import report_notices
from kfm.app.runs.state_watch import watch_states
from kfm.clock import SystemClock
from kfm.config.config_file import notice_sink
from kfm.delivery.followers import progress
from kfm.errors import KfmError

if TYPE_CHECKING:
    from kfm.app.session.session import Session

STOP_S = 5.0  # longest wait for a receiver at the end
SETTLE_S = 10.0  # between two looks although nothing was committed: a dataset may be late, a receiver may answer again


class NoticeThread(threading.Thread):
    """Looks at the ledger every second and sends to one receiver what is pending. It has a session of its own. When it
    ends it sends once more."""

    def __init__(
        self,
        receiver: str,
        opened: Callable[[], Session],
        stands_by: Callable[[], bool],
        tell: Callable[[str], None],
        *,
        pause_s: float = 1.0,
    ) -> None:
        """`stands_by` says whether another process leads, which then sends; `tell` receives each new problem."""
        super().__init__(name=notice_sink(receiver), daemon=True)
        self._receiver = receiver
        self._opened = opened
        self._stands_by = stands_by
        self._tell = tell
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._session: Session | None = None
        self._newest = -1
        self._looked_at = 0.0
        self._said: set[str] = set()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ended.wait(self._pause_s)
            if self._stands_by():
                continue
            try:
                if self._session is None:
                    self._session = self._opened()
                self._look(self._session, is_last=is_last)
            except KfmError as problem:  # the state does not answer, for example: the next look opens it again
                self._report([problem])
                self._close()
        self._close()

    def _look(self, session: Session, *, is_last: bool) -> None:
        newest = next((entry.index for entry in session.state.ledger.entries(reverse=True, limit=1)), 0)
        now = session.clock.monotonic()
        if newest == self._newest and 0 <= now - self._looked_at < SETTLE_S and not is_last:
            return
        self._newest, self._looked_at = newest, now
        unjudged = watch_states(session)
        self._report([*unjudged, *report_notices(session, [], self._receiver)])
        now_at = progress(session.state, self.name)
        if now_at.stopped is None and now_at.lag > now_at.waiting:
            self._newest = -1  # a slow receiver gets the rest in the next pass

    def _report(self, problems: list[KfmError]) -> None:
        """Report each problem once, until it is over."""
        found = {problem.message: str(problem) for problem in problems}
        for message, line in found.items():
            if message not in self._said:
                self._tell(line)
        self._said = set(found)

    def _close(self) -> None:
        if self._session is not None:
            with suppress(KfmError):
                self._session.close()
            self._session = None


def end_all(threads: Collection[NoticeThread]) -> None:
    """Let these threads end and wait for them, `STOP_S` seconds in all: what is not sent by then, the next process
    sends."""
    for thread in threads:
        thread.end()
    clock = SystemClock()
    until = clock.monotonic() + STOP_S
    for thread in threads:
        thread.join(max(until - clock.monotonic(), 0))
