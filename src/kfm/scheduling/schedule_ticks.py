"""From a schedule to its ticks. Pure, but for the time-zone database.

The rule for daylight saving is that of Debian's cron. A time of the day that the clock skips is made up for right after
the gap; one that comes twice is taken the first time. What repeats within the hour (`*/5 * * * *`, `0 * * * *`) goes by
real time: it does not stop in the repeated hour, and there is nothing to make up for in a gap.
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

MOST = 100_000  # instants that are looked at in one go: at one a minute, ten weeks


class Due(NamedTuple):
    """What a schedule asks for now."""

    at_ms: list[int]  # these instants
    upto_ms: int  # the newest that came, asked for or passed over; 0: none came
    missed: int  # how many are passed over


@lru_cache(maxsize=4096)
def is_cron(text: str) -> bool:
    """Five fields that ever hold: not the 30th of February."""
    if len(text.split()) != 5:
        return False
    try:
        return next(CronSim(text, datetime(2024, 1, 1)), None) is not None
    except (CronSimError, ValueError, OverflowError, AssertionError):
        return False


@lru_cache(maxsize=512)
def zone(name: str) -> ZoneInfo | None:
    """None: there is no such zone. What this machine is set to is none: elsewhere it is another one."""
    if name in ("localtime", "posixrules", "Factory"):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def upcoming(schedule: Schedule, after_ms: int) -> Iterator[int]:
    """Its instants after this one, without end unless it has one. One that is paused has them too."""
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
    """When a tick is acted on: later by what its jitter allows, the same wherever it is worked out."""
    if not schedule.jitter_s:
        return at_ms
    drawn = hashlib.sha256(f"{schedule.id} {at_ms}".encode()).digest()
    return at_ms + int.from_bytes(drawn[:8], "big") % (schedule.jitter_s * 1000 + 1)


def next_ms(schedule: Schedule, after_ms: int) -> int | None:
    """When the first instant after this one is acted on; None: none comes."""
    at_ms = next(upcoming(schedule, after_ms), None)
    return None if at_ms is None else acted_on(schedule, at_ms)


def look_ms(schedule: Schedule, now_ms: int) -> int | None:
    """When it has to be looked at again; None: never. An instant that came before now may be one to act on later."""
    for at_ms in upcoming(schedule, now_ms - schedule.jitter_s * 1000):
        if (then_ms := acted_on(schedule, at_ms)) > now_ms:
            return then_ms
    return None


def due(schedule: Schedule, last_ms: int, now_ms: int, grace_ms: int) -> Due:
    """What came since the instant that was claimed last. What is no older than `grace_ms` was not missed by anybody."""
    found: list[int] = []
    for at_ms in islice(upcoming(schedule, last_ms), MOST):
        if acted_on(schedule, at_ms) > now_ms:
            break
        found.append(at_ms)
    if not found:
        return Due([], 0, 0)
    if len(found) == MOST and schedule.catch_up != "all":  # how many it were nobody needs to know, but which was last
        found.append(_newest(schedule, found[-1], now_ms))
    kept = found
    if schedule.catch_up == "last" or (schedule.catch_up == "none" and found[-1] >= now_ms - grace_ms):
        kept = found[-1:]
    elif schedule.catch_up == "none":
        kept = []
    return Due(kept, found[-1], len(found) - len(kept))


def _newest(schedule: Schedule, after_ms: int, now_ms: int) -> int:
    """The last that has come, looked for from the end."""
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
