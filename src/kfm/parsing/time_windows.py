"""Time windows: from a first day to a last day, both included. A duration such as P30D ends today."""

from __future__ import annotations

import re
from datetime import date, timedelta

from kfm.errors import BadInput
from kfm.parsing.dates import is_date, is_day, is_moment
from kfm.parsing.lazy_regex import pattern

_LENGTH = pattern(r"P(?:([0-9]{1,4})W|(?:([0-9]{1,4})Y)?(?:([0-9]{1,4})M)?(?:([0-9]{1,6})D)?)")
_PART = pattern(r"([0-9]{4})(?:-([0-9]{2}))?")
EARLIEST = 1000  # earlier years are written in several ways


def interval(text: str, today: str) -> str:
    """Return the window as `2026-01-01/2026-01-31`; `P30D` begins thirty days before today and ends today.

    Raise BadInput if the text is neither two days nor a duration.
    """
    first, slash, last = text.partition("/")
    if slash and is_date(first) and is_date(last) and first <= last:
        return text
    found = _LENGTH.fullmatch(text)
    begin = "" if slash or found is None or text == "P" else _begin(found, today)
    if not begin:
        raise BadInput(
            "--window is neither two days nor a duration",
            hint="write 2026-01-01/2026-01-31, the earlier day first, or P30D for the last thirty days",
        )
    return f"{begin}/{today}"


def _begin(found: re.Match[str], today: str) -> str:
    """Return the day that lies one duration before today, or an empty text if it lies before the year 1000."""
    weeks, years, months, days = (int(part or 0) for part in found.groups())
    day = date.fromisoformat(today)
    count = day.year * 12 + day.month - 1 - 12 * years - months
    year, month = divmod(count, 12)
    if year < EARLIEST:
        return ""
    last = max(n for n in range(28, 32) if is_day(year, month + 1, n))
    begin = date(year, month + 1, min(day.day, last))
    back = days + 7 * weeks
    if back >= begin.toordinal() - date(EARLIEST, 1, 1).toordinal():
        return ""
    return (begin - timedelta(days=back)).isoformat()


def within(window: str, text: str) -> bool | None:
    """Return whether a day, month, year or instant overlaps the window; None if the text is none of these."""
    text = text.strip()
    if is_moment(text):
        text = text[:10]
    elif not is_date(text):
        found = _PART.fullmatch(text)
        if found is None or not is_day(int(found[1]), int(found[2] or 1), 1):
            return None
    first, _, last = window.partition("/")
    return first[: len(text)] <= text <= last[: len(text)]
