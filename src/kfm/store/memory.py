"""Tables in memory: the reference for the other backends, and the writable layer of a dry run."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from kfm.store.codec import check_key, successor


class MemoryTables:
    """Tables as dictionaries in memory, with an undo list for rollbacks. A lock lets one thread at a time use them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: dict[str, dict[str, bytes]] = {}
        self._sorted: dict[str, list[str]] = {}  # dropped when a key is added or removed, rebuilt on scan
        self._undo: list[tuple[str, str, bytes | None]] | None = None

    def get(self, table: str, key: str) -> bytes | None:
        with self._lock:
            rows = self._rows.get(table)
            value = None if rows is None else rows.get(key)
        if value is None and not key.isascii():
            check_key(key)
        return value

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the rows under a prefix as they are when the scan begins."""
        check_key(prefix + after)
        with self._lock:
            rows = self._rows.get(table, {})
            keys = self._sorted.get(table)
            if keys is None:
                keys = self._sorted[table] = sorted(rows)
            low = bisect_left(keys, prefix)
            end = successor(prefix)
            high = bisect_left(keys, end) if end else len(keys)
            if after:
                if reverse:
                    high = min(high, bisect_left(keys, after))
                else:
                    low = max(low, bisect_right(keys, after))
            if 0 <= limit < high - low:
                low, high = (high - limit, high) if reverse else (low, low + limit)
            found = keys[low:high]
            if reverse:
                found.reverse()
            values = [rows[key] for key in found]
        yield from zip(found, values, strict=True)

    def reading(self) -> AbstractContextManager[object]:
        return self._lock

    def content(self) -> dict[str, dict[str, bytes]]:
        """Return the rows of every table, by key."""
        return self._rows

    def verify(self) -> int:
        """Return the number of rows: memory needs no check."""
        with self._lock:
            return sum(len(rows) for rows in self._rows.values())

    def begin(self, durable: bool = True) -> None:  # noqa: ARG002 - memory is as durable as it gets
        self._lock.acquire()
        if self._undo is not None:
            self._lock.release()
            raise RuntimeError("a transaction is open already")
        self._undo = []

    def put(self, table: str, key: str, value: bytes) -> None:
        if not key.isascii():
            check_key(key)
        rows = self._rows.setdefault(table, {})
        before = rows.get(key)
        if self._undo is not None:
            self._undo.append((table, key, before))
        if before is None:
            self._sorted.pop(table, None)
        rows[key] = value

    def add(self, table: str, key: str, value: bytes) -> bool:
        if self.get(table, key) is not None:
            return False
        self.put(table, key, value)
        return True

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        for key, value in rows:
            self.put(table, key, value)

    def delete(self, table: str, key: str) -> None:
        before = self._rows.get(table, {}).pop(key, None)
        if before is None:
            check_key(key)
        else:
            self._sorted.pop(table, None)
            if self._undo is not None:
                self._undo.append((table, key, before))

    def commit(self) -> None:
        self._undo = None
        self._lock.release()

    def rollback(self) -> None:
        undo, self._undo = self._undo or [], None
        for table, key, before in reversed(undo):
            if before is None:
                self._rows[table].pop(key, None)
            else:
                self._rows[table][key] = before
            self._sorted.pop(table, None)
        self._lock.release()

    def foreign(self) -> int:
        return 0

    def close(self) -> None:
        pass
