"""Signing in with a real OpenID Connect provider: oidc-provider of npm, on loopback."""

from __future__ import annotations

import pytest

from tests.api.listed import Listed
from tests.api.provider_browser import RETURN, Browser, words, write
from tests.servers.oidc_provider import CLIENT, SECRET, provider

BASE = "http://127.0.0.1:8750"
ALGORITHMS = ("EdDSA", *(pytest.param(alg, marks=pytest.mark.long) for alg in ("RS256", "PS256", "ES256")))


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_person_signs_in_with_a_real_provider_until_it_revokes_the_token(
    alg: str, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_SECRET_SIGN_IN", SECRET)
    with provider([BASE + RETURN], listed.clock.now_ms(), alg) as real:
        write(listed, real.issuer, client=CLIENT)
        served = listed.served()
        browser, stranger = Browser(served), Browser(served)
        back = real.authorize(browser.begin(), "vic")
        assert back.startswith(f"{BASE}{RETURN}?code=")
        assert browser.get(back.removeprefix(BASE)).status == 200
        me = browser.get("/v1/me").data
        assert (me["person"], me["role"]) == ("vic", "viewer")
        again = browser.get(back.removeprefix(BASE))
        assert again.status == 403 and "a second time" in words(again)
        assert browser.get("/v1/me").status == 200

        refused = stranger.get(real.authorize(stranger.begin(), "mallory").removeprefix(BASE))
        assert refused.status == 403 and "no person with a valid key" in words(refused)

        listed.clock.advance(5_000)
        assert browser.get("/v1/me").status == 200, "the provider was asked, and stands by it"
        (session,) = served.access.sign_ins._sessions.values()
        real.revoke(session.access_token.reveal().decode())
        listed.clock.advance(4_999)
        assert browser.get("/v1/me").status == 200
        listed.clock.advance(1)
        assert browser.get("/v1/me").status == 401


@pytest.mark.long
def test_a_real_provider_takes_a_code_once_and_from_its_browser_alone(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_SECRET_SIGN_IN", SECRET)
    with provider([BASE + RETURN], listed.clock.now_ms()) as real:
        write(listed, real.issuer, ", claim: email", client=CLIENT)
        served = listed.served()
        one, other = Browser(served), Browser(served)
        nobody = one.get(real.authorize(one.begin(), "vic").removeprefix(BASE))
        assert nobody.status == 403, "the key list has vic, and not vic@example.org"
        write(listed, real.issuer, client=CLIENT)
        back = real.authorize(one.begin(), "vic").removeprefix(BASE)
        other.begin()
        assert "another browser" in words(other.get(back))
        # The code is still whole at the provider; the state under which it counts here is gone.
        state = real.authorize(other.begin(), "vic").partition("state=")[2].partition("&")[0]
        code = back.partition("code=")[2].partition("&")[0]
        mixed = other.get(f"{RETURN}?code={code}&state={state}&iss={real.issuer}")
        assert mixed.status == 403 and "did not take its code" in words(mixed), "PKCE: it belongs to another sign-in"
        monkeypatch.setenv("KFM_SECRET_SIGN_IN", "another-secret")
        served = listed.served()
        browser = Browser(served)
        wrong = browser.get(real.authorize(browser.begin(), "vic").removeprefix(BASE))
        assert wrong.status == 503 and SECRET not in wrong.body.decode()
