"""What servers accepted and `kfm up` carries out: operations, and signatures under change requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kfm.app.runs.requested_work import carry_out_trigger
from kfm.errors import Broken, Busy, KfmError
from kfm.model.operation_target import is_requested

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Receipt

LATER_S = 1.0  # until the next attempt after a failure, doubled each time
MOST_LATER_S = 300.0


class RequestedActs:
    """Carries out, oldest first, what waits in the inbox. It keeps nothing that may not be lost."""

    def __init__(
        self,
        session: Session,
        datasets: Sequence[str],
        tell: Callable[[str, KfmError], None],
        *,
        goes_on: Callable[[], bool] = lambda: True,
        alone: threading.Lock | None = None,
    ) -> None:
        """`alone` is shared by all that do this in one process."""
        self._session = session
        self._left_out = frozenset(session.config.datasets) - frozenset(datasets)
        self._tell = tell
        self._goes_on = goes_on
        self._alone = alone or threading.Lock()
        self._failures: dict[str, tuple[int, float]] = {}  # by trigger: how many, and when to try again

    def turn(self) -> Iterator[Receipt]:
        """Carry out what is ready; yield the receipts."""
        if not self._alone.acquire(blocking=False):
            return
        try:
            yield from self._ready()
        finally:
            self._alone.release()

    def _ready(self) -> Iterator[Receipt]:
        waiting = [each for each in self._session.state.inbox.waiting() if is_requested(each)]
        self._failures = {each.trigger_id: known for each in waiting if (known := self._failures.get(each.trigger_id))}
        for trigger in waiting:
            known = self._failures.get(trigger.trigger_id)
            is_ours = trigger.dataset not in self._left_out
            if not is_ours or (known is not None and self._session.clock.monotonic() < known[1]):
                continue
            if not self._goes_on():
                return
            try:
                for receipt in carry_out_trigger(self._session, trigger):
                    yield receipt
                    if receipt.outcome == "frozen":
                        self._later(trigger.trigger_id)
            except Broken:
                raise
            except Busy:  # another worker has it
                self._later(trigger.trigger_id)
            except KfmError as problem:
                if self._session.state.inbox.kept(trigger) is not None:
                    self._later(trigger.trigger_id)
                self._tell(trigger.dataset, problem)

    def _later(self, trigger_id: str) -> None:
        count = self._failures.get(trigger_id, (0, 0.0))[0] + 1
        pause = min(LATER_S * (1 << min(count - 1, 20)), MOST_LATER_S)
        self._failures[trigger_id] = count, self._session.clock.monotonic() + pause
