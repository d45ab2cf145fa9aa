"""Which media types a caller wants, and in which order, as RFC 9110 reads `Accept`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOST = 50  # ranges that are read
# Other names of the same formats.
_SAME = {
    "application/csv": "text/csv",
    "application/vnd.geo+json": "application/geo+json",
    "application/ndjson": "application/x-ndjson",
    "application/jsonl": "application/x-ndjson",
    "application/parquet": "application/vnd.apache.parquet",
    "application/x-parquet": "application/vnd.apache.parquet",
}


class _Range(NamedTuple):
    kind: str
    sub: str
    q: float


def in_order(accept: str, offered: Sequence[str]) -> list[str]:
    """Return the offered media types that `accept` takes, the most wanted first; those that are wanted alike stay in
    the order in which they are offered. All of them without a word about it."""
    ranges = [found for text in accept.split(",", MOST)[:MOST] if (found := _range(text)) is not None]
    if not ranges and not accept.strip():
        return list(offered)
    wanted = [(each, _quality(each.partition(";")[0], ranges)) for each in offered]
    return [each for each, q in sorted(wanted, key=lambda one: -one[1]) if q > 0]


def _range(text: str) -> _Range | None:
    """Return one range with its weight; None if it is malformed. Parameters besides `q` do not count."""
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    name = _SAME.get(name, name)
    kind, slash, sub = name.partition("/")
    if not slash or not kind or not sub or (kind == "*" and sub != "*"):
        return None
    q = 1.0
    for each in parameters:
        key, _, value = each.partition("=")
        if key.strip() == "q":
            value = value.strip()
            if not value.isascii() or not value.replace(".", "", 1).isdigit() or len(value) > 5 or float(value) > 1:
                return None
            q = float(value)
    return _Range(kind, sub, q)


def _quality(media_type: str, ranges: Sequence[_Range]) -> float:
    """Return the weight of the range that names this type most closely; 0 if none does."""
    kind, _, sub = media_type.partition("/")
    for meant in ((kind, sub), (kind, "*"), ("*", "*")):
        found = [each.q for each in ranges if (each.kind, each.sub) == meant]
        if found:
            return max(found)
    return 0.0
