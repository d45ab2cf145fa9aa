"""A runner that wakes as its file says misses no instant of a schedule, in any zone, whatever the clocks do."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kfm.clock import parse_instant
from kfm.model.schedules import Schedule
from kfm.scheduling.schedule_ticks import acted_on, upcoming
from kfm.scheduling.wake_times import MOST, Wake, no_closer, wakes, within_the_hour

ZONES = (
    "UTC", "America/Chicago", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe",
    "America/St_Johns", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Africa/Casablanca", "America/Sao_Paulo",
)  # fmt: skip
MINUTE = timedelta(minutes=1)


def matches(line: str, at: datetime) -> bool:
    """Whether a line of cron holds at this minute: read here again, field by field, as Kubernetes and Debian do."""
    fields = line.split(" ")
    values = (at.minute, at.hour, at.day, at.month, (at.weekday() + 1) % 7)
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    held = [_holds(text, value, *bounds) for text, value, bounds in zip(fields, values, ranges, strict=True)]
    days = held[2] and held[4] if "*" in (fields[2], fields[4]) else held[2] or held[4]
    return held[0] and held[1] and held[3] and days


def _holds(text: str, value: int, low: int, high: int) -> bool:
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = ("", "", "") if span == "*" else span.partition("-")
        begin = int(first) if first else low
        end = int(last) if last else begin if first else high
        if begin <= value <= end and (value - begin) % int(step or 1) == 0:
            return True
    return False


def crons(pick: random.Random) -> str:
    minute = pick.choice(("0", "30", "*/5", "7,52", "59", "*"))
    hour = pick.choice(("*", "2", "0", "23", "*/6", "1-4"))
    day = pick.choice(("*", "*", "1", "15,31", "L"))
    month = pick.choice(("*", "*", "1", "3,10"))
    weekday = pick.choice(("*", "*", "mon", "fri,sun", "0-2"))
    return f"{minute} {hour} {day} {month} {weekday}"


def schedule(cron: str, zone: str = "UTC", **said: Any) -> Schedule:
    return Schedule(id="one", dataset="one", cron=cron, timezone=zone, **said)


def is_woken(lines: list[str], at: datetime, within: int = 0) -> bool:
    return any(matches(line, at + late * MINUTE) for late in range(within + 1) for line in lines)


@pytest.mark.parametrize("seed", range(40))
def test_every_instant_of_a_schedule_is_one_of_theirs(seed: int, count: Any) -> None:
    """Within the hour that a clock skips it is after it; the rest to the minute."""
    pick = random.Random(seed)
    one = schedule(crons(pick), pick.choice(ZONES))
    lines = [wake.cron() for wake in wakes([one])]
    assert len(lines) <= MOST
    begin = parse_instant(f"{pick.choice((2026, 2027, 2030))}-0{pick.randint(1, 9)}-01T00:00:00Z", "begin")
    here = ZoneInfo(one.timezone)
    for at_ms in islice(upcoming(one, begin), 600):
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        if not is_woken(lines, at):
            before = at - timedelta(seconds=1)
            assert before.astimezone(here).utcoffset() != at.astimezone(here).utcoffset(), (one, lines, at)
            assert is_woken(lines, at, within=60), (one, lines, at)
    count("instants held against the clocks of runners", 600)


@pytest.mark.parametrize(
    "cron",
    [
        "58,59 23 * * *", "57-59 * * * *", "*/2 9 * * mon", "1,2 0 1 * *", "58,59 23 31 12 *", "59,58 23 * * sat",
        "56,58 23 L * *", "3,4 */6 * * *",
    ],
)  # fmt: skip
@pytest.mark.parametrize("zone", ["America/Chicago", "Asia/Kathmandu"])
def test_github_starts_within_five_minutes_of_every_instant_of_a_year(cron: str, zone: str, count: Any) -> None:
    one = schedule(cron, zone)
    lines = [wake.cron() for wake in no_closer(wakes([one]), 5)]
    begin = parse_instant("2026-01-01T00:00:00Z", "begin")
    here = ZoneInfo(zone)
    woken = set().union(*(_starts(line, datetime.fromtimestamp(begin // 1000, UTC), 366) for line in lines))
    assert all(
        later - earlier >= 300
        for line in lines
        for earlier, later in pairwise(sorted(_starts(line, datetime(2026, 6, 1, tzinfo=UTC), 40)))
    )
    instants = list(takewhile(lambda at_ms: at_ms < begin + 365 * 86_400_000, upcoming(one, begin)))
    for at_ms in instants:
        at = at_ms // 1000
        local, before = (datetime.fromtimestamp(each, UTC).astimezone(here) for each in (at, at - 1))
        longest = 5 if local.utcoffset() == before.utcoffset() else 65  # the hour that the clock skips
        assert any(at + 60 * late in woken for late in range(longest)), (lines, at)
    count("instants held against the clocks of runners", len(instants))


def _starts(line: str, begin: datetime, days: int) -> set[int]:
    """The seconds since 1970 at which a line of cron starts within these days."""
    minutes, hours, *_ = line.split(" ")
    times = [
        3600 * hour + 60 * minute
        for hour in range(24)
        for minute in range(60)
        if _holds(hours, hour, 0, 23) and _holds(minutes, minute, 0, 59)
    ]
    some = times[0]
    first = int(begin.timestamp())
    dates = [first + 86_400 * day for day in range(days)]
    return {date + at for date in dates if matches(line, datetime.fromtimestamp(date + some, UTC)) for at in times}


def test_jitter_is_waited_for() -> None:
    one = schedule("30 2 * * *", "America/Chicago", jitter_s=600)
    lines = [wake.cron() for wake in wakes([one])]
    for at_ms in islice(upcoming(one, parse_instant("2026-06-01T00:00:00Z", "begin")), 50):
        last = datetime.fromtimestamp(at_ms / 1000, UTC) + timedelta(seconds=600)
        assert acted_on(one, at_ms) <= last.timestamp() * 1000
        assert is_woken(lines, last)


def test_a_paused_schedule_wakes_no_runner_and_one_without_a_clock_is_polled() -> None:
    assert wakes([schedule("0 6 * * *", paused=True), schedule("")]) == []
    assert [each.cron() for each in wakes([schedule("")], ["17 * * * *"])] == ["17 * * * *"]


def test_ten_thousand_schedules_are_a_few_lines() -> None:
    pick = random.Random(1)
    many = [schedule(crons(pick), pick.choice(ZONES)) for _ in range(10_000)]
    lines = [wake.cron() for wake in wakes(many)]
    assert 1 <= len(lines) <= MOST
    for one in many[::500]:
        for at_ms in islice(upcoming(one, parse_instant("2026-06-01T00:00:00Z", "begin")), 5):
            assert is_woken(lines, datetime.fromtimestamp(at_ms / 1000, UTC), within=60)


def test_times_are_written_as_people_write_them() -> None:
    def told(cron: str, zone: str = "UTC") -> list[str]:
        return [each.cron() for each in wakes([schedule(cron, zone)])]

    assert told("*/5 * * * *") == ["*/5 * * * *"]
    assert told("* * * * *", "America/Chicago") == ["* * * * *"]
    assert told("0 1-4 * * *") == ["0 1-4 * * *"]
    assert told("30 23 * * sun", "America/Chicago") == ["30 4,5 * * 1"]
    assert told("0 0 1 1 *", "Europe/Berlin") == ["0 22,23 * * *"], "the day before has no number that is always right"
    assert told("5 4 1,15 * fri") == ["5 4 * * 5", "5 4 1,15 * *"], "either day, not only both"


def test_github_is_not_asked_for_more_than_it_takes_and_cron_not_for_its_zone() -> None:
    def slower(minutes: set[int], hours: set[int]) -> list[str]:
        return [each.cron() for each in no_closer([Wake(frozenset(minutes), frozenset(hours))], 5)]

    assert slower({0, 2, 30}, set(range(24))) == ["0,5,30 * * * *"]
    assert slower(set(range(60)), set(range(24))) == ["*/5 * * * *"]
    assert slower({58, 1}, {3}) == ["0 4 * * *", "5 3 * * *"], "around the hour, too"
    assert slower({58, 59}, {23}) == ["0 0 * * *"], "and around midnight"
    assert slower({0, 30}, {3}) == ["0,30 3 * * *"]
    found = wakes([schedule("30 2 * * *", "America/Chicago"), schedule("15 6 * * mon")])
    assert within_the_hour(found).cron() == "15,30 * * * *"
