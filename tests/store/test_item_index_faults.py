"""What the index shows while it is written, killed, damaged or overrun: whole datasets of those allowed, or nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from kfm.errors import BadInput, Unavailable
from kfm.model.search.item_query import IndexedItem, ItemQuery
from kfm.parsing.cql2 import parse_filter
from kfm.parsing.planar_geometry import shape_of
from kfm.store.search import item_index, item_reader
from kfm.store.search.item_index import ItemIndex
from tests.store.random_items import BEGIN, FIELDS_HERE, HOUR, box_geometry, random_box

ALL = {"a": "1", "b": "1"}


def rows(dataset: str, count: int, tag: str = "", *, wide: bool = False) -> Iterator[IndexedItem]:
    r = random.Random(count)
    for n in range(count):
        box = (-180.0, -90.0, 180.0, 90.0) if wide else random_box(r)
        body = {"id": f"i{n}", "tag": tag, "collection": dataset, "geometry": box_geometry(box)}
        yield IndexedItem(
            collection=dataset, version="v", id=f"i{n}", bbox=box, start_ms=BEGIN + n * HOUR, end_ms=BEGIN + n * HOUR,
            properties={"name": tag}, body=msgspec.json.encode(body),
        )  # fmt: skip


def query(**conditions: object) -> ItemQuery:
    return ItemQuery(**{"allowed": ALL, "limit": 1000, **conditions})  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ItemIndex]:
    made = ItemIndex(str(tmp_path / "items.db"))
    for dataset in ALL:
        made.replace(dataset, "1", rows(dataset, 200))
    yield made
    made.close()


def test_what_is_not_allowed_is_neither_found_nor_counted(index: ItemIndex) -> None:
    box = (-180.0, -90.0, 180.0, 90.0)
    searches = [query(), query(bbox=box), query(ids=("i1",)), query(collections=("b",)), query(collections=("a", "b"))]
    for each in searches:
        assert index.search(each).matched
        for allowed in ({}, {"a": "2"}, {"c": "1"}, {"a": ""}, {"": "1"}):
            page = index.search(msgspec.structs.replace(each, allowed=allowed))
            assert (page.bodies, page.next, page.matched) == ([], None, 0)
    only = index.search(query(allowed={"a": "1", "b": "old"}, collections=("a", "b")))
    assert only.matched == 200 and {msgspec.json.decode(body)["collection"] for body in only.bodies} == {"a"}
    assert index.search(query(collections=())).matched == index.search(query(ids=())).matched == 0


def test_other_datasets_do_not_change_the_work_of_a_search(index: ItemIndex) -> None:
    def steps(each: ItemQuery) -> int:
        with index._reading() as reader:
            reader.db.execute("PRAGMA optimize").fetchall()
            reader.search(each)
            return reader.steps

    searches = [query(allowed={"a": "1"}, bbox=(0.0, 0.0, 90.0, 45.0)), query(allowed={"a": "1"}, limit=5)]
    before = [steps(each) for each in searches]
    index.replace("between", "1", rows("between", 1_000))
    index.replace("b", "2", rows("b", 1_000))
    assert [steps(each) for each in searches] == before


def test_one_item_is_found_by_its_id_and_mark_alone(index: ItemIndex) -> None:
    body = index.item("a", "1", "i7")
    assert body is not None and msgspec.json.decode(body)["collection"] == "a"
    assert index.item("a", "2", "i7") is None and index.item("c", "1", "i7") is None
    assert index.item("a", "1", "i9999") is None


def test_versions_name_each_dataset_and_removal_takes_all_of_it(index: ItemIndex, tmp_path: Path) -> None:
    index.remove("a")
    index.remove("never there")
    assert index.versions() == {"b": "1"} and index.search(query()).matched == 200
    with closing(apsw.Connection(str(tmp_path / "items.db"))) as db:
        counts = [db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("items", "bodies", "parts")]  # type: ignore[index]
        (boxes,) = db.execute("SELECT count(DISTINCT n >> 1) FROM tree").fetchone()  # type: ignore[misc]
    assert counts == [200, 200, 1] and boxes == 200


def test_a_replacement_that_fails_leaves_the_old_items(index: ItemIndex) -> None:
    def broken() -> Iterator[IndexedItem]:
        yield from rows("a", 700, "new")
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="gone"):
        index.replace("a", "2", broken())
    with pytest.raises(BadInput, match="one id"):
        index.replace("a", "2", [*rows("a", 3), *rows("a", 3)])
    assert index.versions() == ALL and index.search(query()).matched == 400


def test_a_reader_never_sees_a_half_replaced_dataset(index: ItemIndex) -> None:
    seen: set[tuple[str, ...]] = set()
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for mark in ("1", "2"):
                    page = index.search(query(allowed={"a": mark}, bbox=(-180.0, -90.0, 180.0, 90.0), limit=1000))
                    tags = {msgspec.json.decode(body)["tag"] for body in page.bodies}
                    assert len(tags) <= 1 and len(page.bodies) in (0, 200, 300), (len(page.bodies), tags)
                    seen.add((mark, *tags))
        except BaseException as problem:
            failures.append(problem)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for round_ in range(4):
        index.replace("a", "2", rows("a", 300, "two"))
        index.replace("a", "1", rows("a", 200, f"one {round_}"))
    done.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert ("2", "two") in seen and len(seen) > 3, seen


KILLED = """
import sys, os, signal
sys.path[:0] = ["src", "."]
from kfm.store.search.item_index import ItemIndex
from kfm.model.search.item_query import IndexedItem
index = ItemIndex(sys.argv[1])
def dying():
    for n in range(1_200):
        if n == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        yield IndexedItem(collection="a", version="v", id=str(n), bbox=(0.0, 0.0, 1.0, 1.0), start_ms=n, end_ms=n,
                          properties={}, body=b"{}")
index.replace("a", "2", dying())
"""


@pytest.mark.parametrize(
    "at", [700, pytest.param(0, marks=pytest.mark.long), pytest.param(1_199, marks=pytest.mark.long)]
)
def test_a_replacement_that_is_killed_leaves_the_old_items(index: ItemIndex, tmp_path: Path, at: int) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "items.db"), str(at)]
    ended = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": "src:."})
    assert ended.returncode == -signal.SIGKILL
    for reader in (index, ItemIndex(str(tmp_path / "items.db"))):
        assert reader.versions() == ALL and reader.search(query()).matched == 400
    index.replace("a", "2", rows("a", 20, "new"))
    assert index.search(query(allowed={"a": "2"})).matched == 20


def _zeros(path: Path) -> None:
    path.write_bytes(b"\0" * 9_000)


def _text(path: Path) -> None:
    path.write_bytes(b"not a database, but a longer text " * 300)


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 77])


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _older(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA user_version=0")


def _foreign(path: Path) -> None:
    path.unlink()
    with closing(apsw.Connection(str(path))) as db:
        db.execute("CREATE TABLE other(x)")


def _page(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[4096:] = os.urandom(len(body) - 4096)
    path.write_bytes(body)


@pytest.mark.parametrize("damage", [_zeros, _text, _truncated, _emptied, _older, _foreign, _page])
def test_a_damaged_file_is_made_anew(index: ItemIndex, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "items.db"
    index.close()
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    damage(path)
    fresh = ItemIndex(str(path))
    for _ in range(2):  # damage beyond the first page is met by the first that reads there
        try:
            held = fresh.versions()
            page = fresh.search(query(bbox=(-180.0, -90.0, 180.0, 90.0)))
        except Unavailable:
            continue
        break
    assert held == {} and page.bodies == [], "the damage did not show"
    fresh.replace("a", "1", rows("a", 50))
    assert fresh.search(query()).matched == 50
    fresh.close()


def test_a_body_that_changed_on_the_disk_is_not_shown(index: ItemIndex, tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / "items.db"))) as db:
        db.execute("UPDATE bodies SET body = CAST(replace(body, '\"a\"', '\"b\"') AS BLOB) WHERE n = 5")
        assert db.changes() == 1
    with pytest.raises(Unavailable, match="damaged"):
        index.search(query())
    assert index.versions() == {}


def test_a_part_that_points_at_rows_of_another_dataset_is_not_shown(index: ItemIndex, tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / "items.db"))) as db:
        db.execute("UPDATE parts SET n = 9 WHERE dataset = 'a'")
        db.execute("UPDATE parts SET n = 1 WHERE dataset = 'b'")
    with pytest.raises(Unavailable, match="damaged"):
        index.search(query(allowed={"b": "1"}))


def test_a_file_that_another_process_made_anew_is_opened_again(index: ItemIndex, tmp_path: Path) -> None:
    other = ItemIndex(str(tmp_path / "items.db"))
    assert other.versions() == ALL
    for name in ("items.db-wal", "items.db-shm", "items.db"):
        (tmp_path / name).unlink()
    other.replace("c", "1", rows("c", 5))
    assert index.versions() == other.versions() == {"c": "1"}
    other.close()


def test_a_search_that_would_take_too_long_is_refused(index: ItemIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = query(filter=parse_filter({"op": "like", "args": [{"property": "name"}, "%a%b"]}, FIELDS_HERE))
    assert index.search(slow).bodies == []
    monkeypatch.setattr(item_reader, "_TICK", 100)
    monkeypatch.setattr(item_reader, "_MOST_STEPS", 1_000)
    fresh = ItemIndex(index._path)
    with pytest.raises(BadInput, match="too long"):
        fresh.search(slow)
    monkeypatch.setattr(item_reader, "_MOST_STEPS", 10**9)
    star = {"type": "MultiPoint", "coordinates": [[n / 10, n / 20] for n in range(1000)]}
    monkeypatch.setattr(item_reader, "_MOST_COMPARED", 2_000)
    with pytest.raises(BadInput, match="too long"):
        fresh.search(query(intersects=shape_of(star, 1000)))
    assert fresh.search(query(limit=5)).matched == 400  # the connection still serves
    fresh.close()


def test_old_matches_behind_many_new_ones_are_found_through_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_reader, "FEW", 10)
    monkeypatch.setattr(item_reader, "LEAST", 10)
    monkeypatch.setattr(item_reader, "_TICK", 100)
    monkeypatch.setattr(item_reader, "_TRIAL", 3_000)
    index = ItemIndex(str(tmp_path / "items.db"))
    here, there = (0.0, 0.0, 1.0, 1.0), (50.0, 0.0, 51.0, 1.0)
    made = list(rows("a", 3_000))
    index.replace("a", "1", [msgspec.structs.replace(row, bbox=here if n < 40 else there, body=b"{}")
                             for n, row in enumerate(made)])  # fmt: skip
    trees: list[bool] = []
    inner = item_reader._PartSearch._rows

    def watched(self: object, after: object, *, through_tree: bool) -> object:
        trees.append(through_tree)
        return inner(self, after, through_tree=through_tree)  # type: ignore[arg-type]

    monkeypatch.setattr(item_reader._PartSearch, "_rows", watched)
    page = index.search(query(allowed={"a": "1"}, bbox=here, limit=30))
    assert trees == [False, True], "the walk along time did not give up"
    assert page.next is not None and page.next[-1] == "i10" and len(page.bodies) == 30
    index.close()


def test_a_cursor_of_another_order_is_refused(index: ItemIndex) -> None:
    with pytest.raises(BadInput, match="another search"):
        index.search(query(after=("a", "i5")))


def test_nobody_but_its_owner_can_read_the_file(index: ItemIndex, tmp_path: Path) -> None:
    assert (tmp_path / "items.db").stat().st_mode & 0o777 == 0o600
    assert item_index.SCHEMA
