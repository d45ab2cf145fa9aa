"""Attribute the age of a dataset's data to causes, from the events in the ledger. Pure.

The time since the data were made is cut at every event, and each piece gets one cause. A stronger cause hides a weaker
one: while a dataset is frozen, nothing else counts as the cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from kfm.model.reports.freshness_record import Cause
from kfm.scheduling.schedule_ticks import zone

MINUTE_MS = 60_000
_UNITS = {"m": 1, "h": 60, "d": 1440}
# From the weakest cause to the strongest.
RANKS: tuple[Cause, ...] = (
    "not yet noticed", "upstream late", "source late", "withdrawn", "waiting for review", "failed", "held",
    "waiting", "running", "waiting for a pool", "frozen",
)  # fmt: skip


class EndedRun(NamedTuple):
    """A run of the dataset that ended after its current data were made."""

    at_ms: int
    outcome: str
    published_ms: int | None = None  # when the version that it made was published, or now; None: it made none
    is_withdrawn: bool = False  # that version was taken back since, so the time from then on is due to that


class Spell(NamedTuple):
    """A span of time with one cause."""

    begin_ms: int
    end_ms: int
    cause: Cause


def spells(since_ms: int, now_ms: int, ended: Iterable[EndedRun]) -> list[Spell]:
    """Return the causes that ended runs give for the time between them. A check that found nothing new means that the
    source was late until then; a failure or a quarantine lasts until the next run.
    """
    found: list[Spell] = []
    last, state = since_ms, "not yet noticed"
    for run in sorted(ended, key=lambda run: run.at_ms):
        if run.published_ms is not None:
            found.append(Spell(run.at_ms, run.published_ms, "waiting for review"))
            if run.is_withdrawn:
                found.append(Spell(run.published_ms, now_ms, "withdrawn"))
        cause: Cause = "source late" if run.outcome == "noop" and state == "not yet noticed" else _named(state)
        found.append(Spell(last, run.at_ms, cause))
        last = run.at_ms
        if run.outcome in ("held", "failed", "denied", "escalated", "cancelled"):
            state = "held" if run.outcome == "held" else "failed"
        elif run.outcome != "frozen" and not (run.outcome == "noop" and state != "not yet noticed"):
            state = "not yet noticed"
    found.append(Spell(last, now_ms, _named(state)))
    return found


def _named(state: str) -> Cause:
    return "held" if state == "held" else "failed" if state == "failed" else "not yet noticed"


def blame(since_ms: int, now_ms: int, told: Sequence[Spell]) -> dict[str, int]:
    """Return minutes by cause, which add up to the whole time. Each piece goes to the strongest cause that
    covers it.
    """
    cuts = sorted({since_ms, now_ms, *(at for spell in told for at in spell[:2] if since_ms < at < now_ms)})
    owed: dict[str, int] = {}
    for begin, end in pairwise(cuts):
        covering = [RANKS.index(spell.cause) for spell in told if spell.begin_ms <= begin and end <= spell.end_ms]
        cause = RANKS[max(covering, default=0)]
        owed[cause] = owed.get(cause, 0) + end - begin
    return _in_minutes(owed, (now_ms - since_ms) // MINUTE_MS)


def _in_minutes(owed: dict[str, int], whole: int) -> dict[str, int]:
    """Round to whole minutes that add up to `whole`: the causes with the largest remainders are rounded up."""
    minutes = {cause: ms // MINUTE_MS for cause, ms in owed.items()}
    by_rest = sorted(owed, key=lambda cause: -(owed[cause] % MINUTE_MS))
    for cause in by_rest[: whole - sum(minutes.values())]:
        minutes[cause] += 1
    return {cause: n for cause, n in sorted(minutes.items(), key=lambda item: -item[1]) if n}


def length_ms(text: str) -> int | None:
    """Return the milliseconds of a text such as 90m, 26h or 3d; None for any other text."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit() and 0 < int(number) <= 100_000):
        return None
    return int(number) * _UNITS[unit] * MINUTE_MS


def deadline_ms(by: str, now_ms: int) -> tuple[int, int] | None:
    """Parse `07:00 America/Chicago`: return the start of the last day whose hour has passed, and that hour. None for
    any other text.
    """
    time, _, name = by.partition(" ")
    hour, colon, minute = time.partition(":")
    here = zone(name) if name else None
    if here is None or not (colon and hour.isdigit() and minute.isdigit() and int(hour) < 24 and int(minute) < 60):
        return None
    now = datetime.fromtimestamp(now_ms / 1000, here)
    for back in range(3):
        day = now.date() - timedelta(days=back)
        due = datetime(day.year, day.month, day.day, int(hour), int(minute), tzinfo=here)
        if due.timestamp() * 1000 <= now_ms:
            begin = datetime(day.year, day.month, day.day, tzinfo=here)
            return round(begin.timestamp() * 1000), round(due.timestamp() * 1000)
    return None
