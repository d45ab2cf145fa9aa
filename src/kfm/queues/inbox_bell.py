"""The bell of an installation without a broker: nobody is woken, and workers look into the inbox again and again."""

from __future__ import annotations

from collections.abc import Iterable

from kfm.clock import Clock


class InboxBell:
    """Implements the Bell port without a broker."""

    discarded = 0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def ring(self, trigger_ids: Iterable[str]) -> None:
        """Do nothing: the next look into the inbox finds the triggers."""

    def wait(self, timeout_s: float) -> set[str]:
        self._clock.sleep(timeout_s)
        return set()

    def depth(self) -> int:
        return 0

    def try_out(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""
