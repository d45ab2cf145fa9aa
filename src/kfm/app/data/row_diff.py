"""Compares the rows of two tables of any size: which were added, changed and removed.

Memory holds two digests for each row, and of at most `MOST` rows at once. A larger table is split by digest into parts,
and read once for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from kfm.app.data.row_reader import Row, Rows, Unknown
from kfm.model.records import Record

MOST = 250_000  # rows held in memory at once
SIZE = 16
TURNS = 1 << 12
FEW = 8  # rows of one key that are kept for display

_encode = msgspec.json.Encoder().encode


class RowChange(Record, frozen=True):
    """One row before and after."""

    change: str  # added, changed, removed
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class RowDifference(Record, frozen=True):
    """The difference between two entries, or between all entries together."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    by: tuple[str, ...] = ()  # key columns; empty if whole rows are compared, which never count as changed
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    shown: tuple[RowChange, ...] = ()


class _Turn(NamedTuple):
    """One part of the rows: those whose digest modulo `of` equals `rest`."""

    rest: int
    of: int

    def has(self, digest: bytes) -> bool:
        return int.from_bytes(digest[:4], "big") % self.of == self.rest


class _Full(Exception):
    """Raised if a part has more rows than fit into memory."""


class _Found:
    """Counts of differences, and the keys of some changed rows for display."""

    def __init__(self, limit: int) -> None:
        self.added = self.changed = self.removed = 0
        self.limit = limit
        self.wanted: dict[bytes, str] = {}  # the kind of change, by key

    def add(self, key: bytes, added: int, changed: int, removed: int) -> None:
        self.added += added
        self.changed += changed
        self.removed += removed
        if len(self.wanted) < self.limit:
            self.wanted[key] = "changed" if changed else "added" if added else "removed"


def nothing() -> Iterator[Row]:
    """Yield no row, for a side that does not exist."""
    return iter(())


def compare_rows(before: Rows, after: Rows, key: Sequence[str], limit: int, most: int = MOST) -> RowDifference:
    """Return the difference between two tables. `key` are the key columns, used if both sides have them; `limit` is the
    number of rows to show. Raises Unknown if there are too many rows."""
    names = _columns(before), _columns(after)
    by = tuple(key) if key and all(set(key) <= set(side) for side in names if side) else ()
    digest = _by_columns(by) if by else _by_id if _has_ids(before) and _has_ids(after) else _whole
    found = _Found(limit)
    turns = [_Turn(0, 1)]
    while turns:
        turn = turns.pop()
        try:
            _look(before, after, digest, turn, found, most)
        except _Full:
            if turn.of >= TURNS:
                raise Unknown("it has more rows than can be compared") from None
            turns += [_Turn(turn.rest + turn.of, 2 * turn.of), _Turn(turn.rest, 2 * turn.of)]
    return RowDifference(
        added=found.added,
        changed=found.changed,
        removed=found.removed,
        by=by or (("(id)",) if digest is _by_id else ()),
        columns_added=tuple(name for name in names[1] if name not in names[0]) if names[0] else (),
        columns_removed=tuple(name for name in names[0] if name not in names[1]) if names[1] else (),
        shown=_shown(before, after, digest, found),
    )


Digest = Callable[[Row, bytes], bytes]


def _by_columns(by: tuple[str, ...]) -> Digest:
    return lambda row, _whole: _digest([row.values.get(name) for name in by])


def _by_id(row: Row, _whole: bytes) -> bytes:
    return _digest([row.id])


def _whole(_row: Row, whole: bytes) -> bytes:
    return whole


def _digest(value: Any) -> bytes:
    return blake2b(_encode(value), digest_size=SIZE).digest()


def _of(row: Row) -> bytes:
    """Return the digest of a row, whatever the order of its columns."""
    return _digest([row.id, sorted(row.values.items())])


def _columns(rows: Rows) -> tuple[str, ...]:
    """Return the column names of the first row."""
    for row in rows():
        return tuple(row.values)
    return ()


def _has_ids(rows: Rows) -> bool:
    for row in rows():
        return row.id is not None
    return True


def _look(before: Rows, after: Rows, digest: Digest, turn: _Turn, found: _Found, most: int) -> None:
    """Compare one part. Equal rows cancel out; remaining rows of the same key are counted as changed in pairs, and
    repeated keys count each time. Raises _Full before anything is counted."""
    old: dict[bytes, bytes] = {}
    new: dict[bytes, bytes] = {}
    for row in before():
        whole = _of(row)
        key = digest(row, whole)
        if turn.has(key):
            old[key] = old.get(key, b"") + whole
            if len(old) > most:
                raise _Full
    for row in after():
        whole = _of(row)
        key = digest(row, whole)
        if turn.has(key):
            left = _without(old.get(key, b""), whole)
            if left is None:
                new[key] = new.get(key, b"") + whole
                if len(new) > most:
                    raise _Full
            elif left:
                old[key] = left
            else:
                del old[key]
    for key, wholes in new.items():
        came, went = len(wholes) // SIZE, len(old.pop(key, b"")) // SIZE
        both = min(came, went) if digest is not _whole else 0
        found.add(key, came - both, both, went - both)
    for key, wholes in old.items():
        found.add(key, 0, 0, len(wholes) // SIZE)


def _without(wholes: bytes, whole: bytes) -> bytes | None:
    """Return these digests without one occurrence of `whole`; None if it is not among them."""
    for at in range(0, len(wholes), SIZE):
        if wholes[at : at + SIZE] == whole:
            return wholes[:at] + wholes[at + SIZE :]
    return None


def _shown(before: Rows, after: Rows, digest: Digest, found: _Found) -> tuple[RowChange, ...]:
    """Return the changed rows to display, before and after, by reading both tables again."""
    if not found.wanted:
        return ()
    sides = [_with_keys(rows, digest, found.wanted) for rows in (before, after)]
    changes = []
    for key, what in found.wanted.items():
        old, new = (side.get(key, {}) for side in sides)
        went = [row for whole, row in old.items() if whole not in new] or list(old.values())
        came = [row for whole, row in new.items() if whole not in old] or list(new.values())
        gone, here = went[0] if what != "added" else None, came[0] if what != "removed" else None
        changes.append(RowChange(change=what, before=gone, after=here))
    return tuple(changes)


def _with_keys(rows: Rows, digest: Digest, wanted: dict[bytes, str]) -> dict[bytes, dict[bytes, dict[str, Any]]]:
    found: dict[bytes, dict[bytes, dict[str, Any]]] = {}
    for row in rows():
        whole = _of(row)
        key = digest(row, whole)
        if key in wanted:
            values = row.values if row.id is None else {"(id)": row.id, **row.values}
            same = found.setdefault(key, {})
            if len(same) < FEW:
                same[whole] = values
    return found
