"""Tables for a dry run: reads come from the real tables, writes go to memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from heapq import merge
from itertools import chain
from typing import Protocol

from kfm.store.memory import MemoryTables

_GONE = b" ".join([b"deleted", b"here"])  # marks a deleted row; compared by identity, because any bytes may be a value


class Readable(Protocol):
    """The part of Tables that reads."""

    def get(self, table: str, key: str) -> bytes | None: ...

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]: ...

    def reading(self) -> AbstractContextManager[object]: ...

    def close(self) -> None: ...


class OverlayTables:
    """Tables that read from `base` and keep all writes in memory. `base` may be a read-only snapshot."""

    def __init__(self, base: Readable) -> None:
        self._base = base
        self._top = MemoryTables()
        self.now_ms: Callable[[], int] | None = getattr(base, "now_ms", None)

    def get(self, table: str, key: str) -> bytes | None:
        value = self._top.get(table, key)
        if value is None:
            return self._base.get(table, key)
        return None if value is _GONE else value

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        if limit == 0:
            return
        ours = self._top.scan(table, prefix, after=after, reverse=reverse)
        first = next(ours, None)
        if first is None:
            yield from self._base.scan(table, prefix, after=after, reverse=reverse, limit=limit)
            return
        ours = chain((first,), ours)
        theirs = self._base.scan(table, prefix, after=after, reverse=reverse)
        last: str | None = None
        # A stable merge: for equal keys the row in memory comes first and hides the base row.
        for key, value in merge(ours, theirs, key=lambda row: row[0], reverse=reverse):
            if key == last:
                continue
            last = key
            if value is _GONE:
                continue
            yield key, value
            limit -= 1
            if limit == 0:
                return

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read several rows of one snapshot. The lock of the memory comes first, as in a transaction: in another order
        two threads could wait for each other."""
        with self._top.reading(), self._base.reading():
            yield

    def begin(self, durable: bool = True) -> None:
        self._top.begin(durable)

    def put(self, table: str, key: str, value: bytes) -> None:
        self._top.put(table, key, value)

    def add(self, table: str, key: str, value: bytes) -> bool:
        if self.get(table, key) is not None:
            return False
        self._top.put(table, key, value)
        return True

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        self._top.put_many(table, rows)

    def delete(self, table: str, key: str) -> None:
        self._top.put(table, key, _GONE)

    def changes(self) -> dict[str, dict[str, bytes | None]]:
        """Return what was written so far, by table and key; None where a row was deleted."""
        return {
            table: {key: None if value is _GONE else value for key, value in rows.items()}
            for table, rows in self._top.content().items()
            if rows
        }

    def commit(self) -> None:
        self._top.commit()

    def rollback(self) -> None:
        self._top.rollback()

    def foreign(self) -> int:
        return 0

    def close(self) -> None:
        self._base.close()
