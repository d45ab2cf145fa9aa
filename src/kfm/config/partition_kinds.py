"""Kinds of partitions: from the text a person writes to the name in refs and run keys. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta

from kfm.errors import BadInput
from kfm.model.names import check_partition
from kfm.parsing.characters import printable

MOST = 500_000  # most partitions of one backfill
TIMES = {"hour": "2024-01-01T05", "day": "2024-01-01", "week": "2024-W05", "month": "2024-01", "year": '"2024"'}
LISTED = ("tile", "cell", "station", "release", "name")

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_TILE = re.compile(r"([0-9]{1,2})[/-]([0-9]{1,10})[/-]([0-9]{1,10})\Z", re.ASCII)


def name_of(kind: str, key: str) -> str:
    """Return the name of a listed partition. Raise BadInput if it is not of its kind."""
    if kind == "tile":
        return _tile(key)
    if kind == "cell":
        from h3 import is_valid_cell

        if not is_valid_cell(key) or key != key.lower():
            raise BadInput(f"{printable(key)} is not an H3 cell", hint="a cell looks like 8526e2b7fffffff")
    return check_partition(key)


def _tile(key: str) -> str:
    found = _TILE.match(key)
    if found is None:
        raise BadInput(f"{printable(key)} is not a tile", hint="write zoom/column/row, such as 7/29/48")
    zoom, column, row = map(int, found.groups())
    if zoom > 30 or column >= 1 << zoom or row >= 1 << zoom:
        raise BadInput(
            f"tile {key} does not exist", hint=f"columns and rows of zoom {zoom} are below {1 << min(zoom, 30)}"
        )
    return f"{zoom}-{column}-{row}"


def times(kind: str, first: str, last: str) -> Iterator[str]:
    """Yield the name of every partition from the first to the last, both included."""
    read, name, after = _STEPS[kind]
    at, end = (_read(kind, text, read, name) for text in (first, last))
    if end < at:
        raise BadInput(f"{last} is before {first}", hint="correct one of the two")
    if (end - at) // {"hour": _HOUR, "day": _DAY}.get(kind, 7 * _DAY) >= MOST:  # weeks are fewer
        raise BadInput(f"there are more than {MOST:,} partitions", hint="split it into several backfills")
    while at <= end:
        yield name(at)
        try:
            at = after(at)
        except (OverflowError, ValueError):  # after the last year that exists
            return


def _read(kind: str, text: str, read: Callable[[str], datetime], name: Callable[[datetime], str]) -> datetime:
    try:
        at = read(text)
        if name(at) == text:
            return at
    except ValueError:
        pass
    raise BadInput(f"{printable(text)} is not a valid {kind}", hint=f"write it like {TIMES[kind]}")


def _week(text: str) -> datetime:
    year, mark, week = text.partition("-W")
    if not mark:
        raise ValueError(text)
    return datetime.combine(date.fromisocalendar(int(year), int(week), 1), datetime.min.time())


def _week_name(at: datetime) -> str:
    year, week, _ = at.isocalendar()
    return f"{year:04d}-W{week:02d}"


def _next_month(at: datetime) -> datetime:
    return at.replace(year=at.year + at.month // 12, month=at.month % 12 + 1)


_STEPS: dict[str, tuple[Callable[[str], datetime], Callable[[datetime], str], Callable[[datetime], datetime]]] = {
    "hour": (
        lambda text: datetime.strptime(text, "%Y-%m-%dT%H"),
        lambda at: at.isoformat()[:13],
        lambda at: at + _HOUR,
    ),
    "day": (lambda text: datetime.strptime(text, "%Y-%m-%d"), lambda at: at.isoformat()[:10], lambda at: at + _DAY),
    "week": (_week, _week_name, lambda at: at + 7 * _DAY),
    "month": (lambda text: datetime.strptime(text, "%Y-%m"), lambda at: at.isoformat()[:7], _next_month),
    "year": (
        lambda text: datetime.strptime(text, "%Y"),
        lambda at: f"{at.year:04d}",
        lambda at: at.replace(year=at.year + 1),
    ),
}
