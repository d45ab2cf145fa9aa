"""Ticks: the claimed instants of schedules."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.model.schedules import Tick
from kfm.store.codec import Repository, exact


class Ticks(Repository):
    """Reads the claimed ticks of schedules."""

    def last(self, schedule_id: str) -> Tick | None:
        return next(self.of(schedule_id, limit=1), None)

    def of(self, schedule_id: str, *, limit: int = -1) -> Iterator[Tick]:
        """Yield the ticks of a schedule, newest first."""
        return self._many("ticks", Tick, f"{schedule_id}/", reverse=True, limit=limit)

    def newest(self) -> Tick | None:
        """Return the tick that was claimed last, over all schedules."""
        at = self._state.meta("ticked")
        return self._one("ticks", at, Tick) if at else None


class TicksTx(Ticks):
    """Writes claimed ticks of schedules, inside an open transaction."""

    def keep(self, tick: Tick, *, forget_before_ms: int) -> None:
        """Store a claimed tick and remove old ones, so that the table does not grow; the newest always stays."""
        key = _key(tick)
        self._tables.put("ticks", key, exact(tick))
        self._tables.put("meta", "ticked", key.encode())
        for old in list(self._many("ticks", Tick, f"{tick.schedule_id}/", limit=2)):
            if old.at_ms < min(forget_before_ms, tick.at_ms):
                self._tables.delete("ticks", _key(old))


def _key(tick: Tick) -> str:
    return f"{tick.schedule_id}/{tick.at_ms:014d}"
