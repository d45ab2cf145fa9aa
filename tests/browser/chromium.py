"""A real browser, without a network, and axe-core to look at pages with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.abilities import lacking

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node" / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome")


# Chromium without a graphics card draws WebGL in software, or not at all.
SOFTWARE_WEBGL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
DRIVER = "[.WebGL-"  # begins what Chromium writes about the speed of that; it is no message of a page
NO_WEBGL = ("--disable-gpu", "--disable-software-rasterizer", "--disable-3d-apis")


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        lacking("there is no chromium here")
    if not AXE.exists():
        lacking("axe-core is not here: `make test` installs it with the packages of the Node runner")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", *flags])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def another(browser: Browser, *flags: str) -> Iterator[Browser]:
    """A second browser with these flags, next to one that runs."""
    path = next(path for name in NAMES if (path := shutil.which(name)))
    found = browser.browser_type.launch(executable_path=path, args=["--no-sandbox", *flags])
    try:
        yield found
    finally:
        found.close()


@contextmanager
def reading(browser: Browser, path: Path, **how: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page opened from its file, offline, and every address that it asked for."""
    context = browser.new_context(offline=True, **how)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.resolve().as_uri())
    try:
        yield page, asked
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong, by rule and place. The page must be opened with `bypass_csp`."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations")
    return [f"{one['id']}: {node['target']}" for one in found for node in one["nodes"]]
