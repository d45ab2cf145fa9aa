"""Copies all rows of a state from one place to another, and compares the two.

The copy reads both sides in key order and writes only what differs, so a copy that was interrupted goes on where it
was, and a copy of an older moment is brought up to date.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kfm.app.session.state_place import KEY, TABLE
from kfm.errors import Corrupt
from kfm.model.ports import Tables
from kfm.store.state_tables import CATALOGUE

OWN = "guard"  # the rows of a database for itself
COPIED = tuple(table.name for table in CATALOGUE if table.name != OWN)
_ROWS, _BYTES = 1000, 4 << 20  # of one transaction
_STEP = 500  # rows between two calls of `advanced`

Row = tuple[str, bytes]
Advanced = Callable[[int], None]  # called with a number of rows
Write = Callable[[str, list[Row], list[str]], None]  # a table, rows to put, and keys to delete


class TableSum(NamedTuple):
    """The rows of one table: how many, how many bytes, and a digest over all keys and values in key order."""

    table: str
    rows: int
    size: int
    digest: str


class RowSum:
    """Adds up the rows of a table in the order of their keys."""

    def __init__(self, table: str) -> None:
        self._table, self._rows, self._size, self._hash = table, 0, 0, hashlib.sha256()

    def add(self, key: str, value: bytes) -> None:
        name = key.encode()
        self._rows += 1
        self._size += len(name) + len(value)
        self._hash.update(b"%d %d " % (len(name), len(value)) + name + value)

    def found(self) -> TableSum:
        return TableSum(self._table, self._rows, self._size, self._hash.hexdigest())


def rows_of(tables: Tables, table: str) -> Iterator[Row]:
    """Yield the rows of a table that belong to the installation: not the row of the place itself."""
    for key, value in tables.scan(table):
        if table != TABLE or key != KEY:
            yield key, value


def sum_of(tables: Tables, table: str, advanced: Advanced) -> TableSum:
    found, since = RowSum(table), 0
    for key, value in rows_of(tables, table):
        found.add(key, value)
        since += 1
        if since == _STEP:
            advanced(since)
            since = 0
    advanced(since)
    return found.found()


def sums_of(tables: Tables, advanced: Advanced = lambda _rows: None) -> list[TableSum]:
    """Return the sums of all tables. Two places hold the same state if these are equal."""
    return [sum_of(tables, name, advanced) for name in COPIED]


def total_of(sums: list[TableSum]) -> str:
    """Return one digest over the sums of all tables, as `sha256:…`."""
    lines = "".join(f"{each.table} {each.rows} {each.digest}\n" for each in sums)
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def copy_table(source: Tables, target: Tables, table: str, write: Write, advanced: Advanced) -> TableSum:
    """Make a table of the target equal to that of the source, by calls of `write`; return the sum of the source.
    Raise Corrupt, from the tables themselves, for a damaged row."""
    return copy_rows(rows_of(source, table), target, table, write, advanced)


def copy_rows(rows: Iterator[Row], target: Tables, table: str, write: Write, advanced: Advanced) -> TableSum:
    """Make a table of the target hold exactly these rows, which come in the order of their keys."""
    found = RowSum(table)
    puts: list[Row] = []
    gone: list[str] = []
    size = since = 0
    theirs = rows_of(target, table)
    other = next(theirs, None)
    for key, value in rows:
        found.add(key, value)
        since += 1
        while other is not None and other[0] < key:
            gone.append(other[0])
            other = next(theirs, None)
        if other is None or other != (key, value):
            puts.append((key, value))
            size += len(value)
        if other is not None and other[0] == key:
            other = next(theirs, None)
        if len(puts) + len(gone) >= _ROWS or size >= _BYTES:
            write(table, puts, gone)
            puts, gone, size = [], [], 0
        if since >= _STEP:
            advanced(since)
            since = 0
    while other is not None:
        gone.append(other[0])
        other = next(theirs, None)
    if puts or gone:
        write(table, puts, gone)
    advanced(since)
    return found.found()


def check_equal(source: list[TableSum], target: list[TableSum]) -> None:
    """Raise Corrupt if the target does not hold exactly the rows of the source."""
    for ours, theirs in zip(source, target, strict=True):
        if ours != theirs:
            raise Corrupt(
                f"the copy of table {ours.table} has other rows than the state: {theirs.rows}, not {ours.rows}",
                hint="the state stays where it is; look at the disk or the server of the copy, then move again",
            )
