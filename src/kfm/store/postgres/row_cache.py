"""Rows of a state on a server that were read or written since another process last committed."""

from __future__ import annotations

from typing import NamedTuple

_MOST_ROWS, _MOST_BYTES = 20_000, 32 << 20
_LARGE = 64 << 10  # bytes of a row that is not kept
_PAGE = 64  # rows of a page that is kept


class Range(NamedTuple):
    """A page of a scan: at most `limit` rows from `low`, before `high`."""

    low: bytes
    high: bytes | None
    reverse: bool
    limit: int


class RowCache:
    """Rows by key, pages of scans, and small tables of which every row is here."""

    def __init__(self) -> None:
        self.large: set[str] = set()  # tables that are not kept as a whole
        self.forget()

    def forget(self) -> None:
        self.whole: set[str] = set()
        self._kept: dict[str, dict[str, bytes | None]] = {}
        self._pages: dict[str, dict[Range, list[tuple[str, bytes]]]] = {}
        self._rows = self._bytes = 0

    def has(self, table: str, key: str) -> bool:
        return table in self.whole or key in self._kept.get(table, ())

    def get(self, table: str, key: str) -> bytes | None:
        return self._kept.get(table, {}).get(key)

    def keep(self, table: str, key: str, value: bytes | None) -> None:
        """Keep a row as it was read; None if there is none."""
        size = len(value or b"")
        if size > _LARGE:
            self.whole.discard(table)
            self.large.add(table)
            self._kept.get(table, {}).pop(key, None)
            return
        self._count(1, size)
        self._kept.setdefault(table, {})[key] = value

    def note(self, table: str, key: str, value: bytes | None) -> None:
        """Keep a row as this process has committed it."""
        self._pages.pop(table, None)
        self.keep(table, key, value)

    def keep_whole(self, table: str, rows: list[tuple[str, bytes]], small: int) -> None:
        """Keep the first rows of a table; all, if there are no more than a small table has."""
        for key, value in rows:
            self.keep(table, key, value)
        if len(rows) > small:
            self.large.add(table)
        elif all(self.has(table, key) for key, _ in rows):  # there was room for them
            self.whole.add(table)

    def page(self, table: str, wanted: Range) -> list[tuple[str, bytes]] | None:
        """Return the rows of a page if they are here."""
        if table not in self.whole:
            return self._pages.get(table, {}).get(wanted)
        low, high, reverse, limit = wanted
        found = [
            (key, value)
            for key, value in self._kept.get(table, {}).items()
            if value is not None and low <= key.encode() and (high is None or key.encode() < high)
        ]
        return sorted(found, reverse=reverse)[:limit]

    def keep_page(self, table: str, wanted: Range, rows: list[tuple[str, bytes]]) -> None:
        if len(rows) > _PAGE:
            return
        size = sum(len(value) for _, value in rows)
        if size <= 4 * _LARGE:
            self._count(len(rows) + 1, size)
            self._pages.setdefault(table, {})[wanted] = rows
            for key, value in rows:
                self.keep(table, key, value)

    def _count(self, rows: int, size: int) -> None:
        self._rows += rows
        self._bytes += size
        if self._rows > _MOST_ROWS or self._bytes > _MOST_BYTES:
            self.forget()
