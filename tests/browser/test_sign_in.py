"""Signing in with a real browser at a real provider on another site: cookies do what they are meant to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kfm.api.server import Served, listening
from kfm.cli.listener import index_file, reopened
from kfm.clock import SystemClock
from kfm.config import load
from tests.api.conftest import listed as listed
from tests.api.listed import Listed
from tests.api.provider_browser import RETURN, write
from tests.browser.chromium import chromium, violations
from tests.servers.oidc_provider import CLIENT, SECRET, provider
from tests.servers.postgres import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser


pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.long]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_a_browser_signs_in_at_another_site_and_out_again(
    browser: Browser, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_SECRET_SIGN_IN", SECRET)
    port = free_port()
    base = f"http://localhost:{port}"  # another site than 127.0.0.1, where the provider is
    with provider([base + RETURN], SystemClock().now_ms()) as real:
        write(listed, real.issuer, client=CLIENT)
        resolved = load(str(listed.folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
        again = partial(reopened, resolved)
        served = Served(again, resolved.path, index_file(resolved))
        with listening(again, "127.0.0.1", port, None, metrics=False, served=served):
            context = browser.new_context(bypass_csp=False)
            page = context.new_page()
            page.goto(f"{base}/")
            page.get_by_role("link", name="Sign in").click()
            page.get_by_role("link", name="Sign in with 127.0.0.1").click()
            page.locator("input[name=login]").fill("ada")
            page.locator("input[name=password]").fill("any")
            page.locator("button[type=submit]").click()
            page.locator("button[type=submit]").click()  # consent
            page.wait_for_url(f"{base}/")
            page.get_by_role("link", name="ada (admin)").click()
            assert page.get_by_text("You are signed in as ada").is_visible()
            (cookie,) = [each for each in context.cookies() if each["name"] == "kfm_session"]
            assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
            assert page.evaluate("document.cookie") == ""
            # Another site makes the browser send a form: without the cookie, and with the origin of that site.
            other = context.new_page()
            other.goto(f"{real.issuer}/.well-known/openid-configuration")
            answered = []
            other.on("response", lambda response: answered.append((response.request.method, response.status)))
            other.evaluate(
                """at => { const form = document.createElement("form"); form.method = "post"; form.action = at;
                document.body.append(form); form.submit(); }""",
                f"{base}/sign-out",
            )
            other.wait_for_url(f"{base}/sign-out")
            assert ("POST", 403) in answered, answered
            page.goto(f"{base}/sign-in")
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url(f"{base}/sign-in")
            assert page.get_by_role("link", name="Sign in with 127.0.0.1").is_visible()
            assert not [each for each in context.cookies() if each["name"] == "kfm_session"]
            context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong_on_the_page_for_signing_in(browser: Browser, listed: Listed, scheme: str) -> None:
    resolved = load(str(listed.folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
    again = partial(reopened, resolved)
    served = Served(again, resolved.path, index_file(resolved))
    with listening(again, "127.0.0.1", 0, None, metrics=False, served=served) as port:
        page = browser.new_page(bypass_csp=True, color_scheme=scheme, viewport={"width": 360, "height": 720})  # type: ignore[arg-type]
        page.goto(f"http://127.0.0.1:{port}/sign-in")
        page.get_by_label("Token").fill("kfm_wrong")
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []
        page.get_by_label("Token").fill(listed.tokens["vic"])
        page.keyboard.press("Enter")
        page.get_by_role("link", name="vic (viewer)").wait_for()
        page.close()
