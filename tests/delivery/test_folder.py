"""The catalog that grows with every run equals a rebuilt one, whatever was done and in which order."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kfm.app.metadata.catalogs import build, differences
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import Session
from kfm.delivery.catalog_content import Cataloguing
from kfm.projections import stac
from tests.delivery.sites import Site, tree
from tests.sampling import sampled


def rows(count: int, **other: str) -> dict[str, str]:
    return {**{f"k{n}": f"v{n}" for n in range(count)}, **other}


@pytest.fixture
def site(place: Path) -> Site:
    return Site(place / "site", ("demo", "other"))


def item_names(site: Site) -> set[str]:
    return {path.name for path in (site.folder / "catalog/demo/items").glob("*")}


def test_what_is_published_is_described_with_links_that_lead_somewhere(site: Site) -> None:
    with site.open() as session:
        site.ingest(session, rows(3))
        assert not (site.folder / "catalog").exists(), "processed is not published"
        version = site.operate(session, "promote").moves[0].after
    root = json.loads(site.catalog["catalog.json"])
    assert [link["href"] for link in root["links"] if link["rel"] == "child"] == ["./demo/collection.json"]
    collection = json.loads(site.catalog["demo/collection.json"])
    assert collection["version"] == version and collection["title"] == "The demo"
    assert len([link for link in collection["links"] if link["rel"] == "item"]) == 3 == len(item_names(site))
    assert [each["version"] for each in json.loads(site.catalog["catalog.jsonld"])["dataset"]] == [version]
    site.sound()


def test_a_newer_version_is_current_and_the_older_one_is_linked(site: Site) -> None:
    with site.open() as session:
        first = site.publish(session, rows(3))
        second = site.publish(session, rows(4, k0="other"))
        third = site.publish(session, {"k1": "v1"})
    current = json.loads(site.catalog["demo/collection.json"])
    older = {name: json.loads(body) for name, body in site.catalog.items() if name.startswith("demo/versions/")}
    assert current["version"] == third and {each["version"] for each in older.values()} == {first, second}
    assert all(each["deprecated"] for each in older.values())
    assert len(item_names(site)) == 1
    site.sound()


def test_after_one_changed_key_only_what_changed_is_written(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.sinks.folder_tree import FolderTree

    with site.open() as session:
        for text in "uvw":
            site.publish(session, rows(40, k7=text))
        before = {path: (site.folder / "catalog" / path).stat().st_ino for path in site.catalog}
        looked: list[str] = []
        real = FolderTree._place

        def place(tree: FolderTree, path: str) -> str:
            looked.append(path)
            return real(tree, path)

        monkeypatch.setattr(FolderTree, "_place", place)
        site.publish(session, rows(40, k7="x"))
    after = {path: (site.folder / "catalog" / path).stat().st_ino for path in site.catalog}
    written = {path for path, inode in after.items() if before.get(path) != inode}
    items = {path for path in written if "/items/" in path}
    assert len(items) == 1 and "k7" in items.pop()
    assert {path for path in looked if "/items/" in path} == {path for path in written if "/items/" in path}
    superseded = {path for path in written if path.startswith("demo/versions/")}
    assert len(superseded) == 2, "what is said of those before these did not change"
    site.sound()


def test_a_rollback_gives_the_very_catalog_that_was_there(site: Site) -> None:
    with site.open() as session:
        site.publish(session, rows(3))
        at_first = site.catalog
        site.publish(session, {"k0": "x", "new": "y"})
        assert site.catalog != at_first
        site.operate(session, "rollback")
        assert site.catalog == at_first
        site.sound()


def test_ingest_rollback_ingest_is_ingest(site: Site) -> None:
    with site.open() as session:
        site.publish(session, rows(3))
        site.publish(session, rows(4))
        once = site.catalog
        site.operate(session, "rollback", {"ref": "published/demo"})
        site.operate(session, "rollback", {"ref": "processed/demo"})
        site.ingest(session, rows(4))
        site.operate(session, "promote", {"to": session.state.refs.at("processed/demo")})
        assert site.catalog == once
        site.sound()


def test_what_is_withdrawn_vanishes_and_nothing_else(site: Site) -> None:
    with site.open() as session:
        site.publish(session, rows(2), "other")
        alone = site.catalog
        site.publish(session, rows(3))
        site.publish(session, rows(4))
        site.operate(session, "rollback", {"to": "nothing", "ref": "published/demo"})
        assert site.catalog == alone
        assert not (site.folder / "catalog/demo").exists()
        site.sound()
        site.publish(session, rows(5))
        site.sound()


def test_a_key_that_changed_and_changed_back_is_said_to_be_of_the_run_that_made_it_last(site: Site) -> None:
    with site.open() as session:
        site.publish(session, rows(3))
        site.ingest(session, rows(3, k1="x"))
        last = site.ingest(session, rows(3, k2="y"))  # k1 is as it was, made again
        site.operate(session, "promote")
        item = json.loads(next(body for name, body in site.catalog.items() if "k1" in name))
        assert item["properties"]["kfm:run_id"] == last.run_id
        site.sound()


def test_what_an_unpublished_version_made_is_linked_where_it_was_published(site: Site) -> None:
    with site.open() as session:
        site.ingest(session, rows(3))
        site.ingest(session, rows(3, k1="x"))
        site.operate(session, "promote")
        site.sound()


def test_a_version_that_is_no_longer_kept_is_no_longer_linked(place: Path) -> None:
    site = Site(place / "site", more="publish_retention: 1\n")
    with site.open() as session:
        for n in range(4):
            site.publish(session, rows(3, k0=f"w{n}"))
            site.sound()
    assert len([name for name in site.catalog if "/versions/" in name]) == 1


def test_during_a_freeze_nothing_is_added_and_a_withdrawal_is_delivered(site: Site) -> None:
    with site.open() as session:
        site.publish(session, rows(3))
        site.ingest(session, rows(4))
        before = site.catalog
        run_operation(session, "promote", "demo")
        run_operation(session, "freeze", "demo")
        settle_session(session)
        assert site.catalog == before
        site.operate(session, "thaw")
        assert site.catalog != before
        site.sound()
        run_operation(session, "rollback", "demo", {"to": "nothing", "ref": "published/demo"})
        site.ingest(session, rows(2))
        run_operation(session, "promote", "demo")
        run_operation(session, "freeze", "demo")
        settle_session(session)
        assert not (site.folder / "catalog/demo").exists()
        site.operate(session, "thaw")
        site.sound()


def test_a_catalog_rebuilt_during_a_freeze_is_the_same(site: Site) -> None:
    with site.open() as session:
        site.publish(session, rows(3))
        site.publish(session, rows(5))
        before = site.catalog
        site.operate(session, "freeze")
        build(session)
        assert site.catalog == before and differences(session) == []
        (site.folder / "catalog/demo/collection.json").unlink()
        assert [each.kind for each in differences(session)] == ["missing"]
        build(session)
        assert site.catalog == before
        run_operation(session, "rollback", "demo", {"to": "nothing", "ref": "published/demo"})
        settle_session(session)
        build(session)
        assert not (site.folder / "catalog/demo").exists() and differences(session) == []


@pytest.mark.parametrize("seed", sampled(range(4)))
def test_a_catalog_after_any_operations_equals_a_rebuilt_one(
    seed: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[str] = []
    for way in ("_gone_on", "_gone_back", "documents"):
        _noting(monkeypatch, way, ways)
    chance = random.Random(seed)
    site = Site(place / "site", more="publish_retention: 2\n" if seed % 2 else "")
    now = rows(4)
    with site.open() as session:
        site.publish(session, now)
        for _ in range(25):
            _something(site, session, chance, now)
            grown = site.catalog
            noted = list(ways)
            assert grown == site.fresh()
            ways[:] = noted
    assert {"_gone_on", "documents"} <= set(ways), "told by what changed alone, and as a whole"
    assert seed or "_gone_back" in ways
    site.sound()


def _noting(monkeypatch: pytest.MonkeyPatch, way: str, ways: list[str]) -> None:
    real = getattr(Cataloguing, way)

    def noted(self: Cataloguing, *words: Any) -> Any:
        ways.append(way)
        return real(self, *words)

    monkeypatch.setattr(Cataloguing, way, noted)


def _something(site: Site, session: Session, chance: random.Random, now: dict[str, str]) -> None:
    what = chance.randrange(20)
    if what < 8:
        for _ in range(chance.randrange(1, 3)):
            key = f"k{chance.randrange(8)}"
            if chance.random() < 0.3 and len(now) > 2:
                now.pop(key, None)
            else:
                now[key] = f"v{chance.randrange(3)}"
        site.ingest(session, now)
    elif what < 16:
        run_operation(session, "promote", "demo")
    elif what < 19:
        refs = [ref for ref in ("published/demo", "processed/demo") if len(list(session.state.refs.history(ref))) > 1]
        if refs:
            run_operation(session, "rollback", "demo", {"ref": chance.choice(refs)})
    else:
        run_operation(session, "rollback", "demo", {"to": "nothing", "ref": "published/demo"})
    settle_session(session)


def test_a_folder_that_was_there_keeps_what_is_not_ours(site: Site) -> None:
    mine = site.folder / "catalog/README.md"
    mine.parent.mkdir()
    mine.write_text("of somebody")
    with site.open() as session:
        site.publish(session, rows(2))
    assert mine.read_text() == "of somebody" and "demo/collection.json" in tree(site.folder / "catalog")


def test_a_large_collection_links_to_groups_of_items_which_another_value_does_not_change(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stac, "GROUPED", 20)
    monkeypatch.setattr(stac, "LEAST_OF_GROUP", 4)
    monkeypatch.setattr(stac, "MOST_OF_GROUP", 8)

    def groups() -> dict[str, bytes]:
        return {path: body for path, body in site.catalog.items() if "/groups/" in path}

    with site.open() as session:
        site.publish(session, rows(40))
        before, size = groups(), len(site.catalog["demo/collection.json"])
        assert len(before) >= 5 and b'"item"' not in site.catalog["demo/collection.json"]
        site.sound()
        site.publish(session, rows(40, k7="x"))
        assert groups() == before and len(site.catalog["demo/collection.json"]) < size + 1000
        site.sound()
        site.publish(session, rows(41, k7="x"))
        changed = {path for path, body in groups().items() if before.get(path) != body}
        assert 1 <= len(changed) < len(groups())
        site.sound()
        site.publish(session, rows(18))
        assert groups() == {} and b'"item"' in site.catalog["demo/collection.json"]
        site.sound()
