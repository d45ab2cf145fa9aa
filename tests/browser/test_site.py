"""The site of the docs is complete, requests nothing from the network, is searched from a file, and is accessible."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser.chromium import chromium, reading, violations
from tests.project.bans import ROOT, repository_files
from tests.sampling import sampled

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.xdist_group("chromium")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 320, "height": 640}
SAMPLE = [
    ("index", "light", NARROW),
    ("start/tutorial", "dark", WIDE),
    ("concepts/run", "light", NARROW),
    ("reference/config", "dark", NARROW),
    ("glossary", "light", WIDE),
    ("comparisons", "dark", NARROW),
    ("source/tests/validation/formats/test_csv_by_columns.py", "light", NARROW),
]
_ADDRESS = re.compile(r'<(\w+)[^>]*?\s(?:href|src)="([^"]*)"')
_ANCHOR = re.compile(r'\s(?:id|name)="([^"]+)"')
_CODE = re.compile(r"<code[^>]*>.*?</code>", re.S)


def build(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *words],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make site` writes."""
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(folder)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def wrong(site: Path) -> list[str]:
    """Links that lead nowhere, and what a page would fetch from elsewhere."""
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {name: {*_ANCHOR.findall(text), ""} for name, text in pages.items()}
    found = []
    for name, text in pages.items():
        for element, address in set(_ADDRESS.findall(_CODE.sub("", text))):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if element != "a":
                    found.append(f"{name}: fetches {address}")
                continue
            there = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
            there = there if parts.path else name
            if there.startswith("..") or not (site / there).is_file():
                found.append(f"{name}: {address} is nowhere")
            elif unquote(parts.fragment) not in anchors.get(there, {parts.fragment}):
                found.append(f"{name}: {address} has no such place")
    return sorted(found)


def test_every_page_is_in_the_site_and_every_link_leads_somewhere(site: Path) -> None:
    for name in repository_files():
        if name.startswith("docs/") and name.endswith(".md"):
            page = re.sub(r"(README)?\.md$", lambda end: "index.html" if end.group(1) else ".html", name[5:])
            assert (site / page).is_file(), f"{name} is not in the site"
    assert (site / "source/tests/browser/test_site.py.html").exists() is False, "only what is linked is shown"
    assert len(list((site / "source").rglob("*.html"))) > 100
    assert wrong(site) == []


def test_a_link_that_leads_nowhere_and_a_fetch_would_have_been_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.html").write_text('<h1 id="here">b</h1><a href="../c.html#there">c</a><a href="#here">')
    (tmp_path / "c.html").write_text(
        '<p id="there"><a href="a/b.html#gone">b</a> <a class="x" href="d.html">d</a> <code>href="e.html"</code>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org/">fine</a><a href="../f">'
    )
    assert wrong(tmp_path) == [
        "c.html: ../f is nowhere",
        "c.html: a/b.html#gone has no such place",
        "c.html: d.html is nowhere",
        "c.html: fetches https://example.org/x.js",
    ]


@pytest.mark.long
def test_the_same_files_make_the_same_site(site: Path, tmp_path: Path) -> None:
    assert build(tmp_path / "again").returncode == 0
    first, second = (
        {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}
        for top in (site, tmp_path / "again")
    )
    assert first == second


def test_a_page_with_a_broken_link_makes_no_site(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Top\n\n[gone](gone.md) [nowhere](#nowhere)\n")
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text().partition("nav:\n  - Start")[0])
    text = (tmp_path / "mkdocs.yml").read_text()
    text = text.replace("hooks: [tools/site/pages.py]", "").replace("tools/site/theme", str(ROOT / "tools/site/theme"))
    (tmp_path / "mkdocs.yml").write_text(text)
    done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode == 1 and "gone.md" in done.stderr and "#nowhere" in done.stderr


def looked_at(browser: Browser, site: Path, name: str, scheme: str, size: dict[str, int]) -> None:
    path = site / f"{name}.html"
    with reading(browser, path, bypass_csp=True, color_scheme=scheme, viewport=size) as (page, asked):
        page.wait_for_load_state("load")
        assert violations(page) == []
        assert [address for address in asked if not address.startswith(site.resolve().as_uri())] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], "nothing is cut off"
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(re.findall(r"\d+", paper)[0]) > 128) is (scheme == "light")


@pytest.mark.parametrize(("name", "scheme", "size"), sampled(SAMPLE, every=2), ids=lambda part: str(part)[:24])
def test_axe_finds_nothing_wrong_and_no_request_leaves_the_machine(
    browser: Browser, site: Path, name: str, scheme: str, size: dict[str, int]
) -> None:
    looked_at(browser, site, name, scheme, size)


@pytest.mark.long
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong_on_any_page(browser: Browser, site: Path, scheme: str, size: dict[str, int]) -> None:
    pages = [path for path in site.rglob("*.html") if not path.is_relative_to(site / "source")]
    shown = sorted((site / "source").rglob("*.html"))[::60]
    assert len(pages) > 60 and len(shown) > 3
    for path in [*pages, *shown]:
        looked_at(browser, site, path.relative_to(site).as_posix().removesuffix(".html"), scheme, size)


def test_search_finds_a_page_from_a_file(browser: Browser, site: Path) -> None:
    with reading(browser, site / "index.html", viewport=WIDE) as (page, asked):
        page.get_by_role("textbox", name="Search").press_sequentially("triggers and retries")
        found = page.locator(".md-search-result__item a[href*='trigger-retry-matrix.html']").first
        found.wait_for()
        page.goto((found.get_attribute("href") or "").partition("?")[0])
        assert page.locator("h1").inner_text() == "Triggers and retries"
        assert {urlsplit(address).scheme for address in asked} == {"file"}


@pytest.mark.parametrize(
    ("words", "guide"),
    sampled(
        [
            ("rollback", "guides/"),
            ("protected sources", "guides/stewards"),
            ("dry run", "guides/"),
            ("sqlite", "guides/operations"),
            ("manifest", "concepts/versions"),
        ],
        keep=2,
    ),
)
def test_search_shows_a_guide_or_concept_before_a_decision(
    browser: Browser, site: Path, words: str, guide: str
) -> None:
    with reading(browser, site / "index.html", viewport=WIDE) as (page, _):
        page.get_by_role("textbox", name="Search").press_sequentially(words)
        links = page.locator(".md-search-result__item > a")
        links.first.wait_for()
        found = [one.get_attribute("href") or "" for one in links.all()]
        first = next(n for n, address in enumerate(found) if guide in address)
        decisions = [n for n, address in enumerate(found) if "decisions/" in address]
        assert not decisions or first < decisions[0], found
