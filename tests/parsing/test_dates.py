"""Dates are read as Python's own strptime reads them, where that does not depend on the machine or the version."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta

import pytest

from kfm.parsing.dates import SPACE, date_format_problem, date_reader, is_date, is_moment

FORMATS = [
    "%Y%m%d", "%m/%d/%Y", "%d.%m.%y", "%d %b %Y", "%B %d, %Y", "%A, %d %B %Y", "%a %d-%b-%y", "%Y-%j", "%Y%j",
    "%Y-%m-%dT%H:%M:%S", "%m/%d/%Y %I:%M %p", "%Y-%m-%d %H:%M:%S.%f", "%d/%m/%Y %H:%M:%S %z", "%H%M", "%Y%% %m",
    "%d%m%Y", "%Y", "(%Y) [%m]*",
]  # fmt: skip


def _python_reads(text: str, format_: str) -> bool:
    try:
        datetime.strptime(text, format_)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_written_by_a_format_is_read_by_it(format_: str) -> None:
    assert date_format_problem(format_) == ""
    reads = date_reader(format_)
    chance = random.Random(format_)
    for _ in range(300):
        moment = datetime(1970, 1, 1) + timedelta(seconds=chance.randrange(4_000_000_000 - 900_000_000))
        text = moment.strftime(format_.replace("%z", "+05:30"))
        assert reads(text)
        assert reads(text.upper().replace("T", "T"))
        damaged = list(text)
        damaged[chance.randrange(len(damaged))] = chance.choice("0123456789 /-:,.%azJ")
        other = "".join(damaged)
        if reads(other):
            assert _python_reads(other, format_), other


@pytest.mark.parametrize("format_", FORMATS)
def test_what_python_reads_is_read_unless_it_is_no_day_of_that_year_or_spelt_otherwise(format_: str) -> None:
    reads = date_reader(format_)
    chance = random.Random(format_ + "again")
    seen = 0
    for _ in range(3000):
        text = datetime(2024, 2, 29, 12, 34, 56, 7).strftime(format_.replace("%z", "-0100"))
        damaged = list(text)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.choice("0123456789 ")
        other = "".join(damaged)
        if _python_reads(other, format_) and not reads(other):
            # Python reads day 366 of any year as a day of the next, and white space at either end of a number.
            assert "%j" in format_ or other != other.strip() or " " in other
        seen += reads(other)
    assert seen


@pytest.mark.parametrize(
    ("text", "format_", "is_one"),
    [
        ("02/29/2024", "%m/%d/%Y", True),
        ("02/29/2023", "%m/%d/%Y", False),
        ("2/9/2024", "%m/%d/%Y", True),
        ("29 Feb", "%d %b", False),
        ("2023366", "%Y%j", False),
        ("2024366", "%Y%j", True),
        ("29.02.00", "%d.%m.%y", True),
        ("0000-01-01", "%Y-%m-%d", False),
        ("1 MAY 2024", "%d %b %Y", True),
        ("1 may 2024", "%d %B %Y", True),
        ("1 mai 2024", "%d %b %Y", False),
        ("1\u00a0 May 2024", "%d %b %Y", True),
        ("\u0661 May 2024", "%d %b %Y", False),
        ("12:60", "%H:%M", False),
        ("23:59:60", "%H:%M:%S", False),
        ("5t5", "%HT%M", False),
        ("2024 +24:00", "%Y %z", False),
        ("2024 z", "%Y %z", False),
        ("2024 Z", "%Y %z", True),
        ("1\n2024", "%m\t%Y", True),
    ],
)
def test_a_date_is_one_or_none(text: str, format_: str, is_one: bool) -> None:
    assert date_reader(format_)(text) is is_one


@pytest.mark.parametrize(
    ("format_", "says"),
    [
        ("%Q", "without one of these letters"),
        ("%Y-%", "without one of these letters"),
        ("%c", "without one of these letters"),
        ("%Z", "without one of these letters"),
        ("%U %Y", "without one of these letters"),
        ("%Y %Y", "says the year twice"),
        ("%Y %y", "says the year twice"),
        ("%b %m", "says the month twice"),
        ("%H %I", "says the hour twice"),
        ("%j %m", "says the day of the year twice"),
        ("%d %j", "says the day of the year twice"),
        ("", "no part of a date"),
        ("%% today", "no part of a date"),
    ],
)
def test_a_format_that_could_mean_two_things_or_nothing_is_refused(format_: str, says: str) -> None:
    assert says in date_format_problem(format_)


def test_every_day_there_is_is_a_date_and_no_other() -> None:
    day = date(1, 1, 1)
    for _ in range(3000):
        assert is_date(day.isoformat())
        day += timedelta(days=1217)
    for text in (
        "2023-02-29",
        "1900-02-29",
        "2024-00-10",
        "2024-13-01",
        "2024-04-31",
        "0000-01-01",
        "2024-1-1",
        "2024-W01-1",
    ):
        assert not is_date(text)
    assert is_date("2000-02-29")


def test_a_moment_is_what_python_calls_one_within_our_form() -> None:
    chance = random.Random(5)
    times = ["00:00", "23:59:59", "12:30:15.5", "12:30:15.123456789", "24:00", "12:60", "1:00"]
    zones = ["", "Z", "+05:30", "-0100", "+24:00", "+05", "z"]
    taken = 0
    for _ in range(3000):
        text = f"{chance.randint(0, 2030):04}-{chance.randint(0, 13):02}-{chance.randint(0, 32):02}"
        text += chance.choice("T t") + chance.choice(times) + chance.choice(zones)
        if is_moment(text):
            taken += 1
            datetime.fromisoformat(text)
    assert taken > 100


def test_space_is_what_python_strips() -> None:
    import re

    assert [c for c in map(chr, range(0x110000)) if re.fullmatch(SPACE, c)] == [
        c for c in map(chr, range(0x110000)) if c.isspace()
    ]
