"""Rows that a process keeps in memory agree with the server, whatever other processes write."""

from __future__ import annotations

import random

import pytest

from kfm.clock import SystemClock
from kfm.store.postgres import PostgresTables
from kfm.store.postgres.row_cache import Range, RowCache
from kfm.store.postgres.statements import SMALL
from tests.servers import postgres
from tests.store.backends import keys, write


class Ticking(SystemClock):
    """Time passes when the test says so."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def pair(clock: Ticking) -> tuple[PostgresTables, PostgresTables]:
    try:
        cluster = postgres.shared()
    except postgres.Absent as problem:
        postgres.absent(problem)
    schema = postgres.new_schema()
    return PostgresTables(cluster.dsn(), schema, 5, clock=clock), PostgresTables(cluster.dsn(), schema, 5)


def asked(tables: PostgresTables, since: int = 0) -> int:
    return tables.round_trips - since


@pytest.mark.parametrize("table", ["runs", "meta", "history"])
def test_a_transaction_asks_nothing_twice_and_sees_what_others_wrote(
    table: str, pair: tuple[PostgresTables, PostgresTables]
) -> None:
    one, other = pair
    for n in range(4):
        write(other, {"a": b"%d" % n, f"b{n}": b""}, table)
        before = one.round_trips
        one.begin()
        for _ in range(3):
            assert one.get(table, "a") == b"%d" % n
            assert one.get(table, "none") is None
            assert len(list(one.scan(table, "b"))) == n + 1
            assert list(one.scan(table, "x/")) == []
        one.rollback()
        assert asked(one, before) <= 5
        before = one.round_trips
        one.begin()
        assert one.get(table, "a") == b"%d" % n
        one.rollback()
        assert asked(one, before) == 1, "nobody has written, so nothing is asked but that"


def test_a_table_that_grew_large_is_not_read_as_a_whole_any_more(pair: tuple[PostgresTables, PostgresTables]) -> None:
    one, other = pair
    for size in (SMALL - 1, SMALL, SMALL + 1, SMALL + 2):
        write(other, {f"{n:03d}": b"%d" % n for n in range(size)}, "outbox")
        with one.reading():
            assert keys(one.scan("outbox")) == [f"{n:03d}" for n in range(size)]
            assert one.get("outbox", f"{size - 1:03d}") == b"%d" % (size - 1)
            assert one.get("outbox", f"{size:03d}") is None


def test_a_read_that_may_be_a_moment_old_is_no_older(
    pair: tuple[PostgresTables, PostgresTables], clock: Ticking
) -> None:
    one, other = pair
    write(other, {"a": b"1"}, "claims")
    write(other, {"a": b"1"}, "refs")
    with one.recent():
        clock.passed += 1
        assert (one.get("claims", "a"), one.get("refs", "a")) == (b"1", b"1")
        before = one.round_trips
        assert one.get("claims", "a") == b"1"
        assert asked(one, before) == 0
        write(other, {"a": b"2"}, "claims")
        write(other, {"a": b"2"}, "refs")
        assert one.get("claims", "a") == b"1"
        assert one.get("refs", "a") == b"2", "a ref is never old"
        clock.passed += 0.3
        assert one.get("claims", "a") == b"2"
        write(one, {"a": b"3"}, "claims")
        assert one.get("claims", "a") == b"3", "what this process wrote is there at once"
        write(other, {"a": b"4"}, "claims")
        one.begin()
        assert one.get("claims", "a") == b"4", "nor is anything in a transaction"
        one.rollback()
        assert one.get("claims", "a") == b"4"
    write(other, {"a": b"5"}, "claims")
    assert one.get("claims", "a") == b"5"


def test_two_processes_with_caches_agree_with_a_dictionary(pair: tuple[PostgresTables, PostgresTables]) -> None:
    random_ = random.Random(3)
    rows: dict[str, bytes] = {}
    tables = ("runs", "outbox", "claims")
    for n in range(150):
        one = random_.choice(pair)
        table = random_.choice(tables)
        one.begin(random_.random() < 0.2)
        key = f"{random_.randrange(12):02d}"
        assert one.get(table, key) == rows.get(f"{table}/{key}")
        value = None if random_.random() < 0.3 else b"%d" % n
        if value is None:
            one.delete(table, key)
        else:
            one.put(table, key, value)
        mine = {**rows, f"{table}/{key}": value}
        expected = {name: value for name, value in mine.items() if value is not None}
        for each in tables:
            found = {f"{each}/{name}": value for name, value in one.scan(each)}
            assert found == {name: value for name, value in expected.items() if name.startswith(f"{each}/")}
        if random_.random() < 0.2:
            one.rollback()
        else:
            one.commit()
            rows = expected


def test_a_full_cache_is_emptied_and_never_wrong() -> None:
    cache = RowCache()
    cache.keep_whole("meta", [("a", b"1")], SMALL)
    cache.keep_page("runs", Range(b"", None, False, 32), [])
    assert cache.has("meta", "b") and cache.page("runs", Range(b"", None, False, 32)) == []
    for n in range(30_000):
        cache.keep("runs", f"{n}", b"")
    assert not cache.has("meta", "b")
    assert cache.page("runs", Range(b"", None, False, 32)) is None
    cache.keep("runs", "large", b"x" * (65 << 10))
    assert not cache.has("runs", "large")
