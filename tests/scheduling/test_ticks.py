"""Ticks against the time-zone database itself, minute by minute: nothing here asks the library that makes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest

from kfm.model.schedules import Schedule, plain_cron
from kfm.scheduling.schedule_ticks import acted_on, cron_mistake, due, is_cron, upcoming, zone
from tests.sampling import sampled

MINUTE = 60_000
# Zones that change the clock by an hour, by half an hour, at midnight, in the south, and one that left out a day.
ZONES = (
    "America/Chicago",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Pacific/Apia",
    "UTC",
)


def made(cron: str, zone: str = "UTC", **more: object) -> Schedule:
    return Schedule(id="s", dataset="d", cron=cron, timezone=zone, **more)  # type: ignore[arg-type]


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def minutes(first: str, days: int) -> Iterator[tuple[int, datetime]]:
    """Every minute of these days, as the clock of the wall shows it."""
    at = datetime.fromisoformat(first).replace(tzinfo=UTC)
    for n in range(days * 1440):
        moment = at + timedelta(minutes=n)
        yield round(moment.timestamp() * 1000), moment


@cache
def shown(zone: str, first: str, days: int) -> list[tuple[int, datetime]]:
    """Those minutes by the clock of a zone."""
    here = ZoneInfo(zone)
    return [(at, moment.astimezone(here)) for at, moment in minutes(first, days)]


@pytest.mark.parametrize("hour, minute", sampled([(2, 30), (0, 0), (1, 59), (23, 45)]))
@pytest.mark.parametrize("name", sampled(ZONES, every=2))
@pytest.mark.parametrize("first", sampled(["2026-03-01", "2026-10-01", "2011-12-20", "2026-04-01", "2026-09-01"], 3))
def test_a_time_of_the_day_comes_once_a_day_and_is_made_up_for_after_a_gap(
    name: str, hour: int, minute: int, first: str
) -> None:
    wall = shown(name, first, 40)
    expected, seen = [], set()
    for (_, before), (at, local) in pairwise(wall):
        meant = local.replace(hour=hour, minute=minute, tzinfo=None)
        if local.date() in seen:
            continue
        jumped = local.replace(tzinfo=None) - before.replace(tzinfo=None)
        skipped = jumped > timedelta(minutes=1) and before.replace(tzinfo=None) < meant < local.replace(tzinfo=None)
        if (local.hour, local.minute) == (hour, minute) or skipped:
            expected.append(at)
            seen.add(local.date())
        elif jumped > timedelta(days=1) - timedelta(minutes=1):  # a whole day was left out, with its time in it
            left_out = (before + timedelta(minutes=1)).replace(tzinfo=None)
            if left_out.date() < local.date():
                expected.append(at)
    begin, end = wall[0][0], wall[-1][0]
    found = [at for at in islice(upcoming(made(f"{minute} {hour} * * *", name), begin), 60) if at <= end]
    assert found == [at for at in expected if at > begin]


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("step", sampled([5, 1, 15]))
def test_what_repeats_within_the_hour_goes_by_real_time(name: str, step: int) -> None:
    for first in ("2026-03-07", "2026-10-31", "2026-04-04", "2026-10-24"):
        wall = shown(name, first, 2)
        expected = [at for at, local in wall[1:] if local.minute % step == 0]
        found = [at for at in islice(upcoming(made(f"*/{step} * * * *", name), wall[0][0]), 4000) if at <= wall[-1][0]]
        assert found == expected


def test_ticks_follow_from_the_schedule_and_never_from_now() -> None:
    """From wherever one looks, the same instants come."""
    schedule = made("17 */6 * * *", "America/Chicago")
    whole = list(islice(upcoming(schedule, ms("2026-02-28T00:00:00+00:00")), 200))
    for after, at in pairwise(whole):
        for look in (after, after + 1, at - 1):
            assert next(upcoming(schedule, look)) == at


def test_start_and_end_bound_it() -> None:
    schedule = made("0 0 * * *", start_ms=ms("2026-01-10T00:00:00+00:00"), end_ms=ms("2026-01-12T00:00:00+00:00"))
    found = list(upcoming(schedule, ms("2026-01-01T00:00:00+00:00")))
    assert found == [ms(f"2026-01-{day}T00:00:00+00:00") for day in (10, 11, 12)]


def test_jitter_is_the_same_wherever_it_is_worked_out_and_within_its_bound() -> None:
    schedule = made("*/5 * * * *", jitter_s=120)
    drawn = [acted_on(schedule, n * 300_000) - n * 300_000 for n in range(500)]
    assert drawn == [acted_on(schedule, n * 300_000) - n * 300_000 for n in range(500)]
    assert 0 <= min(drawn) < 10_000 and 110_000 < max(drawn) <= 120_000
    late = due(schedule, 0, 300_000 + 60_000, 0)
    assert late.at_ms == ([300_000] if acted_on(schedule, 300_000) <= 360_000 else [])


@pytest.mark.parametrize(
    "catch_up, late_min, expected, missed",
    [
        ("all", 61, [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60], 0),
        ("last", 61, [60], 11),
        ("none", 61, [60], 11),  # it came a minute ago: nobody missed that one
        ("none", 64, [], 12),
        ("last", 64, [60], 11),
    ],
)
def test_what_was_missed_is_made_up_for_as_declared(
    catch_up: str, late_min: int, expected: list[int], missed: int
) -> None:
    found = due(made("*/5 * * * *", catch_up=catch_up), 0, late_min * MINUTE, 90_000)
    assert ([at // MINUTE for at in found.at_ms], found.upto_ms // MINUTE, found.missed) == (expected, 60, missed)


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "a b c d e", "@daily", "0 0 * * 9", "*/0 * * * *"],
)
def test_what_never_comes_is_no_cron(text: str) -> None:
    assert not is_cron(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("@daily", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
        ("@annually", "0 0 1 1 *"),
        ("30 6 * * Mon-Sun", "30 6 * * Mon-7"),
        ("30 6 * * fri-sun,tue", "30 6 * * fri-7,tue"),
        ("30 6 * * sun", "30 6 * * sun"),
    ],
)
def test_a_short_word_and_a_week_that_ends_on_sunday_are_cron(text: str, meant: str) -> None:
    assert plain_cron(text) == meant and is_cron(meant)


@pytest.mark.parametrize(
    ("text", "wrong", "cure"),
    [
        ("0 6 ? * mon", "a ?", "0 6 * * mon"),
        ("0 0 6 * * *", "6 fields instead of 5", "five fields"),
        ("@reboot", "not a time", "@daily"),
        ("0 24 * * *", "an hour", "the hour like 6"),
        ("0 6 * * noday", "a weekday", "mon"),
        ("0 0 30 2 *", "no time that ever comes", "a day"),
    ],
)
def test_the_reason_why_a_text_is_no_cron_is_the_right_one(text: str, wrong: str, cure: str) -> None:
    assert not is_cron(text)
    said, hint = cron_mistake(text)
    assert wrong in said and cure in hint


def test_zones() -> None:
    assert zone("America/Chicago") is not None
    for name in ("Kansas", "../etc/passwd", "/etc/localtime", "", "America/"):
        assert zone(name) is None
