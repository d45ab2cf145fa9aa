"""The map of the dataset page in a real browser: it draws what the tiles hold, obeys the keyboard, and gives way to the
picture where it cannot draw."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kfm.api.console.static_files import address_of
from tests.api.console_server import Console, console
from tests.browser import archive
from tests.browser.chromium import DRIVER, NO_WEBGL, SOFTWARE_WEBGL, another, chromium, violations
from tests.cli.conftest import Kfm, done, kfm, plain_environment
from tests.engine.protected.conftest import SECRETS, label, labels, site
from tests.masking.tile_files import archive as tile_file
from tests.masking.tile_files import point, tile, tile_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["kfm", "plain_environment", "site"]

pytestmark = pytest.mark.xdist_group("chromium")
NARROW, WIDE = {"width": 360, "height": 720}, {"width": 720, "height": 600}
KB = 1000
DRAWN = """(layers) => document.getElementById('live-map').map.queryRenderedFeatures({layers})
  .map((one) => one.geometry.type).length"""
CENTRE = "document.getElementById('live-map').map.getCenter().toArray()"
ZOOM = "document.getElementById('live-map').map.getZoom()"
STILL = "!document.getElementById('live-map').map.isMoving()"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(*SOFTWARE_WEBGL) as found:
        yield found


class Seen:
    """What a page asked for and what the browser complained of."""

    def __init__(self, page: Page, own: str) -> None:
        self.own = own
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda said: (
                self.complaints.append(said.text)
                if said.type in ("error", "warning") and not said.text.startswith(DRIVER)
                else None
            ),
        )

    def elsewhere(self) -> list[str]:
        return [url for url in self.asked if not url.startswith((self.own, f"blob:{self.own}", "data:"))]

    def size(self, server: Console) -> int:
        """The bytes of everything that was asked for, compressed."""
        paths = {url.removeprefix(self.own) for url in self.asked if url.startswith(self.own)}
        return sum(len(gzip.compress(server.get(path).body, 9)) for path in paths)


@contextmanager
def looking(browser: Browser, server: Console, **how: Any) -> Iterator[tuple[Page, Seen]]:
    own = f"http://127.0.0.1:{server.port}"
    context = browser.new_context(base_url=own, **{"viewport": WIDE, "reduced_motion": "reduce", **how})
    page = context.new_page()
    try:
        yield page, Seen(page, own)
    finally:
        context.close()


def opened(page: Page, name: str, state: str = "map") -> None:
    """Open the page of a dataset and wait until its map is drawn, or its picture is there to stay."""
    page.goto(f"/datasets/{name}/")
    page.locator("#live-map").scroll_into_view_if_needed()
    page.locator(f"#live-map[data-state={state}]").wait_for()


def drawn(page: Page, *layers: str) -> int:
    return int(page.evaluate(DRAWN, list(layers)))


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true. What the browser offers for this needs `eval`, which these pages forbid."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression} stays {page.evaluate(expression)!r}")


def test_the_map_draws_the_places_obeys_the_keyboard_and_is_small(browser: Browser, kfm: Kfm) -> None:
    archive.publish(kfm, ("counties",))
    with console() as server, looking(browser, server) as (page, seen):
        opened(page, "counties")
        assert drawn(page, "areas-fill") >= 105 and drawn(page, "points-dot") == 0
        picture = page.locator("#live-map svg.map")
        assert not picture.is_visible() and page.locator("#live-map figcaption").is_visible()
        assert page.locator(".maplibregl-canvas").get_attribute("aria-label") == picture.get_attribute("aria-label")

        page.locator(".maplibregl-canvas").focus()
        before, zoom = page.evaluate(CENTRE), page.evaluate(ZOOM)
        for key, axis, way in (("ArrowRight", 0, 1), ("ArrowUp", 1, 1)):
            page.keyboard.press(key)
            until(page, f"({CENTRE}[{axis}] - {before[axis]}) * {way} > 0.01")
        until(page, STILL)
        page.keyboard.press("+")
        until(page, f"{ZOOM} > {zoom} + 0.5 && {STILL}")
        page.keyboard.press("-")
        until(page, f"{ZOOM} < {zoom} + 0.5 && {STILL}")

        page.get_by_role("button", name="Show the picture").click()
        assert picture.is_visible() and not page.locator(".maplibregl-canvas").is_visible()
        page.get_by_role("button", name="Show the map").click()
        assert page.locator(".maplibregl-canvas").is_visible()
        assert (seen.elsewhere(), seen.complaints) == ([], [])
        assert any(address_of("maplibre-gl-worker.js") in url for url in seen.asked)
        assert 380 * KB < seen.size(server) <= 520 * KB


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_a_phone_has_room(browser: Browser, kfm: Kfm, scheme: str) -> None:
    archive.publish(kfm, ("counties",))
    with console() as server:
        with looking(browser, server, color_scheme=scheme, bypass_csp=True) as (page, _):
            opened(page, "counties")
            assert violations(page) == []
            page.get_by_role("button", name="Show the picture").click()
            assert violations(page) == []
        with looking(browser, server, color_scheme=scheme, viewport=NARROW) as (page, seen):
            opened(page, "counties")
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
            assert drawn(page, "areas-fill") >= 105
            other = "dark" if scheme == "light" else "light"
            paper = "document.getElementById('live-map').map.getPaintProperty('paper', 'background-color')"
            first = page.evaluate(paper)
            page.emulate_media(color_scheme=other)
            until(page, f"{paper} !== '{first}'")
            until(page, "document.getElementById('live-map').map.areTilesLoaded()")
            until(page, f"({DRAWN})(['areas-fill']) >= 105")
            assert seen.complaints == []


@pytest.mark.long
def test_a_reader_reaches_the_map_with_the_tab_key_and_leaves_it_again(browser: Browser, kfm: Kfm) -> None:
    archive.publish(kfm, ("counties",))
    with console() as server, looking(browser, server) as (page, _):
        opened(page, "counties")
        classes = []
        for _ in range(40):
            page.keyboard.press("Tab")
            classes.append(page.evaluate("document.activeElement.className + document.activeElement.textContent"))
            if "Show the picture" in classes[-1]:
                break
        order = ("maplibregl-canvas", "maplibregl-ctrl-zoom-in", "maplibregl-ctrl-zoom-out", "Show the picture")
        assert [next(name for name in order if name in each) for each in classes[-4:]] == list(order)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('#live-map')") is None


@pytest.mark.long
def test_masked_data_is_drawn_as_cells_and_nothing_else(browser: Browser, site: Kfm) -> None:
    archive.publish(site, ("dates", "stations"))
    with console() as server:
        with looking(browser, server) as (page, seen):
            opened(page, "dates")
            assert drawn(page, "cells-fill") >= 20
            assert drawn(page, "points-dot") == 0
            layers = page.evaluate("document.getElementById('live-map').map.getStyle().layers.map((one) => one.id)")
            assert {"areas-fill", "lines-line"}.isdisjoint(layers)
            assert (seen.elsewhere(), seen.complaints) == ([], [])
            bodies = b"".join(server.get(url.removeprefix(seen.own)).body for url in seen.asked if "/tiles/" in url)
            assert bodies and not [secret for secret in SECRETS if secret.encode() in bodies]
        with looking(browser, server) as (page, seen):
            opened(page, "dates")
            labels(label("source: sites.csv", "restricted", public_resolution=7))  # closed while a reader looks at it
            page.locator(".maplibregl-ctrl-zoom-in").click()
            page.get_by_text("there is nothing at this address").wait_for()
            assert page.locator("#live-map").count() == 0


@pytest.mark.long
def test_a_page_without_a_map_is_small_and_loads_no_library(browser: Browser, kfm: Kfm) -> None:
    archive.publish(kfm, ("counties", "tops"))
    with console() as server:
        run = server.data("/v1/runs")["runs"][0]["run_id"]
        pages = ["/", "/datasets/tops/", "/runs", f"/runs/{run}", "/ledger", "/ledger/1", "/focus/counties"]
        for address in [*pages, "/lineage/counties", "/v1/docs"]:
            with looking(browser, server) as (page, seen):
                page.goto(address, wait_until="load")
                if address != "/datasets/tops/":
                    assert page.locator("#live-map").count() == 0
                    assert not [url for url in seen.asked if "maplibre" in url]
                    assert seen.size(server) <= 60 * KB, (address, seen.size(server))
                assert seen.elsewhere() == [], address


@pytest.mark.long
def test_without_webgl_or_script_the_picture_stays_and_nothing_fails(browser: Browser, kfm: Kfm) -> None:
    archive.publish(kfm, ("counties",))
    with console() as server:
        with another(browser, *NO_WEBGL) as plain, looking(plain, server) as (page, seen):
            opened(page, "counties", "picture")
            assert page.locator("#live-map svg.map").is_visible() and page.locator(".live").count() == 0
            assert seen.complaints == [] and not [url for url in seen.asked if "maplibre" in url]
            assert seen.size(server) <= 60 * KB
        with looking(browser, server, java_script_enabled=False) as (page, seen):
            page.goto("/datasets/counties/")
            assert page.locator("#live-map svg.map").is_visible()
            assert not [url for url in seen.asked if url.endswith(".js")]


@pytest.mark.long
@pytest.mark.parametrize("broken", ["library", "worker", "style", "map", "tiles"])
def test_whatever_does_not_load_the_picture_stays(browser: Browser, kfm: Kfm, broken: str) -> None:
    archive.publish(kfm, ("counties",))
    patterns = {
        "library": "**/static/maplibre-gl.*.js",
        "worker": "**/static/maplibre-gl-worker.*",
        "style": "**/static/maplibre-gl.*.css",
        "map": "**/v1/datasets/counties/map",
        "tiles": "**/tiles/**",
    }
    with console() as server, looking(browser, server) as (page, seen):
        hit: list[str] = []
        page.context.route(
            patterns[broken], lambda route: (hit.append(route.request.url), route.fulfill(status=500, body="no"))
        )
        page.goto("/datasets/counties/")
        page.locator("#live-map").scroll_into_view_if_needed()
        page.locator("#live-map[data-state=picture]").wait_for()
        assert page.locator("#live-map svg.map").is_visible()
        assert hit
        assert not [text for text in seen.complaints if "Failed to load resource" not in text]


@pytest.mark.long
def test_a_file_of_tiles_is_read_in_parts(browser: Browser, kfm: Kfm) -> None:
    places = [(-98.5 + n / 10, 38.5) for n in range(7)]
    tiles = {}
    for zoom in range(7):
        for at in {tile_of(zoom, place) for place in places}:
            tiles[at] = tile(at, [point(*place, n=1) for place in places if tile_of(zoom, place) == at], layer="wells")
    metadata = {"vector_layers": [{"id": "wells", "fields": {}}]}
    body = tile_file(tiles, metadata=metadata, bounds=(-99, 38, -97, 39))
    Path("wells.csv").write_text(f"body\n{b64encode(body).decode()}\n")
    Path("drawn.py").write_text(UPDATER)
    Path("kfm.yml").write_text(CONFIG)
    done(kfm("run"), kfm("publish", "well-tiles", "--reason", "drawn"))
    with console() as server, looking(browser, server) as (page, seen):
        told = server.data("/v1/datasets/well-tiles/map")
        assert told["source"] == "file" and told["tiles"].endswith(".pmtiles")
        parts: list[int] = []
        page.on("response", lambda answer: parts.append(answer.status) if answer.url.endswith(".pmtiles") else None)
        opened(page, "well-tiles")
        assert drawn(page, "wells-dot") == len(places)
        assert set(parts) == {206}
        assert (seen.elsewhere(), seen.complaints) == ([], [])
        assert seen.size(server) <= 520 * KB


UPDATER = """\
from base64 import b64decode

from kfm import Output, Plan, Step, Updater


class Drawn(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("tiles")]

    def plan(self, inputs):
        return Plan([Step(id="tiles", key=("tiles",))], complete=True)

    def perform(self, step, read):
        (row,) = read.csv(0)
        return Output(b64decode(row["body"]), "application/vnd.pmtiles", bbox=[-99.0, 38.0, -97.0, 39.0])
"""
CONFIG = """\
kfm: 1
accept_weak_storage: true
datasets:
  well-tiles:
    title: Wells as tiles
    license: CC0-1.0
    sensitivity: public
    updater: drawn.py:Drawn
    sources:
      tiles: {uri: wells.csv, format: csv, contract: {columns: [{name: body, required: true}]}}
"""


def test_the_library_is_what_its_sources_say_and_its_licences_travel_along() -> None:
    from hashlib import sha256

    from kfm.api.console.static_files import LIBRARY, body_of, packed
    from tests.project.bans import ROOT

    folder = ROOT / "src" / "kfm" / "api" / "console" / "web" / "library"
    pinned = json.loads((ROOT / "tools" / "map_library" / "package-lock.json").read_text())["packages"]
    rows = [line.strip("| \n").split(" | ") for line in (folder / "SOURCES.md").read_text().splitlines()[6:]]
    assert sorted(row[0] for row in rows) == sorted(LIBRARY)
    for name, package, version, _, digest in rows:
        assert sha256(body_of(name)).hexdigest() == digest
        assert pinned[f"node_modules/{package}"]["version"] == version
        assert pinned[f"node_modules/{package}"]["integrity"].startswith("sha512-")
        assert gzip.decompress(packed(name)) == body_of(name)
    licences = (folder / "LICENSES.txt").read_text()
    for path, said in pinned.items():
        name = path.rpartition("node_modules/")[2]
        assert not path or name.startswith("@types/") or f"\n{name} {said['version']}\n" in licences, name
