"""Signing in with an OpenID Connect provider: one that is honest, one that lies, and one that does not answer."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlencode

import pytest

from kfm.api import application
from kfm.api.access import Rules
from kfm.api.application import GovernedApp
from kfm.api.endpoints import data_routes
from kfm.app.sign_in import provider as provider_module
from kfm.app.sign_in import sign_ins
from kfm.clock import FixedClock
from kfm.telemetry.log import MemoryLog
from tests.api.listed import Listed
from tests.api.lying_provider import CLIENT, SECRET, Claims, LyingProvider, jwk, reply, signed
from tests.api.provider_browser import RETURN, START, Browser, words, write

ME = "/v1/me"
OWN = {"origin": "http://127.0.0.1:8750"}


@pytest.fixture
def lying(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> Iterator[LyingProvider]:
    monkeypatch.setenv("KFM_SECRET_SIGN_IN", SECRET)
    provider = LyingProvider(listed.clock)
    write(listed, provider.issuer)
    yield provider
    provider.close()


def test_a_person_of_the_key_list_signs_in_and_out_with_a_provider(listed: Listed, lying: LyingProvider) -> None:
    browser = Browser(listed.served())
    assert f'<a class="get" href="{START}">Sign in with 127.0.0.1:' in browser.get("/sign-in").body.decode()
    start = browser.get(START)
    assert start.headers["set-cookie"].endswith("; Max-Age=600; Path=/sign-in/return; HttpOnly; SameSite=Lax")
    back = browser.get(f"{RETURN}?{urlencode(lying.authorize(start.headers['location']))}")
    assert back.status == 200 and "signed in as <strong>vic</strong>" in back.body.decode()
    assert back.headers["refresh"] == "0; url=/" and back.headers["referrer-policy"] == "no-referrer"
    assert back.headers["set-cookie"].endswith("; Max-Age=3600; Path=/; HttpOnly; SameSite=Strict")
    me = browser.get(ME).data
    assert (me["person"], me["role"], me["until"]) == ("vic", "viewer", "2026-01-01T01:00:00.000Z")
    assert browser.get("/v1/session", "DELETE", **OWN).status == 403, "it changes something: CSRF"
    kept = dict(browser.cookies)
    assert browser.get("/v1/session", "DELETE", **{**OWN, "kfm-csrf": me["csrf"]}).status == 200
    assert "kfm_session" not in browser.cookies and browser.get(ME).data["role"] == "public"
    browser.cookies = kept
    assert browser.get(ME).status == 401, "the session has ended, not the cookie alone"


def test_four_algorithms_sign_in(listed: Listed, lying: LyingProvider) -> None:
    served = listed.served()
    for alg, key in (("RS256", "rsa"), ("PS256", "rsa"), ("ES256", "ec"), ("EdDSA", "ed")):
        lying.token = partial(signed, alg=alg, key=key)
        browser = Browser(served)
        assert browser.sign_in(lying).status == 200 and browser.get(ME).data["person"] == "vic", alg


def changed(**claims: Any) -> Callable[[Claims], str]:
    """A lie in the claims; None takes one out, a function changes one."""

    def token(known: Claims) -> str:
        found = {name: value(known[name]) if callable(value) else value for name, value in claims.items()}
        return signed({name: value for name, value in {**known, **found}.items() if value is not None})

    return token


def cut(claims: Claims) -> str:
    return signed(claims)[:-2]


def other_body(claims: Claims) -> str:
    head, _, signature = signed(claims).split(".")
    _, body, _ = signed({**claims, "preferred_username": "ada"}).split(".")
    return f"{head}.{body}.{signature}"


def named_twice(claims: Claims) -> str:
    return signed(json.dumps(claims).encode()[:-1] + b', "iss": "https://example.org"}')


LIES: dict[str, tuple[Callable[[Claims], str], str]] = {
    "another issuer": (changed(iss="https://example.org"), "its issuer is not the one"),
    "no issuer": (changed(iss=None), "its issuer is not the one"),
    "another audience": (changed(aud="another"), "it was made for another client"),
    "two audiences and no azp": (changed(aud=[CLIENT, "another"]), "it was made for another client"),
    "azp of another client": (changed(azp="another"), "it was made for another client"),
    "no algorithm": (lambda claims: signed(claims, "none"), "its algorithm is none of"),
    "the public key as a secret": (lambda claims: signed(claims, "HS256"), "its algorithm is none of"),
    "HS512": (lambda claims: signed(claims, "HS512"), "its algorithm is none of"),
    "the algorithm of another key": (lambda claims: signed(claims, "RS256", kid="ec"), "no single key"),
    "an unknown key": (lambda claims: signed(claims, kid="nobody"), "no single key"),
    "a key whose name is a number": (lambda claims: signed(claims, kid=7), "asks for something unknown"),
    "another key under this name": (lambda claims: signed(claims, key="other", kid="rsa"), "did not sign it"),
    "a key that it brings along": (
        lambda claims: signed(claims, key="other", kid="rsa", jwk={"kty": "RSA"}), "did not sign it",
    ),
    "another body": (other_body, "did not sign it"),
    "a cut signature": (cut, "did not sign it"),
    "something critical": (lambda claims: signed(claims, crit=["b64"], b64=False), "asks for something unknown"),
    "another nonce": (changed(nonce="n" * 43), "it belongs to another sign-in"),
    "no nonce": (changed(nonce=None), "it belongs to another sign-in"),
    "expired": (changed(exp=lambda at: at - 331), "it has ended"),
    "no end": (changed(exp=None), "it has ended"),
    "an end that is no number": (changed(exp="9999999999"), "it has ended"),
    "from the future": (changed(iat=lambda at: at + 31), "it is from the future"),
    "no time": (changed(iat=None), "it is from the future"),
    "not valid yet": (changed(nbf=9_999_999_999), "not valid yet"),
    "issued too long ago": (changed(iat=lambda at: at - 631), "issued too long ago"),
    "no subject": (changed(sub=""), "it names nobody"),
    "the hash of another access token": (changed(at_hash="A" * 22), "another access token"),
    "no claim": (changed(preferred_username=["vic"]), "it has no claim preferred_username"),
    "a claim twice": (named_twice, "it is no signed token"),
    "no token": (lambda _: "no.token", "it is no signed token"),
}  # fmt: skip


def test_no_token_that_lies_signs_anybody_in(listed: Listed, lying: LyingProvider) -> None:
    served, told = listed.served(), 0
    for lie, (token, expected) in LIES.items():
        lying.token = token
        browser = Browser(served)
        answer = browser.sign_in(lying)
        told += 1
        assert lying.sent.count("token") == told, "the lie was told"
        assert answer.status == 403 and expected in words(answer), (lie, words(answer))
        assert "kfm_session" not in browser.cookies and browser.get(ME).data["role"] == "public", lie
    lying.token = signed
    assert told == len(LIES) and Browser(served).sign_in(lying).status == 200, "the truth is believed"


def test_a_token_counts_to_the_second_with_half_a_minute_for_clocks_that_differ(
    listed: Listed, lying: LyingProvider
) -> None:
    served = listed.served()
    for token in (changed(exp=lambda at: at - 329), changed(iat=lambda at: at + 30), changed(iat=lambda at: at - 629)):
        lying.token = token
        assert Browser(served).sign_in(lying).status == 200


def test_an_answer_counts_once_for_the_browser_that_began(listed: Listed, lying: LyingProvider) -> None:
    served = listed.served()
    victim, thief = Browser(served), Browser(served)
    given = lying.authorize(victim.begin())
    thief.begin()
    stolen = thief.get(f"{RETURN}?{urlencode(given)}")
    assert stolen.status == 403 and "another browser began" in words(stolen)
    late = victim.get(f"{RETURN}?{urlencode(given)}")
    assert late.status == 403 and "a second time" in words(late), "the state was used up by the thief"
    given = lying.authorize(victim.begin())
    assert victim.get(f"{RETURN}?{urlencode(given)}").status == 200
    for browser in (victim, thief):
        again = browser.get(f"{RETURN}?{urlencode(given)}")
        assert again.status == 403 and "a second time" in words(again), "a replayed callback"
    state = lying.authorize(thief.begin())["state"]
    replayed = thief.get(f"{RETURN}?{urlencode({**given, 'state': state})}")
    assert lying.sent[-1].startswith("/token 400") and replayed.status == 403, "a replayed code"
    assert "did not take its code" in words(replayed)
    assert lying.sent.count("token") == 1


CHANGES: tuple[tuple[dict[str, str | None], str], ...] = (
    ({"state": "s" * 43}, "it belongs to no sign-in"),
    ({"state": None}, "it belongs to no sign-in"),
    ({"iss": "https://example.org"}, "another provider"),
    ({"iss": None}, "another provider"),
    ({"code": ""}, "signed nobody in"),
    ({"error": "access_denied", "error_description": "canary"}, "signed nobody in"),
)


def test_an_answer_that_was_changed_on_its_way_signs_nobody_in(listed: Listed, lying: LyingProvider) -> None:
    served = listed.served()
    for change, expected in CHANGES:
        browser = Browser(served)
        given = {**lying.authorize(browser.begin()), **change}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        answer = browser.get(f"{RETURN}?{query}")
        assert answer.status == 403 and expected in words(answer) and b"canary" not in answer.body, change
    assert "token" not in lying.sent, "no code was exchanged"


def test_an_answer_that_comes_after_ten_minutes_or_under_another_provider_signs_nobody_in(
    listed: Listed, lying: LyingProvider
) -> None:
    browser = Browser(listed.served())
    given = lying.authorize(browser.begin())
    listed.clock.advance(600_000)
    assert "came too late" in words(browser.get(f"{RETURN}?{urlencode(given)}"))
    given = lying.authorize(browser.begin())
    write(listed, lying.issuer, client="another")
    assert "kfm.yml has changed" in words(browser.get(f"{RETURN}?{urlencode(given)}"))


def test_whom_the_key_list_does_not_have_is_refused_without_his_name(listed: Listed, lying: LyingProvider) -> None:
    served = listed.served()
    listed.revoke_key("olli")
    for name in ("olli", "stranger", "Vic", " vic", "vic@example.org"):
        lying.claims = {"preferred_username": name}
        answer = Browser(served).sign_in(lying)
        assert answer.status == 403 and "no person with a valid key by the name" in words(answer)
        assert "set-cookie" not in answer.headers and f"<strong>{name}" not in answer.body.decode()


def test_the_claim_may_come_from_userinfo_and_an_address_has_to_be_verified(
    listed: Listed, lying: LyingProvider
) -> None:
    served = listed.served()
    lying.token = changed(preferred_username=None)
    assert Browser(served).sign_in(lying).status == 200 and "/userinfo 200" in lying.sent
    lying.answers["/userinfo"] = lambda handler: reply(handler, b'{"sub":"other","preferred_username":"ada"}')
    answer = Browser(served).sign_in(lying)
    assert "about somebody else" in words(answer) and lying.sent[-1] == "/userinfo"
    write(listed, lying.issuer, ", claim: email")
    lying.token = changed(email="vic")
    assert "has not verified" in words(Browser(served).sign_in(lying))
    lying.token = changed(email="vic", email_verified=True)
    assert Browser(served).sign_in(lying).status == 200


# -- the end of a session


def test_a_token_revoked_at_the_provider_stops_within_five_seconds(listed: Listed, lying: LyingProvider) -> None:
    browser = Browser(listed.served())
    browser.sign_in(lying)
    listed.clock.advance(5_000)
    assert browser.get(ME).status == 200 and lying.sent.count("/inspect 200") == 1
    lying.revoked = True
    listed.clock.advance(4_999)
    assert browser.get(ME).status == 200, "the last answer counts for five seconds"
    listed.clock.advance(1)
    ended = browser.get(ME)
    assert (ended.status, ended.data["code"]) == (401, "session.ended") and lying.sent.count("/inspect 200") == 2
    assert "kfm_session" not in browser.cookies


def test_a_client_without_a_secret_asks_by_userinfo(listed: Listed, lying: LyingProvider) -> None:
    path = listed.folder / "kfm.yml"
    path.write_text(path.read_text().replace(", client_secret: 'env:KFM_SECRET_SIGN_IN'", ""))
    browser = Browser(listed.served())
    assert browser.sign_in(lying).status == 200
    lying.revoked = True
    listed.clock.advance(5_000)
    assert browser.get(ME).status == 401 and "/userinfo 401" in lying.sent and "/inspect 200" not in lying.sent


def test_a_person_or_a_provider_that_is_taken_away_stops_with_the_next_request(
    listed: Listed, lying: LyingProvider
) -> None:
    served = listed.served()
    vic, olli, ada = Browser(served), Browser(served), Browser(served)
    for browser, name in ((vic, "vic"), (olli, "olli"), (ada, "ada")):
        lying.claims = {"preferred_username": name}
        assert browser.sign_in(lying).status == 200
    assert olli.get(ME).data["role"] == "operator"
    listed.revoke_key("olli")
    assert olli.get(ME).status == 401 and vic.get(ME).status == 200
    write(listed, lying.issuer, client="another")
    assert vic.get(ME).status == 401
    path = listed.folder / "kfm.yml"
    path.write_text(path.read_text().partition("sign_in:")[0])
    assert ada.get(ME).status == 401 and ada.get(START).status == 404


def test_a_session_ends_with_its_access_token_or_after_the_hours_of_kfm_yml(
    listed: Listed, lying: LyingProvider
) -> None:
    served = listed.served()
    for expires_in, hours, ends in ((90, 8, 90), (10**9, 1, 3600), (None, 2, 7200), ("x", 1, 3600)):
        lying.expires_in = expires_in
        write(listed, lying.issuer, f", hours: {hours}")
        browser = Browser(served)
        browser.sign_in(lying)
        listed.clock.advance(ends * 1000 - 1)
        assert browser.get(ME).status == 200, expires_in
        listed.clock.advance(1)
        assert browser.get(ME).status == 401, expires_in


def test_another_server_does_not_know_the_session_and_no_header_carries_it(
    listed: Listed, lying: LyingProvider
) -> None:
    browser = Browser(listed.served())
    browser.sign_in(lying)
    token = browser.cookies["kfm_session"]
    assert browser.served.get(ME, token).status == 401
    assert browser.served.get(ME, headers={"authorization": f"Bearer {sign_ins.name_of(token)}"}).status == 401
    again = Browser(listed.served())
    again.cookies = dict(browser.cookies)
    assert again.get(ME).status == 401


def test_a_download_ends_when_the_provider_takes_back_the_sign_in(
    listed: Listed, lying: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = listed.served()
    browser = Browser(served)
    browser.sign_in(lying)
    href = browser.get("/v1/datasets/rain-gauges").data["files"][0]["href"]
    assert browser.get(href).status == 200
    known, opened = GovernedApp._while_valid, []

    def revoking(self: Any, stream: Any, credential: str, caller: Any) -> Any:
        lying.revoked = True
        listed.clock.advance(5_000)
        opened.append(caller.person)
        return known(self, stream, credential, caller)

    monkeypatch.setattr(GovernedApp, "_while_valid", revoking)
    monkeypatch.setattr(data_routes, "AT_ONCE", 0)  # so that also this small file is sent in pieces
    with pytest.raises(application._Withdrawn):
        browser.get(href)
    assert opened == ["vic"] and lying.sent[-1] == "/inspect 200"


# -- a provider that does not answer


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(100):
        try:
            handler.wfile.write(b" ")
            time.sleep(0.05)
        except OSError:
            return


def too_much(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(400):
        try:
            handler.wfile.write(b" " * 10_000)
        except OSError:
            return


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(2)


FAULTS: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "slow": lambda _: time.sleep(0.6),
    "drip": drip,
    "too much": too_much,
    "a large length": lambda handler: reply(handler, b"x" * 300_000),
    "hang up": hang_up,
    "500": lambda handler: reply(handler, b"{}", 500),
    "redirect": lambda handler: reply(handler, b"", 302, Location="http://127.0.0.1:1/"),
    "no JSON": lambda handler: reply(handler, b"<html>"),
    "a list": lambda handler: reply(handler, b"[]"),
    "deep": lambda handler: reply(handler, b"[" * 100_000),
}


PATHS = ("/.well-known/openid-configuration", "/token", "/keys")


@pytest.mark.parametrize(
    "path", [PATHS[1], *(pytest.param(path, marks=pytest.mark.long) for path in (PATHS[0], PATHS[2]))]
)
def test_a_provider_that_fails_gives_one_clear_page(
    path: str, listed: Listed, lying: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "SILENCE_S", 0.2)
    monkeypatch.setattr(provider_module, "CALL_S", 0.4)
    pages = set()
    for fault in FAULTS.values():
        lying.answers = {path: fault}
        browser = Browser(listed.served())
        answer = browser.get(START)
        if answer.status == 303:
            answer = browser.get(f"{RETURN}?{urlencode(lying.authorize(answer.headers['location']))}")
        assert lying.sent[-1] == path and answer.status == 503
        assert answer.headers["content-type"].startswith("text/html") and "kfm_session" not in browser.cookies
        pages.add(words(answer))
    assert browser.served.get(ME).status == 200, "everything else goes on"
    assert pages == {"the sign-in provider does not answer as it should; try again later, or sign in with a token"}


def test_a_provider_that_is_down_gives_the_same_page(listed: Listed, lying: LyingProvider) -> None:
    lying.close()
    answer = Browser(listed.served()).get(START)
    assert answer.status == 503 and "does not answer as it should" in words(answer)


def test_a_session_whose_provider_says_something_odd_about_it_has_ended(listed: Listed, lying: LyingProvider) -> None:
    served = listed.served()
    for odd in (b'{"active":1}', b'{"active":true,"client_id":"another"}', b'{"active":true,"sub":"another"}', b"{}"):
        lying.answers.clear()
        browser = Browser(served)
        browser.sign_in(lying)
        lying.answers["/inspect"] = partial(reply, body=odd)
        listed.clock.advance(5_000)
        assert browser.get("/v1/datasets").status == 401 and lying.sent[-1] == "/inspect", odd


def test_nothing_is_shown_while_the_provider_does_not_say_that_a_session_holds(
    listed: Listed, lying: LyingProvider
) -> None:
    browser = Browser(listed.served())
    browser.sign_in(lying)
    csrf = browser.get(ME).data["csrf"]
    for fault in ("500", "hang up", "no JSON"):
        lying.answers["/inspect"] = FAULTS[fault]
        listed.clock.advance(5_000)
        answer = browser.get("/v1/datasets")
        assert lying.sent[-1] == "/inspect" and b"rain-gauges" not in answer.body
        assert (answer.status, answer.data["code"]) == (503, "session.unconfirmed"), fault
        asked = len(lying.sent)
        assert browser.get("/v1/datasets").status == 503 and len(lying.sent) == asked, "it is not asked each time"
        assert b"signed in as" not in browser.get("/sign-in").body
        del lying.answers["/inspect"]
        listed.clock.advance(5_000)
        assert browser.get("/v1/datasets").status == 200, "the session is still there"
    lying.answers["/inspect"] = FAULTS["500"]
    listed.clock.advance(5_000)
    assert browser.get("/v1/session", "DELETE", **{**OWN, "kfm-csrf": csrf}).status == 200, "one can always sign out"
    assert browser.get(ME).data["role"] == "public"


ODD: tuple[tuple[dict[str, Any], int], ...] = (
    ({"issuer": "https://example.org"}, 403),
    ({"token_endpoint": "http://192.0.2.1/token"}, 403),
    ({"token_endpoint": "file:///etc/passwd"}, 403),
    ({"jwks_uri": ""}, 403),
    ({"authorization_endpoint": "javascript:alert(1)"}, 403),
    ({"authorization_endpoint": "https://example.org/a\r\nset-cookie: x=1"}, 403),
    ({"code_challenge_methods_supported": ["plain"]}, 403),
    ({"userinfo_endpoint": "", "introspection_endpoint": ""}, 403),
    ({"jwks_uri": "https://127.0.0.2/keys"}, 503),
)


def test_a_provider_that_describes_itself_wrongly_is_not_used(listed: Listed, lying: LyingProvider) -> None:
    for metadata, status in ODD:
        lying.metadata = metadata
        browser = Browser(listed.served())
        answer = browser.get(START)
        if answer.status == 303:
            answer = browser.get(f"{RETURN}?{urlencode(lying.authorize(answer.headers['location']))}")
        assert answer.status == status and words(answer), metadata
        assert lying.sent[-1].endswith("200") and "kfm_session" not in browser.cookies


def test_new_keys_of_the_provider_are_fetched_but_not_for_every_token(listed: Listed, lying: LyingProvider) -> None:
    served = listed.served()
    assert Browser(served).sign_in(lying).status == 200
    lying.token = lambda claims: signed(claims, key="other", kid="new")
    for _ in range(3):
        assert "no single key" in words(Browser(served).sign_in(lying))
    assert lying.sent.count("/keys 200") == 1
    lying.answers["/keys"] = lambda handler: reply(handler, json.dumps({"keys": [jwk("other", "new")]}).encode())
    listed.clock.advance(30_000)
    assert Browser(served).sign_in(lying).status == 200 and lying.sent.count("/keys") == 1


def test_nothing_of_a_code_a_token_or_a_claim_is_in_a_log_or_a_page(
    listed: Listed, lying: LyingProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    log, said = MemoryLog(FixedClock()), []
    served = listed.served(log=log)
    lying.claims = {"preferred_username": "vic", "email": "canary@example.org"}
    tokens = [lie for lie, _ in LIES.values()][::4]
    for token in (signed, *tokens):
        lying.token = token
        browser = Browser(served)
        said.append(browser.sign_in(lying))
        lying.answers["/inspect"] = FAULTS["500"]
        listed.clock.advance(5_000)
        said.append(browser.get(ME))
        lying.answers.clear()
    assert 200 in {one.status for one in said} and 403 in {one.status for one in said} and lying.tokens
    lying.answers["/token"] = FAULTS["no JSON"]
    said.append(Browser(served).sign_in(lying))
    assert "the sign-in provider" in caplog.text, "the operator learns that it failed"
    pages = b"".join(one.body for one in said).decode()
    for text in (caplog.text, json.dumps(log.events), pages):
        for secret in (*lying.tokens, SECRET, "canary", "subject-7"):
            assert secret not in text


def test_sign_ins_need_little_memory(monkeypatch: pytest.MonkeyPatch, listed: Listed, lying: LyingProvider) -> None:
    monkeypatch.setattr(sign_ins, "MOST_BEGUN", 3)
    monkeypatch.setattr(sign_ins, "MOST_SESSIONS", 2)
    served = listed.served()
    first = Browser(served)
    given = lying.authorize(first.begin())
    for _ in range(5):
        Browser(served).begin()
    assert len(served.access.sign_ins._begun) == 3
    assert first.get(f"{RETURN}?{urlencode(given)}").status == 403
    for _ in range(4):
        assert Browser(served).sign_in(lying).status == 200
    assert len(served.access.sign_ins._sessions) == 2


def test_the_open_mode_knows_no_provider(listed: Listed, lying: LyingProvider) -> None:
    served = listed.served(Rules("open", behind_proxy=True))
    assert [served.get(path).status for path in (START, RETURN, "/sign-in")] == [404] * 3 and not lying.sent
