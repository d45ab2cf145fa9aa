"""Compute the ticks of a schedule. Pure, except for the time-zone database.

Daylight saving follows the rule of Debian's cron. A time of day that the clock skips is taken right after the gap; one
that occurs twice is taken the first time. A schedule that repeats within the hour (`*/5 * * * *`, `0 * * * *`) follows
real time: it goes on in the repeated hour, and a gap leaves nothing to make up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from kfm.model.schedules import Schedule
from kfm.parsing.characters import printable

FIELDS = (("minute", "30"), ("hour", "6"), ("day", "15"), ("month", "3"), ("weekday", "mon or mon-fri"))
MOST = 100_000  # most instants computed at once: at one a minute, ten weeks


class DueTicks(NamedTuple):
    """The instants that a schedule triggers now."""

    at_ms: list[int]  # instants to trigger
    upto_ms: int  # the newest instant that passed, triggered or skipped; 0: none passed
    missed: int  # number of skipped instants


@lru_cache(maxsize=4096)
def is_cron(text: str) -> bool:
    """Say whether a text is a cron expression of five fields that can ever match; the 30th of February never does."""
    if len(text.split()) != 5:
        return False
    try:
        return next(CronSim(text, datetime(2024, 1, 1)), None) is not None
    except (CronSimError, ValueError, OverflowError, AssertionError):
        return False


def cron_mistake(text: str) -> tuple[str, str]:
    """Return what is wrong with a text that is no cron expression (see is_cron), and what to write instead."""
    fields = text.split()
    if "?" in text:
        return (
            "has a ?, which other schedulers write for any day",
            f"write * instead: {printable(text.replace('?', '*'))}",
        )
    if text.strip().lower() == "@reboot":
        return "is not a time", "write when it runs, such as @daily; `kfm up` runs what is late when it starts"
    if len(fields) != len(FIELDS):
        cure = "write @daily, or five fields: minute, hour, day, month, weekday, such as 30 6 * * mon"
        return f"has {len(fields)} fields instead of 5", cure
    for place, (name, example) in enumerate(FIELDS):
        alone = ["*"] * len(FIELDS)
        alone[place] = fields[place]
        if not is_cron(" ".join(alone)):
            article = "an" if name == "hour" else "a"
            return f"has {article} {name} that cannot be read", f"write the {name} like {example}"
    return "is no time that ever comes", "name a day that one of its months has"


@lru_cache(maxsize=512)
def zone(name: str) -> ZoneInfo | None:
    """Return a time zone, or None if it does not exist. Names that mean "this machine's zone" are refused: they differ
    between machines.
    """
    if name in ("localtime", "posixrules", "Factory"):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def upcoming(schedule: Schedule, after_ms: int) -> Iterator[int]:
    """Yield the instants after `after_ms`, without end unless the schedule has one. A paused schedule
    yields them too.
    """
    here = zone(schedule.timezone)
    if not schedule.cron or here is None:
        return
    if schedule.start_ms is not None:
        after_ms = max(after_ms, schedule.start_ms - 1)
    last = after_ms
    for found in CronSim(schedule.cron, datetime.fromtimestamp(after_ms // 1000, here)):
        at_ms = round(found.timestamp()) * 1000
        if schedule.end_ms is not None and at_ms > schedule.end_ms:
            return
        if at_ms > last:
            last = at_ms
            yield at_ms


def acted_on(schedule: Schedule, at_ms: int) -> int:
    """Return when a tick is acted on: its instant plus a jitter that every machine computes alike."""
    if not schedule.jitter_s:
        return at_ms
    drawn = hashlib.sha256(f"{schedule.id} {at_ms}".encode()).digest()
    return at_ms + int.from_bytes(drawn[:8], "big") % (schedule.jitter_s * 1000 + 1)


def next_ms(schedule: Schedule, after_ms: int) -> int | None:
    """Return when the first instant after `after_ms` is acted on; None if there is none."""
    at_ms = next(upcoming(schedule, after_ms), None)
    return None if at_ms is None else acted_on(schedule, at_ms)


def look_ms(schedule: Schedule, now_ms: int) -> int | None:
    """Return when the schedule must be checked again; None: never. With jitter, an instant before now may be acted on
    later.
    """
    for at_ms in upcoming(schedule, now_ms - schedule.jitter_s * 1000):
        if (then_ms := acted_on(schedule, at_ms)) > now_ms:
            return then_ms
    return None


def due(schedule: Schedule, last_ms: int, now_ms: int, grace_ms: int) -> DueTicks:
    """Return the instants of a schedule since the last claimed one that are due now. An instant within `grace_ms` does
    not count as missed."""
    found: list[int] = []
    for at_ms in islice(upcoming(schedule, last_ms), MOST):
        if acted_on(schedule, at_ms) > now_ms:
            break
        found.append(at_ms)
    if not found:
        return DueTicks([], 0, 0)
    if len(found) == MOST and schedule.catch_up != "all":  # only the last instant matters, not how many there were
        found.append(_newest(schedule, found[-1], now_ms))
    kept = found
    if schedule.catch_up == "last" or (schedule.catch_up == "none" and found[-1] >= now_ms - grace_ms):
        kept = found[-1:]
    elif schedule.catch_up == "none":
        kept = []
    return DueTicks(kept, found[-1], len(found) - len(kept))


def _newest(schedule: Schedule, after_ms: int, now_ms: int) -> int:
    """Return the newest instant of a schedule that has passed, searching backward from now."""
    window_ms = 3_600_000
    while True:
        begin_ms = max(now_ms - schedule.jitter_s * 1000 - window_ms, after_ms - 1)
        come = []
        for at_ms in upcoming(schedule, begin_ms):
            if acted_on(schedule, at_ms) > now_ms:
                break
            come.append(at_ms)
        if come or begin_ms < after_ms:
            return come[-1] if come else after_ms
        window_ms *= 24
