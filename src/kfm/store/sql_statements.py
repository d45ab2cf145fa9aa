"""The SQL statements, built once per table."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from kfm.store.codec import successor

# Every run reads these often: a connection caches their rows until another one writes.
KEPT = frozenset({"meta", "leases", "refs", "claims", "runs", "versions", "ledger_tree"})


class Statements(NamedTuple):
    """The SQL statements of one table. The checksum of a row covers the table's name, the key and the value."""

    name_sum: int
    get: str
    put: str
    add: str
    kept: bool


class _ByTable(dict[str, Statements]):
    """Builds the statements of a table on first use."""

    def __missing__(self, table: str) -> Statements:
        insert = f"INSERT INTO {table} VALUES(?,?,?) ON CONFLICT(key) DO "
        self[table] = statements = Statements(
            crc32(f"{table}/".encode()),
            f"SELECT value, sum FROM {table} WHERE key=?",  # noqa: S608
            # An existing row keeps its place, and an unchanged row is not written.
            insert + "UPDATE SET value=excluded.value, sum=excluded.sum "
            "WHERE sum IS NOT excluded.sum OR value IS NOT excluded.value",
            insert + "NOTHING",
            table in KEPT,
        )
        return statements


BY_TABLE = _ByTable()


def page_query(table: str, prefix: str, after: str, reverse: bool, page: int) -> tuple[str, list[str]]:
    """Return the query for a page of rows under a prefix, from where the last page ended. It has only one bound on each
    side: with two, SQLite would start at one and skip every row up to the other."""
    start, end = prefix, successor(prefix)
    further = bool(after) and not reverse and after >= prefix
    if further:
        start = after
    elif after and reverse and (not end or after < end):
        end = after
    return _page(table, further, bool(end), reverse, page), [start, end] if end else [start]


@lru_cache(maxsize=200)
def _page(table: str, after: bool, ends: bool, reverse: bool, page: int) -> str:
    where = ["key > ?" if after else "key >= ?", *["key < ?"] * ends]
    order = "DESC" if reverse else "ASC"
    return f"SELECT key, value, sum FROM {table} WHERE {' AND '.join(where)} ORDER BY key {order} LIMIT {page}"  # noqa: S608
