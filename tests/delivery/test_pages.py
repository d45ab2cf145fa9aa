"""Every published dataset has a page, and there is one of all: true, and removed with the dataset."""

from __future__ import annotations

import hashlib
import os
import re
from html import unescape
from pathlib import Path

import pytest

from tests.delivery.sites import Site

LINK = re.compile(r'href="([^"]*)"')
ROW = re.compile(r'<a href="([^"]*)">([^<]*)</a></td><td>([\d,]+)</td><td><code>([0-9a-f]{64})</code>')


@pytest.fixture
def site(place: Path) -> Site:
    return Site(place / "site", ("demo", "other"))


def page(site: Site, path: str) -> str:
    return site.catalog[path].decode()


def led_to(site: Site, path: str) -> list[Path]:
    """Every file that the links of a page lead to."""
    links = [unescape(link) for link in LINK.findall(page(site, path))]
    here = (site.folder / "catalog" / path).parent
    return [Path(os.path.normpath(here / link)) for link in links if "://" not in link]


def test_a_page_names_the_files_with_links_that_lead_to_these_very_bytes(site: Site) -> None:
    with site.open() as session:
        first = site.publish(session, {"a": "1", "b": "2"})
        second = site.publish(session, {"a": "1", "b": "3"})
    told = page(site, "demo/index.html")
    assert "<h1>The demo</h1>" in told and "Rows of demo" in told and "CC0-1.0" in told
    assert second in told and first[7:19] in told
    rows = ROW.findall(told)
    assert [row[1] for row in rows] == ["row / a", "row / b"]
    for href, _, size, digest in rows:
        body = (site.folder / "catalog/demo" / unescape(href)).read_bytes()
        assert len(body) == int(size) and hashlib.sha256(body).hexdigest() == digest
    for path in ("index.html", "demo/index.html"):
        assert led_to(site, path) and all(file.is_file() for file in led_to(site, path))
    front = page(site, "index.html")
    assert "The demo" in front and "The other" not in front, "nothing of the other is published"


def test_a_page_goes_back_with_its_version_and_goes_with_the_last(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        before = {path: page(site, path) for path in ("index.html", "demo/index.html")}
        site.publish(session, {"a": "2"})
        assert page(site, "demo/index.html") != before["demo/index.html"]
        site.operate(session, "rollback")
        assert {path: page(site, path) for path in before} == before
        site.operate(session, "rollback", {"to": "nothing", "ref": "published/demo"})
    assert "demo/index.html" not in site.catalog
    assert "Nothing is published" in page(site, "index.html") and "The demo" not in page(site, "index.html")
    site.sound()


def test_no_name_breaks_out_of_a_page(place: Path) -> None:
    site = Site(place / "site")
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("The demo", '"<script>alert(1)</script>\\" onload=x"'))
    with site.open() as session:
        site.publish(session, {"<img>": "1"})
    for path in ("index.html", "demo/index.html"):
        assert "<script" not in page(site, path) and "<img" not in page(site, path)
        assert "&lt;script&gt;" in page(site, path)


def test_many_files_are_counted_and_listed_elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kfm.projections.dataset_pages.MOST", 3)
    with site.open() as session:
        site.publish(session, {f"k{n}": "1" for n in range(5)})
    told = page(site, "demo/index.html")
    assert len(ROW.findall(told)) == 3 and "The first 3 of 5 files" in told
    assert all(file.is_file() for file in led_to(site, "demo/index.html"))
