"""Pages and catalog never replace or remove a file of the archive that KFM did not write, and say what its settings
say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfm.app.maintenance.doctor import at_a_glance
from kfm.app.maintenance.maintenance_records import build_catalog
from kfm.app.metadata import catalogs, pages_sink
from kfm.app.runs.settlement import settle_session
from kfm.app.stewards.public_repair import compare_all, repair_all
from tests.delivery.sites import Site, tree

OWN = "<!doctype html><title>Our archive</title>"
OLDER = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    "<title>Kansas Frontier Matrix</title></head></html>\n"
)
MORE = "pages: true\npublic_url: https://data.example.org\n"


@pytest.fixture
def site(place: Path) -> Site:
    return Site(place / "site", more=MORE)


def put(site: Site, path: str, text: str = OWN) -> Path:
    file = site.folder / "public" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    "path",
    ["index.html", "sitemap.xml", "datasets/demo/index.html", "datasets/demo/feed.xml", "datasets/demo/CITATION.cff"],
)
def test_a_file_that_kfm_did_not_write_stays_and_is_named(site: Site, path: str) -> None:
    file = put(site, path)
    with site.open() as session:
        site.publish(session, {"a": "1"})
        assert file.read_text() == OWN and session.left_files == [path] and not session.sink_problems
        site.publish(session, {"a": "2"})
        (said,) = [check for check in at_a_glance(session) if check.check == "pages"]
        assert said.ok and path in said.found and "pages: false" in said.why
        assert compare_all(session, ["demo"]) == ([], [])
        repair_all(session, ["demo"])
        pages_sink.build(session)
        assert file.read_text() == OWN and path not in {page for page, _, _ in pages_sink.expected_pages(session)}
        if path.startswith("datasets/"):
            site.operate(session, "rollback", {"to": "nothing", "ref": "published/demo"})
            assert file.read_text() == OWN


def test_a_page_takes_its_place_once_the_file_was_moved(site: Site) -> None:
    file = put(site, "index.html")
    with site.open() as session:
        site.publish(session, {"a": "1"})
        file.rename(site.folder / "ours.html")
        pages_sink.build(session)
        assert "The demo" in file.read_text() and pages_sink.left_files(session) == []
        file.write_text(OWN)
        site.publish(session, {"a": "2"})
        assert file.read_text() == OWN and session.left_files == ["index.html"]


def test_a_page_of_an_older_kfm_or_of_a_killed_report_is_replaced(site: Site) -> None:
    front = put(site, "index.html", OLDER)
    page = put(site, "datasets/demo/index.html", OLDER)
    with site.open() as session:
        site.publish(session, {"a": "1"})
        assert "The demo" in front.read_text() and "The demo" in page.read_text() and session.left_files == []
        with session.state.transaction() as tx:
            tx.outbox.forget_notes("pages")
        site.publish(session, {"a": "2"})
        assert session.left_files == [] and compare_all(session, ["demo"]) == ([], [])


@pytest.mark.parametrize("path", ["catalog.json", "catalog.jsonld", "demo/collection.json"])
def test_a_catalog_that_kfm_did_not_write_stays_as_it_is(site: Site, path: str) -> None:
    file = site.folder / "catalog" / path
    file.parent.mkdir(parents=True)
    file.write_text('{"type": "Catalog", "id": "ours"}')
    before = tree(site.folder / "catalog")
    with site.open() as session:
        site.publish(session, {"a": "1"})
        (problem,) = session.sink_problems
        assert path in problem.message and "to another folder" in problem.message
        assert tree(site.folder / "catalog") == before
        file.rename(site.folder / "ours.json")
        settle_session(session, again=True)
        assert not session.sink_problems and catalogs.differences(session) == []


def test_a_catalog_of_kfm_is_taken_over_when_the_state_forgot_it(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        with session.state.transaction() as tx:
            tx.outbox.forget_notes("catalog")
        site.publish(session, {"a": "2", "b": "3"})
        assert not session.sink_problems and catalogs.differences(session) == []


@pytest.fixture
def pair(place: Path) -> Site:
    site = Site(place / "pair", ("demo", "second"), more=MORE + "archive: {name: Before}\n")
    with site.open() as session:
        for name in ("demo", "second"):
            site.publish(session, {"a": "1"}, name)
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text().replace("name: Before", "name: After"))
    return site


def names(site: Site) -> dict[str, bool]:
    paths = ("index.html", "datasets/demo/index.html", "datasets/second/index.html")
    return {path: "After" in (site.folder / "public" / path).read_text() for path in paths}


def test_the_next_publication_writes_all_pages_with_changed_settings(pair: Site) -> None:
    with pair.open() as session:
        pair.publish(session, {"a": "2"})
    assert all(names(pair).values())


def test_kfm_catalog_build_writes_the_pages_with_changed_settings(pair: Site) -> None:
    assert not any(names(pair).values())
    with pair.open() as session:
        counts, receipts = build_catalog(session, reason="a test")
        assert counts["pages"] >= 3 and len(receipts) == 1
        assert build_catalog(session, reason="a test")[0]["pages"] == 0
    assert all(names(pair).values())


def test_the_pages_of_a_frozen_dataset_stay_when_pages_are_built(pair: Site) -> None:
    with pair.open() as session:
        pair.operate(session, "freeze", {}, "second")
        pages_sink.build(session)
    assert names(pair) == {"index.html": True, "datasets/demo/index.html": True, "datasets/second/index.html": False}


def test_pages_link_to_a_catalog_in_the_public_folder(place: Path) -> None:
    site = Site(place / "linked", more=MORE)
    file = site.folder / "kfm.yml"
    with site.open() as session:
        site.publish(session, {"a": "1"})
    assert "STAC" not in (site.folder / "public/index.html").read_text()
    file.write_text(file.read_text().replace("catalog: file:catalog", "catalog: file:public/catalog"))
    with site.open() as session:
        site.publish(session, {"a": "2"})
    for path in ("index.html", "datasets/demo/index.html"):
        page = site.folder / "public" / path
        found = re.findall(r'href="([^"]*(?:catalog|collection)\.json[^"]*)"', page.read_text())
        assert found and all((page.parent / link).is_file() for link in found), found
