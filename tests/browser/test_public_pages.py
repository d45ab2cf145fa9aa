"""The pages of an archive of real datasets in a real browser: accessible, no wider than a phone, without a request."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import sampling
from tests.browser import archive
from tests.browser.chromium import chromium, reading, violations
from tests.cli.conftest import Kfm, kfm, plain_environment
from tests.engine.protected.conftest import site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["kfm", "plain_environment", "site"]

pytestmark = pytest.mark.xdist_group("chromium")
PICTURES = archive.ROOT / "docs" / "pictures"
WIDE, NARROW = {"width": 1200, "height": 1180}, {"width": 360, "height": 720}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("some", sampling.sampled(["counties", "dates", "stations tops", "quakes scenes"]))
def test_axe_finds_nothing_wrong_on_pages_of_real_datasets(
    browser: Browser, some: str, request: pytest.FixtureRequest
) -> None:
    names = tuple(some.split())
    archive.publish(request.getfixturevalue("site" if "dates" in names else "kfm"), names)
    pages = sorted(Path("public").rglob("*.html"))
    assert len(pages) == 2 * len(names) + 1
    for n, path in enumerate(page for page in pages if sampling.everything or page.name == "index.html"):
        scheme = ("light", "dark")[n % 2]
        with reading(browser, path, bypass_csp=True, color_scheme=scheme, viewport=NARROW) as (page, asked):
            assert violations(page) == [], path
            assert asked == [path.resolve().as_uri()]
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], f"{path} scrolls"
    for name in names:
        path = Path(f"public/datasets/{name}/index.html")
        errors: list[str] = []
        with reading(browser, path, viewport=WIDE) as (page, _):  # with its own policy
            page.on("console", lambda message, found=errors: found.append(message.text))
            page.reload()
            assert errors == [], "no block of data offends the policy"
            assert page.locator("svg.map[role=img]").count() == 1 and page.locator("h1").count() == 1
            for block in page.locator('script[type="application/ld+json"]').all():
                assert json.loads(block.text_content() or "")["@context"].startswith("https://schema.org")


@pytest.mark.long
def test_pictures_of_pages_can_be_taken(browser: Browser, site: Kfm, tmp_path: Path) -> None:
    """With WRITE_SCREENSHOT they are those of the docs."""
    archive.publish(site, tuple(archive.ABOUT), twice=("stations",))
    folder = PICTURES if os.environ.get("WRITE_SCREENSHOT") else tmp_path
    for name, where, scheme, size in (
        ("published", "datasets/stations/index.html", "light", WIDE),
        ("published-masked", "datasets/dates/index.html", "light", WIDE),
        ("published-geology", "datasets/tops/index.html", "dark", WIDE),
        ("published-counties", "datasets/counties/index.html", "light", WIDE),
        ("published-scenes", "datasets/scenes/index.html", "light", WIDE),
        ("published-front", "index.html", "light", {"width": 1200, "height": 900}),
        ("published-phone", "datasets/quakes/index.html", "light", {"width": 360, "height": 1180}),
    ):
        with reading(browser, Path("public", where), color_scheme=scheme, viewport=size) as (page, _):
            page.screenshot(path=folder / f"{name}.png")
        assert (folder / f"{name}.png").stat().st_size < 250_000


def test_the_pictures_in_the_docs_are_small() -> None:
    found = sorted(PICTURES.glob("published*.png"))
    assert len(found) == 7
    for path in found:
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size < 250_000
