"""The console in a real browser: accessible, no wider than a phone, by keyboard, and with nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import sampling
from tests.api.console_server import Console, console
from tests.browser.chromium import DRIVER, chromium, violations
from tests.cli.conftest import Kfm, done, kfm, plain_environment, ran, started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["kfm", "plain_environment", "ran", "started"]

pytestmark = pytest.mark.xdist_group("chromium")
NARROW, WIDE = {"width": 360, "height": 720}, {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def signed(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """A published dataset in a ledger with a signed head."""
    monkeypatch.setenv("KFM_SECRET_LEDGER", "7" * 64)
    with Path("kfm.yml").open("a") as file:
        file.write("ledger: {origin: test.example/ledger, sign_with: 'env:KFM_SECRET_LEDGER'}\n")
    done(ran("audit", "export"))
    return ran


@contextmanager
def looking(browser: Browser, server: Console, **how: Any) -> Iterator[tuple[Page, list[str], list[str]]]:
    """A page of the console, the addresses that were asked for elsewhere, and what the browser complained of."""
    context = browser.new_context(base_url=f"http://127.0.0.1:{server.port}", **how)
    page = context.new_page()
    elsewhere: list[str] = []
    complaints: list[str] = []
    own = f"http://127.0.0.1:{server.port}/"
    page.on("request", lambda request: None if request.url.startswith(own) else elsewhere.append(request.url))
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text)
            if message.type in ("error", "warning") and not message.text.startswith(DRIVER)
            else None
        ),
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page, elsewhere, complaints
    finally:
        context.close()


def addresses(server: Console) -> list[str]:
    run_id = server.data("/v1/runs")["runs"][-1]["run_id"]
    version = server.data("/v1/datasets/rain-gauges")["version"]
    own = ["/runs", f"/runs/{run_id}", "/now", "/ledger", "/ledger/1", "/review", "/governance", "/objectives"]
    own += ["/schedules", "/decisions/rain-gauges", "/datasets/rain-gauges/", "/my-key", "/operations"]
    return [*own, "/lineage/rain-gauges", f"/versions/rain-gauges/{version}", "/why-not/rain-gauges"]


@pytest.mark.parametrize("scheme", sampling.sampled(["light", "dark"]))
def test_no_page_of_the_console_has_a_finding_is_too_wide_or_asks_elsewhere(
    browser: Browser, signed: Kfm, scheme: str
) -> None:
    with console() as server:
        with looking(browser, server, color_scheme=scheme, viewport=NARROW) as (page, elsewhere, complaints):
            for address in addresses(server):
                page.goto(address, wait_until="load")
                assert page.locator("h1").count() == 1, address
                assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], f"{address} scrolls"
                assert page.locator("script:not([src])").count() == 0, "no script stands in the page"
            assert (elsewhere, complaints) == ([], [])
        with looking(browser, server, color_scheme=scheme, viewport=WIDE, bypass_csp=True) as (page, _, _):
            for address in addresses(server)[:: 1 if sampling.everything else 5]:
                page.goto(address, wait_until="load")
                assert violations(page) == [], address


@pytest.mark.long
def test_the_browser_checks_the_proof_of_an_entry_and_sees_when_it_does_not_hold(browser: Browser, signed: Kfm) -> None:
    with console() as server, looking(browser, server) as (page, _, complaints):
        page.goto("/ledger/1")
        page.locator("#check.good").wait_for()
        assert "checked this proof" in page.locator("#check").inner_text()
        assert complaints == []
        altered = server.data("/v1/ledger/1")
        for name, value in (
            ("stored", altered["stored"].replace("ingest", "ingest ")),
            ("hashes", ["0" * 64, *altered["hashes"][1:]]),
            ("checkpoint", altered["checkpoint"].replace("test.example/ledger\n", "test.example/other\n", 1)),
            ("leaf", "0" * 64),
            ("keys", []),
        ):
            body = {**altered, "stored": altered["stored"] if name == "stored" else "", name: value}
            page.route("**/v1/ledger/1", lambda route, *, sent=body: route.fulfill(json=sent))
            page.reload()
            page.locator("#check.bad").wait_for()
            assert "does not hold" in page.locator("#check").inner_text(), name
            page.unroute("**/v1/ledger/1")


@pytest.mark.long
def test_the_page_of_the_present_follows_what_happens(browser: Browser, ran: Kfm) -> None:
    with console() as server, looking(browser, server) as (page, _, complaints):
        with page.expect_response("**/v1/events"):
            page.goto("/now")
        assert page.get_by_text("frozen", exact=True).count() == 0
        done(ran("freeze", "rain-gauges", "--reason", "looking"))
        page.get_by_text("frozen", exact=True).first.wait_for()
        assert "rain-gauges" in page.locator("#news").inner_text()
        assert complaints == []


@pytest.mark.long
def test_a_reader_without_script_and_without_a_mouse_reads_every_page(browser: Browser, signed: Kfm) -> None:
    with console() as server:
        with looking(browser, server, java_script_enabled=False) as (page, _, _):
            for address in addresses(server):
                page.goto(address)
                assert len(page.locator("main").inner_text()) > 60, address
            page.goto("/ledger/1")
            assert "kfm audit prove 1" in page.locator("main").inner_text()
        with looking(browser, server) as (page, _, _):
            page.goto("/runs")
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.className") == "skip"
            page.keyboard.press("Enter")
            assert page.evaluate("location.hash") == "#main"
            for _ in range(30):
                page.keyboard.press("Tab")
                if (page.evaluate("document.activeElement.getAttribute('href')") or "").startswith("/runs/"):
                    break
            page.keyboard.press("Enter")
            page.wait_for_url("**/runs/*-*")
            assert page.locator("h1").inner_text().startswith("Run ")
