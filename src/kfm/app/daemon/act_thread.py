"""The thread of `kfm up` that carries out what was requested while a run is at work.

A freeze must not wait for the run that it stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kfm.app.daemon.requested_acts import RequestedActs
from kfm.app.runs.execution import Outcome, settle
from kfm.errors import KfmError

if TYPE_CHECKING:
    from kfm.app.daemon.daemon_loop import Daemon
    from kfm.app.runs.execution import Undelivered
    from kfm.app.session.session import Session
    from kfm.model.records import Receipt


class ActThread(threading.Thread):
    """Carries out what was requested while a run is at work. It has a session of its own."""

    def __init__(
        self, opened: Callable[[], Session], upkeep: Daemon, datasets: Sequence[str], *, pause_s: float = 0.5
    ) -> None:
        super().__init__(name="acts", daemon=True)
        self._opened = opened
        self._upkeep = upkeep
        self._datasets = datasets
        self._pause_s = pause_s
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        with ExitStack() as stack:
            session: Session | None = None
            acts: RequestedActs | None = None
            while not self._ended.wait(self._pause_s):
                if not self._upkeep.watching.busy or self._upkeep.stands_by:
                    continue
                try:
                    if session is None or acts is None:
                        session = stack.enter_context(self._opened())
                        self._upkeep.lend(session)
                        acts = RequestedActs(session, self._datasets, self._failed, alone=self._upkeep.acting)
                    for receipt in acts.turn():
                        settle(session, Outcome([receipt]), self)
                        name = receipt.dataset or receipt.job_type
                        self._upkeep.add_news(f"{name}: {receipt.job_type} {receipt.status} {receipt.run_id}")
                except KfmError as problem:  # the next round tries again
                    self._upkeep.log.event("request.failed", error=problem)

    def _failed(self, about: str, problem: KfmError) -> None:
        self._upkeep.log.event("request.failed", about=about, error=problem)
        self._upkeep.add_news(f"{about}: {problem}")

    # -- hears of the settlement

    def begins(self, about: str) -> None: ...

    def ended(self, receipt: Receipt) -> None: ...

    def failed(self, about: str, problem: KfmError) -> None:
        self._failed(about, problem)

    def settles(self) -> None: ...

    def undelivered(self, what: Undelivered) -> None:
        self._upkeep.add_news(f"{what.dataset}: {what.message}")
