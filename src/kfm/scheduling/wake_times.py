"""Compute when an outside clock has to start `kfm up --once`, so that no tick waits. Pure, except for the time-zone
database.

Outside clocks know UTC and cron, so a local time with daylight saving becomes two UTC times. A start too many does no
harm: KFM itself decides what is due and claims it once. So where a day or month would have to shift, every day is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from cronsim import CronSim

from kfm.model.schedules import Schedule
from kfm.scheduling.schedule_ticks import zone

MOST = 8  # most lines; more become one line that starts more often
DAY = 24 * 60  # minutes
EVERY = (frozenset(range(60)), frozenset(range(24)), frozenset(range(1, 32)), frozenset(range(1, 13)))
WEEK = frozenset(range(7))  # from Sunday

Field = frozenset[int]


class Wake(NamedTuple):
    """A cron line in UTC. At most one of days and weekdays is restricted, because cron programs combine the two
    differently.
    """

    minutes: Field
    hours: Field
    days: Field = EVERY[2]
    months: Field = EVERY[3]
    weekdays: Field = WEEK

    def cron(self) -> str:
        fields = (*zip(self[:4], EVERY, strict=True), (self.weekdays, WEEK))
        return " ".join(_text(chosen, every) for chosen, every in fields)


def wakes(schedules: Iterable[Schedule], besides: Sequence[str] = ()) -> list[Wake]:
    """Return the UTC cron lines at which an outside clock must start KFM, for all schedules with a cron expression and
    for the `besides` lines; at most MOST lines."""
    found: set[Wake] = set()
    for schedule in schedules:
        if schedule.cron and not schedule.paused:
            found.update(_of(schedule.cron, schedule.timezone, -(-schedule.jitter_s // 60)))
    for line in besides:
        found.update(_of(line, "UTC", 0))
    together = _together(found)
    if len(together) > MOST:
        one = Wake(frozenset().union(*(w.minutes for w in together)), frozenset().union(*(w.hours for w in together)))
        return [one]
    return together


def no_closer(found: Iterable[Wake], minutes: int) -> list[Wake]:
    """Return cron lines for a clock that starts at most every `minutes` minutes: after each instant of these lines the
    clock starts KFM within less than that time. A line that is slow enough stays as it is.
    """
    slower: set[Wake] = set()
    for wake in found:
        said = sorted(wake.minutes)
        if min(later - earlier for earlier, later in pairwise([*said, said[0] + 60])) >= minutes:
            slower.add(wake)
        else:
            slower.update(_each_moved(wake, lambda at: -(-at // minutes) * minutes))
    return _together(slower)


def within_the_hour(found: Sequence[Wake]) -> Wake:
    """Return lines that start in every hour, at the minutes of these lines, for a clock that does not know UTC."""
    return Wake(frozenset().union(*(wake.minutes for wake in found)), EVERY[1])


@lru_cache(maxsize=4096)
def _of(cron: str, timezone: str, jitter: int) -> tuple[Wake, ...]:
    sim = CronSim(cron, datetime(2024, 1, 1))
    weekdays = frozenset(each % 7 if isinstance(each, int) else -1 for each in sim.weekdays)
    days = frozenset(sim.days)
    odd = min(days) < 0 or min(weekdays) < 0  # such as the last day, or the second Monday
    plain = Wake(
        frozenset(sim.minutes),
        frozenset(sim.hours),
        EVERY[2] if odd else days,
        EVERY[3] if odd else frozenset(sim.months),
        WEEK if odd else weekdays,
    )
    moved: set[Wake] = set()
    for offset in _offsets(timezone):
        for late in {0, jitter}:
            moved.update(_moved(plain, late - offset))
    return tuple(split for wake in moved for split in _split(wake))


@lru_cache(maxsize=512)
def _offsets(timezone: str) -> frozenset[int]:
    """Return the zone's offsets in minutes east of UTC over the next ten years."""
    here = zone(timezone)
    weeks = (datetime(2025, 1, 1) + timedelta(days=7 * week, hours=12) for week in range(530))
    found = (each.replace(tzinfo=here).utcoffset() for each in weeks)
    return frozenset(round(each.total_seconds()) // 60 for each in found if each is not None)


def _moved(wake: Wake, by: int) -> Iterator[Wake]:
    """Yield a cron line shifted by `by` minutes; a shift over midnight changes the day too."""
    if len(wake.hours) == 24 and by % 60 == 0 and wake[2:] == (*EVERY[2:], WEEK):
        yield wake
        return
    yield from _each_moved(wake, lambda at: at + by)


def _each_moved(wake: Wake, moved: Callable[[int], int]) -> Iterator[Wake]:
    """Yield a cron line after `moved` gave each of its minutes of the day another; one beyond midnight changes the day
    too."""
    days: dict[int, dict[int, set[int]]] = {}
    for hour in wake.hours:
        for minute in wake.minutes:
            day, at = divmod(moved(hour * 60 + minute), DAY)
            days.setdefault(day, {}).setdefault(at // 60, set()).add(at % 60)
    for day, hours in days.items():
        dated = wake.days != EVERY[2] or wake.months != EVERY[3]
        weekdays = frozenset((each + day) % 7 for each in wake.weekdays)
        rest = (wake.days, wake.months, weekdays) if day == 0 or not dated else (*EVERY[2:], WEEK)
        for hour, minutes in hours.items():
            yield Wake(frozenset(minutes), frozenset({hour}), *rest)


def _split(wake: Wake) -> Iterator[Wake]:
    if wake.days != EVERY[2] and wake.weekdays != WEEK:
        yield wake._replace(weekdays=WEEK)
        yield wake._replace(days=EVERY[2])
    else:
        yield wake


def _together(found: Iterable[Wake]) -> list[Wake]:
    """Return the cron lines, merged where they differ only in their hours, then where they differ only in their
    minutes."""
    hours: dict[tuple[Field, ...], Field] = {}
    for wake in found:
        rest = (wake.minutes, *wake[2:])
        hours[rest] = hours.get(rest, frozenset()) | wake.hours
    minutes: dict[tuple[Field, ...], Field] = {}
    for (said, *others), at in hours.items():
        key = (at, *others)
        minutes[key] = minutes.get(key, frozenset()) | said
    lines = [Wake(said, *rest) for rest, said in minutes.items()]
    needed = [one for one in lines if not any(one != other and _is_within(one, other) for other in lines)]
    return sorted(needed, key=lambda wake: [sorted(field) for field in wake])


def _is_within(one: Wake, other: Wake) -> bool:
    """Return whether `other` starts at every instant of `one`."""
    return all(field <= wider for field, wider in zip(one, other, strict=True))


def _text(chosen: Field, every: Field) -> str:
    if chosen == every:
        return "*"
    said = sorted(chosen)
    step = said[1] - said[0] if len(said) > 2 else 0
    if step > 1 and set(chosen) == set(range(min(every), max(every) + 1, step)):
        return f"*/{step}"
    parts: list[str] = []
    start = 0
    for end in range(1, len(said) + 1):
        if end == len(said) or said[end] != said[end - 1] + 1:
            run = said[start:end]
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(each) for each in run]
            start = end
    return ",".join(parts)
