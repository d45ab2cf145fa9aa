"""Wakes workers after a commit, and waits to be woken. A broker that fails is never an error: the triggers are in the
state, and workers find them when they next look."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kfm.errors import Denied, KfmError

if TYPE_CHECKING:
    from kfm.clock import Clock
    from kfm.model.ports import Bell, Log
    from kfm.model.records import Trigger

FIRST_S, MOST_S = 1.0, 30.0  # between two attempts to reach a broker that failed


def is_job(trigger: Trigger) -> bool:
    """Return whether workers answer this trigger: not an operation, and not a partition of a backfill, which runs it
    itself."""
    from kfm.model.backfill_plan import PREFIX

    return trigger.kind != "operation" and not trigger.trigger_id.startswith(PREFIX)


class WakeUp:
    """The bell of an installation, opened when it is first needed. It waits longer and longer before it tries a broker
    again that failed, and logs one line when it fails and one when it answers again."""

    def __init__(self, opened: Callable[[], Bell], clock: Clock, log: Log) -> None:
        self._opened = opened
        self._bell: Bell | None = None
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._pause_s = 0.0
        self._until = 0.0  # when to try again
        self._discarded = 0  # by bells that were given up
        self.problem: KfmError | None = None  # why the broker cannot be used now
        self.unrung = 0  # triggers of which no message was sent

    def ring(self, triggers: Sequence[Trigger]) -> None:
        """Wake workers for these triggers. Never raises."""
        ids = [each.trigger_id for each in triggers if is_job(each)]
        if not ids:
            return
        if not self._may():
            self.unrung += len(ids)
            return
        try:
            self._open().ring(ids)
        except KfmError as problem:
            self.unrung += len(ids)
            self._failed(problem)
        else:
            self._answered()

    def wait(self, timeout_s: float) -> set[str]:
        """Return the ids that a message names; empty after this time, or earlier. Never raises, and takes all the time
        if the broker cannot be used."""
        if not self._may():
            self._clock.sleep(timeout_s)
            return set()
        before = self._clock.monotonic()
        try:
            found = self._open().wait(timeout_s)
        except KfmError as problem:
            self._failed(problem)
            self._clock.sleep(max(timeout_s - max(self._clock.monotonic() - before, 0), 0))
            return set()
        self._answered()
        return found

    def messages(self) -> int:
        """Return how many messages wait. Raises what stands against using the broker."""
        return self._open().try_out()

    @property
    def discarded(self) -> int:
        """How many messages were not ours."""
        return self._discarded + (0 if self._bell is None else self._bell.discarded)

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()

    def _open(self) -> Bell:
        with self._lock:
            if self._bell is None:
                self._bell = self._opened()
            return self._bell

    def _may(self) -> bool:
        return self.problem is None or self._clock.monotonic() >= self._until

    def _failed(self, problem: KfmError) -> None:
        if self.problem is None:
            self._log.event("queue.failed", error=problem)
        self.problem = problem
        if isinstance(problem, Denied):
            self._give_up()
        self._pause_s = min(max(2 * self._pause_s, FIRST_S), MOST_S)
        self._until = self._clock.monotonic() + self._pause_s

    def _give_up(self) -> None:
        """Close the bell. The next one reads the password again, which somebody may have corrected."""
        with self._lock:
            bell, self._bell = self._bell, None
            if bell is not None:
                self._discarded += bell.discarded
                bell.close()

    def _answered(self) -> None:
        if self.problem is not None:
            self._log.event("queue.answered")
        self.problem, self._pause_s = None, 0.0
