"""Good and bad events of objectives, folded from the ledger one entry at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from kfm.model.reports.objective import LONGEST_MS, Objective

if TYPE_CHECKING:
    from kfm.model.records import LedgerEntry, RunTelemetry
    from kfm.projections.operation_counts import EntryFacts

MINUTE_MS = 60_000
GOOD = ("done", "noop", "unchanged")
BAD = ("failed", "held", "denied", "escalated", "abandoned")  # a cancelled or frozen run says nothing
_KEPT = LONGEST_MS // MINUTE_MS + 1
_PRUNED_AT = 3 * _KEPT


class Events(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The events of one objective: all of them, and those of the longest window by minute."""

    good: int = 0
    bad: int = 0
    minutes: dict[int, tuple[int, int]] = {}  # good and bad ones that ended in this minute since 1970

    def add(self, at_ms: int, *, good: bool) -> None:
        self.good, self.bad = self.good + good, self.bad + (not good)
        minute = at_ms // MINUTE_MS
        was = self.minutes.get(minute, (0, 0))
        self.minutes[minute] = (was[0] + good, was[1] + (not good))
        if len(self.minutes) > _PRUNED_AT:
            newest = max(self.minutes)
            self.minutes = {each: counts for each, counts in self.minutes.items() if each > newest - _KEPT}

    def between(self, begin_ms: int, end_ms: int) -> tuple[int, int]:
        """Return how many good and bad events ended in this time, in whole minutes."""
        first, last = begin_ms // MINUTE_MS, end_ms // MINUTE_MS
        good = bad = 0
        for minute, (well, badly) in self.minutes.items():
            if first < minute <= last:
                good, bad = good + well, bad + badly
        return good, bad


class BudgetCounts(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The events of all objectives up to one entry of the ledger."""

    index: int = 0
    link: str = ""  # the digest of that entry, as stored
    objectives: tuple[Objective, ...] = ()  # those that are counted; with others all is counted again
    events: dict[str, Events] = {}

    def add(self, entry: LedgerEntry, telemetry: RunTelemetry | None, facts: EntryFacts) -> None:
        """Count the next entry, if it is an event of an objective. A run of a branch preview is none."""
        known: bool | None = None
        for objective in self.objectives:
            if not objective.counts_events or not objective.covers(entry.dataset):
                continue
            good = judged(objective, entry, telemetry)
            if good is None:
                continue
            if known is None:
                known = facts.is_preview()
            if known:
                return
            found = self.events.get(objective.name)
            if found is None:
                found = self.events[objective.name] = Events()
            found.add(facts.at_ms(), good=good)

    def of(self, name: str) -> Events:
        return self.events.get(name) or Events()


def judged(objective: Objective, entry: LedgerEntry, telemetry: RunTelemetry | None) -> bool | None:
    """Return whether an entry is a good event of an objective; None if it is none of its events."""
    if entry.op_type != ("rollback" if objective.indicator == "rollback_time" else "ingest"):
        return None
    if objective.indicator == "success":
        return True if entry.outcome in GOOD else False if entry.outcome in BAD else None
    if entry.outcome not in GOOD or telemetry is None:
        return None
    return telemetry.latency_ms <= objective.limit_ms


def counted(objectives: Iterable[Objective]) -> tuple[Objective, ...]:
    """Return the objectives whose events are counted, without what does not change a count."""
    return tuple(
        msgspec.structs.replace(each, title="", place="", target=0.5, window_ms=0)
        for each in objectives
        if each.counts_events
    )
