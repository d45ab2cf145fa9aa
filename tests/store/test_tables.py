"""One contract, every backend, no exemptions: the promises of Tables."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.errors import BadInput
from kfm.model.ports import Tables
from tests.store.backends import ALL, Backend, content, keys, write

# In the order of code points. UTF-16 would put the astral ones before U+E000; bytes of UTF-8 do not.
ORDERED = (
    "", "\0", "\0a", "\x01", " ", "0", "9", "A", "Z", "_", "a", "a\0", "a/", "a0", "aa", "b", "~", "\x7f", "\x80",
    "\xe9", "\u0301", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufeff", "\uffff", "\U00010000", "\U0001f5fa",
    "\U0010fffe", "\U0010ffff", "\U0010ffff\U0010ffff",
)  # fmt: skip


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


@pytest.fixture
def tables(backend: Backend) -> Iterator[Tables]:
    opened = backend.open()
    yield opened
    opened.close()


def test_what_was_put_is_read_back(tables: Tables) -> None:
    write(tables, {"a": b"1", "b": b"", "c": bytes(range(256))})
    assert tables.get("runs", "a") == b"1"
    assert tables.get("runs", "b") == b""
    assert tables.get("runs", "c") == bytes(range(256))
    assert tables.get("runs", "d") is None
    assert tables.get("refs", "a") is None


def test_a_later_put_replaces_an_earlier_one(tables: Tables) -> None:
    write(tables, {"a": b"1"})
    tables.begin()
    tables.put("runs", "a", b"2")
    tables.put("runs", "a", b"3")
    assert tables.get("runs", "a") == b"3"
    tables.commit()
    assert list(tables.scan("runs")) == [("a", b"3")]


@pytest.mark.parametrize("value", [b"\xff", b"\xff\xff", b"\0", b"null", b"\xed\xa0\x80", b"deleted here", b"\n"])
def test_any_bytes_may_be_a_value(backend: Backend, tables: Tables, value: bytes) -> None:
    write(tables, {"a": value}, "objects")
    assert tables.get("objects", "a") == value
    assert list(tables.scan("objects")) == [("a", value)]
    assert backend.reopen(tables).get("objects", "a") == value


def test_a_megabyte_is_a_value_like_any_other(backend: Backend, tables: Tables) -> None:
    body = random.Random(1).randbytes(1 << 20)
    write(tables, {"a": body, "b": b"x" * (5 << 20)}, "objects")
    again = backend.reopen(tables)
    assert again.get("objects", "a") == body
    assert again.get("objects", "b") == b"x" * (5 << 20)


def test_put_many_is_many_puts(tables: Tables) -> None:
    tables.begin()
    tables.put_many("objects", ((f"{n:04d}", b"%d" % n) for n in range(1234)))
    tables.put_many("objects", [])
    tables.put_many("objects", [("0001", b"again")])
    tables.commit()
    assert len(list(tables.scan("objects"))) == 1234
    assert tables.get("objects", "0001") == b"again"
    assert tables.get("objects", "1233") == b"1233"


def test_what_was_deleted_is_gone_and_may_come_back(backend: Backend, tables: Tables) -> None:
    write(tables, {"a": b"1", "b": b"2"})
    write(tables, {"a": None, "never there": None})
    assert tables.get("runs", "a") is None
    assert keys(tables.scan("runs")) == ["b"]
    tables = backend.reopen(tables)
    assert keys(tables.scan("runs")) == ["b"]
    write(tables, {"a": b"3"})
    assert list(tables.scan("runs")) == [("a", b"3"), ("b", b"2")]


def test_a_rollback_leaves_everything_as_it_was(backend: Backend, tables: Tables) -> None:
    write(tables, {"a": b"1", "b": b"2"})
    tables.begin()
    tables.put("runs", "a", b"changed")
    tables.delete("runs", "b")
    tables.put_many("runs", [("c", b"3"), ("d", b"4")])
    tables.delete("runs", "c")
    assert keys(tables.scan("runs")) == ["a", "d"]
    tables.rollback()
    assert content(tables) == {("runs", "a"): b"1", ("runs", "b"): b"2"}
    write(tables, {"e": b"5"})
    assert content(backend.reopen(tables)) == {("runs", "a"): b"1", ("runs", "b"): b"2", ("runs", "e"): b"5"}


def test_a_transaction_reads_its_own_writes(tables: Tables) -> None:
    write(tables, {"a": b"1", "c": b"3"})
    tables.begin()
    tables.put("runs", "b", b"2")
    tables.delete("runs", "c")
    assert list(tables.scan("runs")) == [("a", b"1"), ("b", b"2")]
    assert list(tables.scan("runs", reverse=True)) == [("b", b"2"), ("a", b"1")]
    assert tables.get("runs", "c") is None
    tables.commit()


def test_an_empty_transaction_changes_nothing(backend: Backend, tables: Tables) -> None:
    for durable in (True, False):
        tables.begin(durable)
        tables.commit()
        tables.begin(durable)
        tables.rollback()
    write(tables, {"a": b"1"})
    tables.begin()
    tables.commit()
    assert content(backend.reopen(tables)) == {("runs", "a"): b"1"}


def test_a_transaction_inside_a_transaction_is_refused_and_harms_nothing(tables: Tables) -> None:
    tables.begin()
    tables.put("runs", "a", b"1")
    with pytest.raises(RuntimeError, match="open already"):
        tables.begin()
    tables.put("runs", "b", b"2")
    tables.commit()
    assert keys(tables.scan("runs")) == ["a", "b"]


def test_what_is_committed_without_a_sync_is_visible_at_once_and_after_opening_again(
    backend: Backend, tables: Tables
) -> None:
    write(tables, {"a": b"1"}, durable=False)
    assert tables.get("runs", "a") == b"1"
    tables = backend.reopen(tables)
    assert tables.get("runs", "a") == b"1"
    write(tables, {"b": b"2"}, durable=True)
    write(tables, {"c": b"3"}, durable=False)
    assert keys(backend.reopen(tables).scan("runs")) == ["a", "b", "c"]


def test_tables_are_apart_and_prefixes_do_not_leak(tables: Tables) -> None:
    for table in ("runs", "refs", "objects", "ledger", "outbox", "meta", "history"):
        write(tables, {"k": table.encode()}, table)
    for table in ("runs", "refs", "objects", "ledger", "outbox", "meta", "history"):
        assert list(tables.scan(table)) == [("k", table.encode())]


def test_a_scan_is_in_the_order_of_code_points(backend: Backend, tables: Tables) -> None:
    shuffled = list(ORDERED)
    random.Random(7).shuffle(shuffled)
    write(tables, {key: key.encode() for key in shuffled})
    for _ in range(2):
        assert tuple(keys(tables.scan("runs"))) == ORDERED
        assert tuple(keys(tables.scan("runs", reverse=True))) == ORDERED[::-1]
        assert all(value == key.encode() for key, value in tables.scan("runs"))
        tables = backend.reopen(tables)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_agrees_with_its_definition_for_every_prefix_after_and_limit(tables: Tables, reverse: bool) -> None:
    write(tables, dict.fromkeys(ORDERED, b""))
    for prefix in ("", "a", "a/", "aa", "\0", "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "z"):
        for after in ("", "a", "a\0", "b", "\ud7ff", "\ufffe", "\U0001f5fa", "\U0010ffff"):
            expected = [
                key
                for key in ORDERED
                if key.startswith(prefix) and (not after or (key < after if reverse else key > after))
            ]
            if reverse:
                expected.reverse()
            for limit in (-1, 0, 1, 2, 500, 10_000):
                found = keys(tables.scan("runs", prefix, after=after, reverse=reverse, limit=limit))
                assert found == (expected if limit < 0 else expected[:limit]), (prefix, after, limit)


@pytest.mark.parametrize("count", [499, 500, 501, 1000, 1001])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_scans_end_and_miss_nothing(tables: Tables, count: int, reverse: bool) -> None:
    names = ["", *(f"{n:05d}" for n in range(count - 1))]
    tables.begin()
    tables.put_many("runs", ((name, b"") for name in names))
    tables.commit()
    expected = sorted(names, reverse=reverse)
    assert keys(tables.scan("runs", reverse=reverse)) == expected
    assert keys(tables.scan("runs", reverse=reverse, limit=501)) == expected[:501]


def test_rows_may_be_deleted_and_added_while_a_scan_goes_on(tables: Tables) -> None:
    tables.begin()
    tables.put_many("runs", ((f"{n:05d}", b"") for n in range(1200)))
    tables.commit()
    seen = []
    for n, (key, _) in enumerate(tables.scan("runs")):
        seen.append(key)
        if n % 100 == 0:
            write(tables, {key: None, f"{n:05d}x": b""}, durable=False)
    assert {f"{n:05d}" for n in range(1200)} <= set(seen)
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("key", ["\ud800", "a\udfffb", "\udcff"])
def test_a_key_that_is_not_unicode_text_is_refused_and_nothing_is_written(tables: Tables, key: str) -> None:
    write(tables, {"a": b"1"})
    tables.begin()
    tables.put("runs", "b", b"2")
    for attempt in (
        lambda: tables.put("runs", key, b""),
        lambda: tables.put_many("runs", [("c", b""), (key, b"")]),
        lambda: tables.delete("runs", key),
        lambda: tables.get("runs", key),
        lambda: list(tables.scan("runs", key)),
        lambda: list(tables.scan("runs", after=key)),
    ):
        with pytest.raises(BadInput, match="not valid Unicode"):
            attempt()
    tables.rollback()
    assert content(tables) == {("runs", "a"): b"1"}
    write(tables, {"d": b"4"})
    assert keys(tables.scan("runs")) == ["a", "d"]


def test_threads_wait_for_each_other_and_see_only_whole_transactions(tables: Tables) -> None:
    """Two rows that are always written together are never seen apart, and no write is lost."""
    write(tables, {"a": b"0", "b": b"0", "n": b"0"})
    apart: list[tuple[bytes, ...]] = []
    errors: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for i in range(60):
                tables.begin(durable=False)
                n = int(tables.get("runs", "n") or b"") + 1
                value = b"%d/%d" % (name, i)
                tables.put("runs", "a", value)
                if i % 7 == 3:
                    tables.rollback()
                    continue
                tables.put("runs", "b", value)
                tables.put("runs", "n", b"%d" % n)
                tables.commit()
                rows = dict(tables.scan("runs"))
                if rows["a"] != rows["b"]:
                    apart.append((rows["a"], rows["b"]))
        except BaseException as problem:
            errors.append(problem)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert not apart
    assert tables.get("runs", "n") == b"%d" % (4 * sum(1 for i in range(60) if i % 7 != 3))


def test_an_overlay_never_changes_what_is_below_it(tmp_path: Path) -> None:
    for kind in ("sqlite", "jsonl"):
        backend = Backend(f"overlay-{kind}", tmp_path / kind)
        (tmp_path / kind).mkdir()
        below = Backend(kind, tmp_path / kind)
        opened = below.open()
        write(opened, {"a": b"1", "b": b"2"})
        opened.close()
        overlay = backend.open()
        write(overlay, {"a": None, "b": b"changed", "c": b"3"})
        assert dict(overlay.scan("runs")) == {"b": b"changed", "c": b"3"}
        assert keys(overlay.scan("runs", reverse=True, limit=1)) == ["c"]
        overlay.close()
        assert dict(below.open().scan("runs")) == {"a": b"1", "b": b"2"}
