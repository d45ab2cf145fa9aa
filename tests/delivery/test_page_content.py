"""The page of a dataset shows what a reader looks for, reads few files for it, and draws what the files hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from kfm.delivery.page_content import PageContent
from kfm.delivery.page_samples import FILES
from kfm.model.public_run import Places
from kfm.projections.pages.page_map import MOST_DRAWN, Drawing, draw
from tests.cli.conftest import Kfm, kfm, plain_environment
from tests.delivery.sites import Site

__all__ = ["kfm", "plain_environment"]

PAGE = Path("public/datasets/wells/index.html")
CONFIG = """\
kfm: 1
accept_weak_storage: true
pages: true
publish: file:public
public_url: https://data.example.org/archive
archive: {name: The archive, publisher: The society, contact: data@example.org, outline: outline.geojson}
datasets:
  wells:
    version: 1.0.0
    title: Wells & springs
    description: Where water comes from.
    license: CC-BY-4.0
    attribution: The survey
    sensitivity: public
    promote: auto
    sources:
      wells: {uri: wells.csv, format: csv, contract: {columns: [{name: well, required: true}]}}
    outputs:
      all: {from: wells}
"""
OUTLINE = '{"type": "Polygon", "coordinates": [[[-102, 37], [-94.6, 37], [-94.6, 40], [-102, 40], [-102, 37]]]}'
ROWS = ["a,38.5,-98.2,12,2026-01-02", "b,38.6,-98.3,15.5,2026-01-03", "c,38.7,-98.4,9,2026-01-04"]


def published(kfm: Kfm, rows: list[str]) -> str:
    Path("kfm.yml").write_text(CONFIG)
    Path("outline.geojson").write_text(OUTLINE)
    Path("wells.csv").write_text("\n".join(["well,lat,lon,depth (m),measured", *rows]) + "\n")
    done = kfm("run")
    assert done.code == 0, done
    return PAGE.read_text()


def test_a_page_shows_the_map_the_first_rows_the_columns_and_what_changed(kfm: Kfm) -> None:
    published(kfm, ROWS)
    text = published(kfm, [*ROWS[:2], "c,38.7,-98.4,10,2026-01-05", "d,38.8,-98.5,3,2026-01-05"])
    for said in (
        "<h1>Wells &amp; springs</h1>", "Where water comes from.", "Creative Commons Attribution 4.0",
        "data@example.org",
        'href="https://creativecommons.org/licenses/by/4.0/"', 'class="land"', "4 places", "<dt>Rows</dt><dd>4</dd>",
        "<td>number</td><td>m</td><td>12</td>", "<td>date</td>", "+2 rows", "1 row", "explanation.html",
        "https://data.example.org/archive/datasets/wells/index.html", "The survey (20", "sha256sum --check",
    ):  # fmt: skip
        assert said in text, said
    assert [re.sub("<[^>]*>", " ", row).split() for row in re.findall("<tr><td>a</td>.*?</tr>", text)] == [
        ["a", "38.5", "-98.2", "12", "2026-01-02"]
    ]
    assert len(re.findall(r'class="dots"[^>]*d="([^"]*)"', text)[0].split("M")) == 5, "a dot for each place"
    explanation = PAGE.with_name("explanation.html").read_text()
    assert "Wells &amp; springs" in explanation and 'href="index.html"' in explanation
    assert kfm("reconcile", "--public").code == 0


def test_the_command_that_a_page_gives_verifies_a_downloaded_file(kfm: Kfm, tmp_path: Path) -> None:
    import subprocess
    from html import unescape

    text = published(kfm, ROWS)
    (command,) = re.findall("<code>(echo .*?)</code>", text)
    (file,) = Path("public/datasets/wells/versions").rglob("all.csv")
    (tmp_path / "all.csv").write_bytes(file.read_bytes())
    words = ["sh", "-c", unescape(command)]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "all.csv").write_bytes(file.read_bytes() + b"x")
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_more_places_than_can_be_told_apart_are_drawn_as_density() -> None:
    points = [(-100 + n % 97 / 20, 37 + n % 89 / 30) for n in range(MOST_DRAWN + 1)]
    few, many = draw(Drawing(points[:-1]), (), "few"), draw(Drawing(points), (), "many")
    assert 'class="dots"' in few.svg and not few.keys
    assert 'class="dots"' not in many.svg and 1 < len(many.keys) <= 5
    assert len(many.svg) < 200_000


def test_a_slip_of_a_sign_does_not_shrink_the_map() -> None:
    points = [(-100 + n % 10, 37 + n % 7) for n in range(200)]
    drawn = draw(Drawing([*points, (98.0, -38.0)]), (), "one is elsewhere")
    assert drawn.outside == 1 and "°S" not in drawn.svg


class Counted:
    """Objects that count how often each is opened."""

    def __init__(self, objects: object) -> None:
        self._objects = objects
        self.opened: list[str] = []

    def open(self, name: str) -> BinaryIO:
        self.opened.append(name)
        return self._objects.open(name)  # type: ignore[attr-defined, no-any-return]

    def read(self, name: str) -> bytes:
        self.opened.append(name)
        return self._objects.read(name)  # type: ignore[attr-defined, no-any-return]

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)


@pytest.fixture
def site(place: Path) -> Iterator[Site]:
    yield Site(place / "site")


def test_a_page_of_many_files_reads_few_of_them_and_says_so(site: Site) -> None:
    rows = {f"k{n:04}": str(n) for n in range(4 * FILES)}
    with site.open() as session:
        site.publish(session, rows)
        site.publish(session, {**rows, "k0000": "other"})
        objects = Counted(session.objects)
        moves = list(session.state.refs.history("published/demo"))
        page = PageContent(session.state, objects, Places(), "demo", moves, -1).page()  # type: ignore[arg-type]
    assert page.versions[0].files == (0, 1, 0) and page.versions[0].rows == (1, 1)
    assert page.version.entries == 4 * FILES and not page.whole
    assert len(set(objects.opened)) < FILES + 40, "those files, and the parts of the manifests that list them"
