"""Instants of RFC 3339, next to the standard library; leap seconds, offsets, and what is none."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest

from kfm.parsing.instants import day_span, instant_ms


def test_random_instants_are_read_as_the_standard_library_reads_them() -> None:
    r = random.Random(1)
    for _ in range(2_000):
        zone = timezone(timedelta(minutes=r.randint(-1439, 1439)))
        moment = datetime(r.randint(2, 9998), 1, 1, tzinfo=zone) + timedelta(milliseconds=r.randrange(31_000_000_000))
        text = moment.isoformat(timespec="milliseconds")
        wanted = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)  # noqa: UP017
        assert instant_ms(text) == wanted, text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("1990-12-31T15:59:60-08:00", "1991-01-01T00:00:00Z"),
        ("1985-04-12t23:20:50.52z", "1985-04-12T23:20:50.520Z"),
        ("1985-04-12T23:20:50.123456789012Z", "1985-04-12T23:20:50.123Z"),
        ("1996-12-19T16:39:57-00:00", "1996-12-19T16:39:57Z"),
        ("1937-01-01T12:00:27.87+01:00", "1937-01-01T11:00:27.870Z"),
    ],
)
def test_unusual_forms_are_instants(text: str, same: str) -> None:
    assert instant_ms(text) == instant_ms(same) is not None


@pytest.mark.parametrize(
    "text",
    ["", "..", "2020", "2020-01-01", "2020-01-01T00:00:00", "2020-01-01 00:00:00Z", "2020-02-30T00:00:00Z",
     "2020-01-01T24:00:00Z", "2020-01-01T00:00:61Z", "2020-01-01T12:00:60Z", "2020-01-01T00:00:00+24:00",
     "2020-01-01T00:00:00,5Z", "2020-01-01T00:00:00.Z", "0000-01-01T00:00:00Z", "2020-01-01T00:00:00+0100",
     "٢٠٢٠-01-01T00:00:00Z", " 2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z\n"],
)  # fmt: skip
def test_anything_else_is_no_instant(text: str) -> None:
    assert instant_ms(text) is None


def test_a_day_is_all_of_its_milliseconds() -> None:
    assert day_span("1970-01-02") == (86_400_000, 172_799_999)
    assert day_span("1970-02-30") is None
