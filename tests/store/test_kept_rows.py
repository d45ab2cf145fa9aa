"""Rows that a connection keeps in memory agree with the file, whatever other processes write or roll back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.errors import Corrupt
from kfm.store.sql_statements import KEPT
from kfm.store.sqlite import SqliteTables


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[SqliteTables, SqliteTables]]:
    one, other = SqliteTables(str(tmp_path / "kfm.db")), SqliteTables(str(tmp_path / "kfm.db"))
    yield one, other
    other.close()
    one.close()


def write(tables: SqliteTables, table: str, value: bytes | None, *, ends: bool = True) -> None:
    tables.begin(durable=False)
    if value is None:
        tables.delete(table, "a")
    else:
        tables.put(table, "a", value)
    if ends:
        tables.commit()
    else:
        tables.rollback()


def seen(tables: SqliteTables, table: str) -> list[bytes | None]:
    """As it is read alone, among reads that belong together, and in a transaction; each twice."""
    found = [tables.get(table, "a")]
    with tables.reading():
        found += [tables.get(table, "a"), tables.get(table, "a")]
    tables.begin(durable=False)
    found += [tables.get(table, "a"), tables.get(table, "a")]
    tables.rollback()
    return found


@pytest.mark.parametrize("table", [*sorted(KEPT), "objects"])
def test_what_another_connection_wrote_is_seen(pair: tuple[SqliteTables, SqliteTables], table: str) -> None:
    one, other = pair
    for value in (b"1", b"2", None, b"3"):
        write(other, table, value)
        with one.reading():
            assert one.get(table, "a") == value
        write(other, table, b"between")
        one.begin(durable=False)
        assert one.get(table, "a") == b"between"
        one.rollback()
        write(other, table, value)
        assert seen(one, table) == [value] * 5


@pytest.mark.parametrize("table", sorted(KEPT))
def test_what_was_taken_back_is_forgotten(pair: tuple[SqliteTables, SqliteTables], table: str) -> None:
    one, _ = pair
    write(one, table, b"1")
    assert seen(one, table) == [b"1"] * 5
    for value in (b"2", None):
        write(one, table, value, ends=False)
        assert seen(one, table) == [b"1"] * 5
    one.begin(durable=False)
    assert not one.add(table, "a", b"2")
    one.put_many(table, [("a", b"3"), ("b", b"4")])
    assert one.get(table, "a") == b"3"
    one.rollback()
    assert seen(one, table) == [b"1"] * 5


def test_a_row_that_is_kept_was_checked_when_it_was_read(pair: tuple[SqliteTables, SqliteTables]) -> None:
    one, other = pair
    write(one, "refs", b"1")
    other._execute("UPDATE refs SET value=x'32' WHERE key='a'")
    for _ in range(2):
        with pytest.raises(Corrupt), one.reading():
            one.get("refs", "a")
    other._execute("UPDATE refs SET value=x'31' WHERE key='a'")
    assert seen(one, "refs") == [b"1"] * 5


def test_no_more_rows_are_kept_than_memory_is_meant_for(pair: tuple[SqliteTables, SqliteTables]) -> None:
    one, _ = pair
    with one.reading():
        for n in range(5000):
            one.get("runs", str(n))
    assert 0 < len(one._kept) <= 1000


def rows(tables: SqliteTables, table: str) -> list[list[str]]:
    """The keys under a prefix, as they are read among reads that belong together and in a transaction; each twice."""
    with tables.reading():
        found = [[key for key, _ in tables.scan(table, "a")] for _ in range(2)]
    tables.begin(durable=False)
    found += [[key for key, _ in tables.scan(table, "a")] for _ in range(2)]
    tables.rollback()
    return found


@pytest.mark.parametrize("table", ["open_runs", "refs", "standings"])
def test_where_nothing_was_found_what_came_since_is(pair: tuple[SqliteTables, SqliteTables], table: str) -> None:
    one, other = pair
    for writer in (one, other):
        assert rows(one, table) == [[]] * 4
        write(writer, table, b"1")
        assert rows(one, table) == [["a"]] * 4
        write(writer, table, None)
    for put in (lambda: one.add(table, "ab", b"1"), lambda: one.put_many(table, [("ab", b"1")])):
        with one.reading():
            assert not list(one.scan(table, "a"))
        one.begin(durable=False)
        put()
        assert [key for key, _ in one.scan(table, "a")] == ["ab"]
        one.delete(table, "ab")
        assert not list(one.scan(table, "a"))
        put()
        one.rollback()
        assert rows(one, table) == [[]] * 4


def test_nothing_is_asked_for_twice_where_nothing_was(pair: tuple[SqliteTables, SqliteTables]) -> None:
    one, _ = pair
    asked: list[str] = []
    with one.reading():
        one._db.exec_trace = lambda _cursor, sql, _values: bool(asked.__iadd__([sql]))
        assert not list(one.scan("open_runs", "a/")) and not list(one.scan("open_runs", "a/"))
        one._db.exec_trace = None
    assert len(asked) == 1
    with one.reading():
        for n in range(5000):
            list(one.scan("segments", str(n)))
    assert len(one._none["segments"]) <= 1000
