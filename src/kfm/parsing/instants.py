"""Instants of RFC 3339 as milliseconds since 1970, and the intervals between them, as search parameters write them."""

from __future__ import annotations

from datetime import date

from kfm.parsing.dates import is_date, is_day
from kfm.parsing.lazy_regex import pattern

DAY_MS = 86_400_000
# Ends of intervals that are open. Every instant lies between them, and each is one double.
OPEN_START, OPEN_END = -(2**53) + 1, 2**53 - 1
_EPOCH = date(1970, 1, 1).toordinal()
_INSTANT = pattern(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60)(?:\.([0-9]{1,40}))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)


def instant_ms(text: str) -> int | None:
    """Return an RFC 3339 instant in milliseconds, rounded down; None if the text is none. A leap second, which exists
    only at the end of a day in UTC, is read as the second after it."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
    if not is_day(year, month, day):
        return None
    offset = (int(found[9]) * 60 + int(found[10])) * (-1 if found[8] == "-" else 1) if found[8] else 0
    minutes = (date(year, month, day).toordinal() - _EPOCH) * 1440 + hour * 60 + minute - offset
    if second == 60 and minutes % 1440 != 1439:
        return None
    return (minutes * 60 + second) * 1000 + int((found[7] or "0").ljust(3, "0")[:3])


def day_span(text: str) -> tuple[int, int] | None:
    """Return the first and the last millisecond of a day in UTC; None if the text is no day."""
    if not is_date(text):
        return None
    year, month, day = map(int, text.split("-"))
    start = (date(year, month, day).toordinal() - _EPOCH) * DAY_MS
    return start, start + DAY_MS - 1


def instant_span(text: str) -> tuple[int, int] | None:
    """Return the first and the last millisecond that an instant or a day covers; None if the text is neither."""
    found = instant_ms(text)
    return day_span(text) if found is None else (found, found)
