"""Without a setting, what is published has pages and a catalog in the public folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm import config
from kfm.app.maintenance.doctor import page_verdicts
from kfm.app.metadata import catalogs, pages_sink
from kfm.app.session.session import Session
from tests.delivery.sites import Site, tree

BASE = "datasets: {a: {updater: u.py:U}}\n"


def settings(folder: Path, text: str, env: dict[str, str] | None = None) -> tuple[str, bool]:
    (folder / "kfm.yml").write_text(text + BASE)
    found = config.load(str(folder / "kfm.yml"), env or {}).config
    return found.catalog, found.pages


@pytest.fixture
def site(place: Path) -> Site:
    site = Site(place / "site")
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text().replace("catalog: file:catalog\n", ""))
    return site


@pytest.mark.usefixtures("shown_by_default")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("file:public/catalog", True)),
        ("publish: file:out/\n", ("file:out/catalog", True)),
        ("publish: file:///srv/out\n", ("file:///srv/out/catalog", True)),
        ("publish: noop\n", ("", False)),
        ("publish: github:owner/data\n", ("", False)),
        ("publish: noop\ncatalog: file:catalog\n", ("file:catalog", False)),
        ('catalog: ""\n', ("", True)),
        ("pages: false\n", ("file:public/catalog", False)),
        ("publish: file:.kfm/public\n", ("", True)),
    ],
)
def test_catalog_and_pages_are_on_where_there_is_a_public_folder(
    tmp_path: Path, text: str, expected: tuple[str, bool]
) -> None:
    assert settings(tmp_path, text) == expected


@pytest.mark.usefixtures("shown_by_default")
def test_the_environment_switches_them_off(tmp_path: Path) -> None:
    assert settings(tmp_path, "", {"KFM_PAGES": "false", "KFM_CATALOG": ""}) == ("", False)


@pytest.mark.usefixtures("shown_by_default")
def test_what_is_published_without_a_setting_has_pages_and_a_catalog(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        assert not list(session.state.outbox.pending())
    public = tree(site.folder / "public")
    assert {"index.html", "datasets/demo/index.html", "catalog/catalog.json", "catalog/catalog.jsonld"} <= set(public)
    assert "catalog/demo/collection.json" in public
    assert b"Kansas Frontier Matrix" not in b"".join(public.values())
    assert b'"title":"Data archive"' in public["catalog/catalog.json"]


def test_an_installation_from_before_gets_them_with_its_next_run(site: Site, request: pytest.FixtureRequest) -> None:
    with site.open() as session:
        version = site.publish(session, {"a": "1"})
        run = site.ingest(session, {"a": "2"})
    assert not (site.folder / "public/index.html").exists()
    request.getfixturevalue("shown_by_default")
    with site.open() as session:
        again = site.ingest(session, {"a": "2"})
        assert again.outcome in ("noop", "unchanged") and again.config_hash == run.config_hash
        assert session.state.refs.at("published/demo") == version and not session.sink_problems
        assert not list(session.state.outbox.pending())
    assert "The demo" in (site.folder / "public/index.html").read_text()
    assert version[7:19] in (site.folder / "public/datasets/demo/index.html").read_text()


@pytest.mark.usefixtures("shown_by_default")
def test_a_run_that_publishes_nothing_opens_neither_catalog_nor_pages(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def noted(name: str, made: object) -> object:
        def follower(session: Session) -> object:
            opened.append(name)
            return made(session)  # type: ignore[operator]

        return follower

    monkeypatch.setattr(catalogs, "catalog_follower", noted("catalog", catalogs.catalog_follower))
    monkeypatch.setattr(pages_sink, "pages_follower", noted("pages", pages_sink.pages_follower))
    with site.open() as session:
        site.ingest(session, {"a": "1"})
        site.ingest(session, {"a": "2"})
        assert opened == [] and not list(session.state.outbox.pending()), "both runs are complete nevertheless"
        site.operate(session, "promote")
        assert opened == ["catalog", "pages"]
        site.ingest(session, {"a": "3"})
        assert opened == ["catalog", "pages"]
        assert session.state.outbox.cursor("pages") == session.state.outbox.cursor("catalog")


@pytest.mark.usefixtures("shown_by_default")
def test_pages_that_are_switched_off_are_removed_and_come_back(site: Site) -> None:
    file = site.folder / "kfm.yml"
    on = file.read_text()
    with site.open() as session:
        site.publish(session, {"a": "1"})
    shown = {path: body for path, body in tree(site.folder / "public").items() if "catalog/" not in path}
    file.write_text(on + "pages: false\n")
    with site.open() as session:
        site.ingest(session, {"a": "1"})
        assert not session.sink_problems
    left = {path for path in tree(site.folder / "public") if "catalog/" not in path}
    assert all(path.endswith((".txt", ".csv", ".ndjson", "current.json", ".json")) for path in left), left
    assert not left & {"index.html", "datasets/demo/index.html", "datasets/demo/feed.xml", "datasets/demo/CITATION.cff"}
    file.write_text(on)
    with site.open() as session:
        site.ingest(session, {"a": "1"})
    assert {path: body for path, body in tree(site.folder / "public").items() if "catalog/" not in path} == shown


@pytest.mark.usefixtures("shown_by_default")
def test_no_page_of_a_withdrawn_version_stays_where_pages_are_off(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text() + "pages: false\n")
    with site.open() as session:
        site.operate(session, "rollback", {"to": "nothing"})
    assert set(tree(site.folder / "public/datasets")) == {"demo/current.json"}


@pytest.mark.usefixtures("shown_by_default")
def test_doctor_names_a_catalog_that_is_switched_off_and_still_public(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        assert not page_verdicts(session)
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text() + 'catalog: ""\n')
    with site.open() as session:
        (found,) = page_verdicts(session)
        assert not found.ok and "remove the folder `catalog`" in found.why


@pytest.mark.usefixtures("shown_by_default")
def test_a_catalog_that_is_switched_off_is_removed_and_comes_back(site: Site) -> None:
    file = site.folder / "kfm.yml"
    on = file.read_text()
    with site.open() as session:
        site.publish(session, {"a": "1"})
    shown = tree(site.folder / "public/catalog")
    assert "catalog.json" in shown and any(path.startswith("demo/items/") for path in shown)
    (site.folder / "public/catalog/demo/mine.txt").write_text("a file of the archive")
    file.write_text(on + 'catalog: ""\n')
    with site.open() as session:
        site.ingest(session, {"a": "1"})
        assert not session.sink_problems
    assert set(tree(site.folder / "public/catalog")) == {"demo/mine.txt"}
    (site.folder / "public/catalog/demo/mine.txt").unlink()
    file.write_text(on)
    with site.open() as session:
        site.ingest(session, {"a": "1"})
    assert tree(site.folder / "public/catalog") == shown


@pytest.mark.usefixtures("shown_by_default")
def test_no_catalog_of_a_withdrawn_version_stays_where_the_catalog_is_off(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text() + 'catalog: ""\n')
    with site.open() as session:
        site.operate(session, "rollback", {"to": "nothing"})
        assert not page_verdicts(session)
    assert not (site.folder / "public/catalog").exists() or not tree(site.folder / "public/catalog")
