"""The page that explains a dataset, in a real browser: it requests nothing from the network, and every reader can use
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.chromium import chromium, reading, violations
from tests.cli.test_explain import CONFIG, UPDATERS
from tests.engine.installations import Installation
from tests.sampling import sampled

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCREENSHOT = Path(__file__).resolve().parents[2] / "docs" / "explained.png"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with two derivations behind it and an extent."""
    folder = tmp_path_factory.mktemp("explained")
    config = CONFIG.replace("title: By year\n", "title: By year\n    extent: {bbox: [-102.1, 36.9, -94.5, 40.1]}\n")
    (folder / "kfm.yml").write_text("accept_weak_storage: true\n" + config)
    (folder / "chain.py").write_text(UPDATERS)
    (folder / "stations.csv").write_text("station,rain\na,1\nb,2\n")
    site = Installation(folder)
    for name in ("stations", "monthly", "yearly"):
        site.kfm("run", name)
    site.kfm("explain", "yearly", "--format", "html", "--out", "page.html")
    return folder / "page.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize("scheme", sampled(["dark", "light"]))
def test_axe_finds_nothing_wrong_and_nothing_is_asked_of_anybody(
    browser: Browser, page_file: Path, scheme: str
) -> None:
    with reading(browser, page_file, bypass_csp=True, color_scheme=scheme) as (page, asked):
        assert violations(page) == []
        assert asked == [page_file.resolve().as_uri()]
        assert page.locator("svg[role=img]").count() == 2, "the chain and the map"
        assert page.locator("svg .box").count() == 4
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(paper[4:].split(",")[0]) > 128) is (scheme == "light")


@pytest.mark.xdist_group("chromium")
def test_axe_would_have_found_something(browser: Browser, page_file: Path, tmp_path: Path) -> None:
    worse = page_file.read_text().replace('role="img" aria-label', 'role="img" data-label').replace(' lang="en"', "")
    (tmp_path / "worse.html").write_text(worse.replace("</main>", '<img src="https://example.org/x.png"></main>'))
    with reading(browser, tmp_path / "worse.html", bypass_csp=True) as (page, asked):
        found = {one.partition(":")[0] for one in violations(page)}
        assert {"svg-img-alt", "html-has-lang", "image-alt"} <= found
        assert "https://example.org/x.png" in asked


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the public folder, and the drawing of what is made of what."""
    site = Installation(tmp_path_factory.mktemp("shelf"))
    site.kfm("init", ".")
    with (site.folder / "kfm.yml").open("a") as config:
        config.write("pages: true\n")
    site.kfm("run")
    site.kfm("promote", "rain-gauges", "--reason", "first edition")
    site.kfm("lineage", "graph", "--format", "html", "--out", "graph.html")
    return site.folder


PAGES = ("public/index.html", "public/datasets/rain-gauges/index.html", "graph.html")


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize(
    ("name", "scheme"),
    sampled(zip(PAGES * 2, ("light", "dark") * 3, strict=True), keep=3),
)
def test_public_pages_and_the_graph_are_for_every_reader(browser: Browser, shelf: Path, name: str, scheme: str) -> None:
    with reading(browser, shelf / name, bypass_csp=True, color_scheme=scheme) as (page, asked):
        assert violations(page) == []
        assert asked == [(shelf / name).resolve().as_uri()]
        assert page.get_by_text("rain-gauges" if name == "graph.html" else "Rain gauges").count()


@pytest.mark.xdist_group("chromium")
def test_it_is_read_without_a_script(browser: Browser, page_file: Path) -> None:
    with reading(browser, page_file, java_script_enabled=False, viewport={"width": 1000, "height": 1150}) as (
        page,
        asked,
    ):
        text = page.locator("main").inner_text()
        for said in ("By year", "yearly 2.1.0", "raw", "harmonised", "derived", "plainly public", "Last good run"):
            assert said in text
        assert len(asked) == 1
        if os.environ.get("WRITE_SCREENSHOT"):
            page.screenshot(path=SCREENSHOT)


def test_the_screenshot_in_the_docs_is_a_small_picture() -> None:
    body = SCREENSHOT.read_bytes()
    assert body.startswith(b"\x89PNG") and len(body) < 200_000
