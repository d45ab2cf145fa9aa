"""What SQLite is asked, as text: made once for each table."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from kfm.store.memory import successor

# Asked again and again in every run: a connection keeps what it read of these, while nobody else writes.
KEPT = frozenset({"meta", "leases", "refs", "claims", "runs", "versions", "ledger_tree"})


class Statements(NamedTuple):
    """Of one table. A sum is over its name and the key as well as over the value."""

    name_sum: int
    get: str
    put: str
    add: str
    kept: bool


class _ByTable(dict[str, Statements]):
    """Made once for each table."""

    def __missing__(self, table: str) -> Statements:
        insert = f"INSERT INTO {table} VALUES(?,?,?) ON CONFLICT(key) DO "
        self[table] = statements = Statements(
            crc32(f"{table}/".encode()),
            f"SELECT value, sum FROM {table} WHERE key=?",  # noqa: S608
            # A row that is there already stays where it is, and one that says the same is not written at all.
            insert + "UPDATE SET value=excluded.value, sum=excluded.sum "
            "WHERE sum IS NOT excluded.sum OR value IS NOT excluded.value",
            insert + "NOTHING",
            table in KEPT,
        )
        return statements


BY_TABLE = _ByTable()


def page_query(table: str, prefix: str, after: str, reverse: bool, page: int) -> tuple[str, list[str]]:
    """A page of the rows under a prefix, from where the last one ended. One bound on each side and no more: of two,
    SQLite would begin at the one and pass over every row up to the other."""
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
