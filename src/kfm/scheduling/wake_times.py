"""When somebody else's clock has to wake `kfm up --once`, so that no tick of a schedule waits. Pure, but for the
time-zone database.

Their clocks know UTC and cron, so a time of the day in a zone with daylight saving is two times of theirs. To be woken
once too often does nothing: what is due is decided here, and claimed once. So where a day or a month would have to be
shifted, every day is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from cronsim import CronSim

from kfm.model.schedules import Schedule
from kfm.scheduling.schedule_ticks import zone

MOST = 8  # lines; more are told as one that is woken more often
DAY = 24 * 60  # minutes
EVERY = (frozenset(range(60)), frozenset(range(24)), frozenset(range(1, 32)), frozenset(range(1, 13)))
WEEK = frozenset(range(7))  # from Sunday on

Field = frozenset[int]


class Wake(NamedTuple):
    """A line of cron, in UTC. At most one of days and weekdays is less than all, for not all join them alike."""

    minutes: Field
    hours: Field
    days: Field = EVERY[2]
    months: Field = EVERY[3]
    weekdays: Field = WEEK

    def cron(self) -> str:
        fields = (*zip(self[:4], EVERY, strict=True), (self.weekdays, WEEK))
        return " ".join(_text(chosen, every) for chosen, every in fields)


def wakes(schedules: Iterable[Schedule], besides: Sequence[str] = ()) -> list[Wake]:
    """For all that have a clock, and these lines besides; few enough to be read."""
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


def no_closer(wake: Wake, minutes: int) -> Wake:
    """As it is, or every so many minutes where it would come more often."""
    said = sorted(wake.minutes)
    steps = [later - earlier for earlier, later in pairwise([*said, said[0] + 60])]
    if min(steps) >= minutes:
        return wake
    return wake._replace(minutes=frozenset(range(0, 60, minutes)))


def within_the_hour(found: Sequence[Wake]) -> Wake:
    """For a clock that does not know UTC: the same minutes of every hour."""
    return Wake(frozenset().union(*(wake.minutes for wake in found)), EVERY[1])


@lru_cache(maxsize=4096)
def _of(cron: str, timezone: str, jitter: int) -> tuple[Wake, ...]:
    sim = CronSim(cron, datetime(2024, 1, 1))
    weekdays = frozenset(each % 7 if isinstance(each, int) else -1 for each in sim.weekdays)
    days = frozenset(sim.days)
    odd = min(days) < 0 or min(weekdays) < 0  # the last day, the second Monday
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
    """In minutes east of UTC, as far as the rules of today are known to reach."""
    here = zone(timezone)
    weeks = (datetime(2025, 1, 1) + timedelta(days=7 * week, hours=12) for week in range(530))
    found = (each.replace(tzinfo=here).utcoffset() for each in weeks)
    return frozenset(round(each.total_seconds()) // 60 for each in found if each is not None)


def _moved(wake: Wake, by: int) -> Iterator[Wake]:
    """The same times so many minutes later; by the day before or after, where it comes to that."""
    if len(wake.hours) == 24 and by % 60 == 0 and wake[2:] == (*EVERY[2:], WEEK):
        yield wake
        return
    days: dict[int, dict[int, set[int]]] = {}
    for hour in wake.hours:
        for minute in wake.minutes:
            day, at = divmod(hour * 60 + minute + by, DAY)
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
    """Lines that differ in their hours only are one, then those that differ in their minutes only."""
    hours: dict[tuple[Field, ...], Field] = {}
    for wake in found:
        rest = (wake.minutes, *wake[2:])
        hours[rest] = hours.get(rest, frozenset()) | wake.hours
    minutes: dict[tuple[Field, ...], Field] = {}
    for (said, *others), at in hours.items():
        key = (at, *others)
        minutes[key] = minutes.get(key, frozenset()) | said
    lines = [Wake(said, *rest) for rest, said in minutes.items()]
    return sorted(lines, key=lambda wake: [sorted(field) for field in wake])


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
