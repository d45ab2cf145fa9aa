"""The index finds what a naive search in plain Python finds: the same items, in the same order, in pages that join."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kfm.model.search.item_query import ItemPage, ItemQuery, with_position
from kfm.store.search import item_reader
from kfm.store.search.item_index import ItemIndex
from tests.store.random_items import Rows, ids_of, naive_search, random_query, random_rows


def filled(path: Path, rows: Rows) -> tuple[ItemIndex, dict[str, str]]:
    index = ItemIndex(str(path))
    marks = {dataset: f"mark of {dataset}" for dataset in rows}
    for dataset, items in rows.items():
        index.replace(dataset, marks[dataset], [item["row"] for item in items.values()])
    return index, marks


def all_pages(index: ItemIndex, query: ItemQuery) -> tuple[list[bytes], list[ItemPage]]:
    bodies: list[bytes] = []
    pages: list[ItemPage] = []
    while True:
        page = index.search(query)
        pages.append(page)
        bodies += page.bodies
        if page.next is None:
            return bodies, pages
        assert len(page.bodies) == query.limit
        query = with_position(query, page.next)


def compared(index: ItemIndex, rows: Rows, marks: dict[str, str], r: random.Random, count: int) -> dict[str, int]:
    seen = {"found": 0, "counted": 0, "joined": 0}
    for _ in range(count):
        query, more = random_query(r, marks)
        wanted = naive_search(rows, marks, query, more)
        if query.limit == 1:
            wanted = wanted[:5]
            query = msgspec.structs.replace(query, limit=5)
            page = index.search(query)
            found, pages = page.bodies, [page]
        else:
            found, pages = all_pages(index, query)
            assert {page.matched for page in pages} <= {None, len(wanted)}, query
        assert ids_of(found) == ids_of(wanted), (
            query.bbox,
            [i["row"].bbox for d in rows.values() for i in d.values() if i["row"].body in set(found) ^ set(wanted)],
            query,
            more,
        )
        assert found == wanted
        seen["found"] += bool(found)
        seen["counted"] += pages[0].matched is not None
        seen["joined"] += len(pages) > 1
    return seen


@pytest.mark.parametrize("few", [3_000, 20, 0], ids=["through the tree", "mixed", "along time"])
def test_random_searches_find_what_a_naive_search_finds(
    few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.setattr(item_reader, "FEW", few)
    monkeypatch.setattr(item_reader, "LEAST", few)
    monkeypatch.setattr(item_reader, "MOST_COUNTED", few)
    monkeypatch.setattr(item_reader, "_TICK", 200)
    monkeypatch.setattr(item_reader, "_TRIAL", 1_000)
    r = random.Random(few)
    rows = random_rows(r, 5, 120)
    index, marks = filled(tmp_path / "items.db", rows)
    seen = compared(index, rows, marks, r, 150)
    assert seen["found"] > 50 and seen["joined"] > 20, seen
    assert seen["counted"] == 150 if few == 3_000 else seen["counted"] < 140
    record_property("counted", ("searches next to a naive one", 150))
    index.close()


@pytest.mark.long
def test_thousands_of_random_searches_find_what_a_naive_search_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    r = random.Random(7)
    monkeypatch.setattr(item_reader, "_TICK", 500)
    rows = random_rows(r, 6, 600)
    index, marks = filled(tmp_path / "items.db", rows)
    for few in (3_000, 200, 20, 0):
        monkeypatch.setattr(item_reader, "LEAST", few)
        monkeypatch.setattr(item_reader, "FEW", few)
        monkeypatch.setattr(item_reader, "_TRIAL", r.choice([500, 20_000]))
        compared(index, rows, marks, r, 1_000)
    record_property("counted", ("searches next to a naive one", 4_000))
    index.close()
