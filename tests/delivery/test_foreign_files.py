"""A catalog is written into a folder that an operator chose, perhaps wrongly. Foreign files stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.metadata.catalog_validation import validate
from kfm.app.metadata.catalogs import build, differences
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.config import load
from kfm.errors import BadInput
from tests.delivery.sites import Site, tree

OTHERS = (
    "demo/notes.txt",
    "demo/collection.txt",
    "demo/data/2026.csv",
    "demo/items/photo.jpg",
    "demo/items/below/item.json",
    "demo/versions/0123456789abcdef/ford.csv",
    "demo/current.json",
)


@pytest.fixture
def site(place: Path) -> Site:
    return Site(place / "site")


@pytest.mark.parametrize("way", ["followed", "built", "built elsewhere"])
def test_foreign_files_in_a_folder_named_like_a_dataset_stay(site: Site, way: str) -> None:
    folder = site.folder / ("elsewhere" if way == "built elsewhere" else "catalog")
    for name in OTHERS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("of somebody")
    with site.open() as session:
        site.publish(session, {"a": "1", "b": "2"})
        if way != "followed":
            build(session, str(folder) if way == "built elsewhere" else "")
        assert differences(session, str(folder)) == []
    found = tree(folder)
    assert "demo/collection.json" in found
    assert {name for name in OTHERS if (folder / name).read_text() == "of somebody"} == set(OTHERS)


def test_what_the_catalog_wrote_and_no_longer_says_is_removed(site: Site) -> None:
    left = [site.folder / "catalog/demo" / name for name in ("items/gone.json", "versions/0123456789abcdef.json")]
    with site.open() as session:
        site.publish(session, {"a": "1", "b": "2"})
        for path in left:
            path.parent.mkdir(exist_ok=True)
            path.write_text("{}")
        assert {each.kind for each in differences(session)} == {"foreign"} and len(differences(session)) == 2
        build(session)
        assert differences(session) == []
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize(
    "folder",
    ["public", "public/", "./public", "public/datasets", "public/datasets/demo", "public/../public/datasets/",
     ".kfm", ".kfm/objects", ".kfm/objects/ab", ".kfm/receipts"],
)  # fmt: skip
def test_a_folder_that_something_else_has_is_refused(site: Site, folder: str) -> None:
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text().replace("catalog: file:catalog", f"catalog: file:{folder}"))
    with pytest.raises(BadInput, match="catalog is in a folder that KFM uses for something else"):
        load(str(file), {})


@pytest.mark.parametrize("folder", ["public/catalog", "catalog", "site/catalog", "publication"])
def test_a_folder_next_to_the_files_is_used(site: Site, folder: str) -> None:
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text().replace("catalog: file:catalog", f"catalog: file:{folder}"))
    with site.open() as session:
        site.publish(session, {"a": "1"})
    assert "demo/collection.json" in tree(site.folder / folder)


def test_before_anything_was_published_there_need_be_no_catalog_and_after_a_withdrawal_there_is_one(site: Site) -> None:
    with site.open() as session:
        assert differences(session) == [] and not (site.folder / "catalog").exists()
        site.publish(session, {"a": "1"})
        run_operation(session, "rollback", "demo", {"to": "nothing", "ref": "published/demo"})
        settle_session(session)
        left = {"catalog.json", "catalog.jsonld"}
        assert differences(session) == [] and set(tree(site.folder / "catalog")) == left
        (site.folder / "catalog/catalog.json").unlink()
        assert [each.path for each in differences(session)] == ["catalog.json"]


def test_the_catalog_that_is_kept_is_what_its_standards_ask_for(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1", "b": "2"})
    found = {each.path.rpartition("/")[2].partition(".")[2]: each for each in validate(str(site.folder / "catalog"))}
    assert {each.path: each.problems for each in found.values() if each.problems} == {}
    assert (found["openlineage.json"].kind, found["openlineage.json"].verdict) == ("openlineage", "valid")
    events = next((site.folder / "catalog/demo/runs").glob("*.openlineage.json"))
    events.write_text(events.read_text().replace('"eventType":"START"', '"eventType":"BEGUN"'))
    (wrong,) = list(validate(str(events)))
    assert wrong.verdict == "broken" and wrong.problems[0].place.startswith("/0")
