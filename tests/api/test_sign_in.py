"""Signing in with a token that a browser keeps as a cookie, and what protects it against forged requests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from kfm.api.access import Rules
from kfm.api.route_table import ROUTES
from kfm.cli.start.init import FILES
from tests.api.asking import Asked, Reply
from tests.api.listed import Listed

ME, SESSION = "/v1/me", "/v1/session"
OWN = {"origin": "http://127.0.0.1:8750"}
CHANGING = [route for route in ROUTES if route.changes]


def signed_in(served: Asked, token: str) -> tuple[dict[str, str], str]:
    """Sign in; return the header with the cookie, and the CSRF token."""
    answer = served.get(SESSION, method="POST", body=json.dumps({"token": token}).encode())
    assert answer.status == 200, answer.body
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}, answer.data["csrf"]


def sign_out(served: Asked, headers: Mapping[str, str]) -> Reply:
    return served.get(SESSION, method="DELETE", headers=headers)


def test_a_token_becomes_a_cookie_that_no_script_reads_and_no_other_site_sends(listed: Listed) -> None:
    served = listed.served()
    answer = served.get(SESSION, method="POST", body=json.dumps({"token": listed.tokens["ada"]}).encode())
    assert (answer.data["person"], answer.data["role"], answer.data["until"][:10]) == ("ada", "admin", "2026-01-31")
    value, *flags = answer.headers["set-cookie"].split("; ")
    assert value.startswith("kfm_session=") and flags == ["Max-Age=2592000", "Path=/", "HttpOnly", "SameSite=Strict"]
    assert answer.headers["cache-control"] == "no-store"
    found = served.get(ME, headers={"cookie": value})
    assert found.data == answer.data and found.headers["cache-control"] == "private, no-cache"
    over_tls = listed.served(Rules("shared", behind_proxy=True))
    again = over_tls.get(SESSION, method="POST", body=json.dumps({"token": listed.tokens["ada"]}).encode())
    assert again.headers["set-cookie"].endswith("; Secure")


def test_a_cookie_ends_with_the_next_request_when_its_token_or_its_person_does(listed: Listed) -> None:
    served = listed.served()
    vic, _ = signed_in(served, listed.tokens["vic"])
    olli, _ = signed_in(served, listed.tokens["olli"])
    assert (
        served.get(ME, headers=vic).data["person"] == "vic" and served.get(ME, headers=olli).data["role"] == "operator"
    )
    listed.revoke_token(listed.tokens["vic"])
    listed.revoke_key("olli")
    for cookie in (vic, olli):
        answer = served.get(ME, headers=cookie)
        assert (answer.status, answer.data["code"]) == (401, "session.ended")
        assert answer.headers["set-cookie"].startswith("kfm_session=; Max-Age=0; "), "a browser is the public again"
        shown = served.get("/now", headers={**cookie, "accept": "text/html,*/*;q=0.8"})
        assert shown.status == 401 and b'<a class="get" href="/sign-in">Sign in</a>' in shown.body
        assert shown.headers["set-cookie"] == answer.headers["set-cookie"]
        assert served.get("/sign-in", headers=cookie).status == 200, "and can sign in again"


def test_two_cookies_of_one_name_sign_nobody_in(listed: Listed) -> None:
    served = listed.served()
    cookie, _ = signed_in(served, listed.tokens["vic"])
    both = f"{cookie['cookie']}; kfm_session={listed.tokens['ada']}"
    assert served.get(ME, headers={"cookie": both}).status == 401
    assert served.get(ME, headers={"cookie": f"other=1; {cookie['cookie']}"}).status == 200


def test_a_change_by_cookie_needs_the_csrf_token_and_this_very_origin(listed: Listed) -> None:
    served = listed.served()
    cookie, csrf = signed_in(served, listed.tokens["vic"])
    _, other = signed_in(served, listed.tokens["ada"])
    good = {**cookie, "kfm-csrf": csrf}
    refused = [
        {**cookie, **OWN},
        {**cookie, **OWN, "kfm-csrf": ""},
        {**cookie, **OWN, "kfm-csrf": other},
        {**cookie, **OWN, "kfm-csrf": csrf[:-1]},
        good,
        {**good, "origin": "null"},
        {**good, "origin": "http://127.0.0.1:8751"},
        {**good, "origin": "https://127.0.0.1:8750"},
        {**good, "origin": "http://127.0.0.1:8750.example.org"},
        {**good, **OWN, "sec-fetch-site": "same-site"},
        {**good, **OWN, "sec-fetch-site": "cross-site"},
        {**good, **OWN, "sec-fetch-site": "none"},
        {**good, "sec-fetch-site": "same-origin", "origin": "http://example.org"},
    ]
    answers = [sign_out(served, headers) for headers in refused]
    assert [(one.status, one.data["code"]) for one in answers] == [(403, "csrf")] * len(refused)
    assert "set-cookie" not in answers[0].headers
    passing: list[dict[str, str]] = [
        OWN,
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "origin": "null"},
    ]
    assert [sign_out(served, {**good, **more}).status for more in passing] == [200] * 3
    assert served.get(SESSION, listed.tokens["vic"], method="DELETE").status == 200, "a token in a header is no cookie"


def test_the_one_user_of_this_machine_needs_the_csrf_token_of_this_process(tmp_path: Path, clean: None) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    site = Listed(tmp_path)
    one, other = site.served(), site.served()
    try:
        csrf = one.get(ME).data["csrf"]
        assert one.get(ME).data["role"] == "single" and len(csrf) == 64 and csrf != other.get(ME).data["csrf"]
        assert sign_out(one, OWN).data["code"] == "csrf"
        assert sign_out(one, {**OWN, "kfm-csrf": other.get(ME).data["csrf"]}).status == 403
        assert sign_out(one, {"kfm-csrf": csrf}).status == 403
        assert sign_out(one, {**OWN, "kfm-csrf": csrf}).status == 200
        assert one.get(ME, host="example.org").data["csrf"] == "", "a name that leads to this machine is the public"
    finally:
        site.close()


def test_no_route_that_changes_something_takes_a_forged_request(listed: Listed) -> None:
    served = listed.served()
    cookie, csrf = signed_in(served, listed.tokens["ada"])
    forged: tuple[dict[str, str], ...] = (
        {},
        {"kfm-csrf": csrf},
        OWN,
        {"kfm-csrf": csrf, "origin": "http://example.org"},
    )
    for route in CHANGING:
        at = re.sub(r"\{\w+(:\w+)?\}", "x", route.path)
        for headers in forged:
            answer = served.get(at, method=route.method, headers={**cookie, **headers})
            assert (answer.status, answer.data["code"]) == (403, "csrf"), (route.name, headers)


def test_a_stranger_is_signed_in_by_no_other_site(listed: Listed) -> None:
    served, body = listed.served(), json.dumps({"token": listed.tokens["vic"]}).encode()
    for headers in ({"origin": "http://example.org"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        for path in (SESSION, "/sign-in"):
            assert served.get(path, method="POST", headers=headers, body=body).data["code"] == "csrf"
    assert served.get(SESSION, method="POST", headers=OWN, body=body).status == 200


def test_the_page_signs_in_and_out_without_script(listed: Listed) -> None:
    served = listed.served()
    page = served.get("/sign-in").body.decode()
    assert '<form class="choose" method="post" action="/sign-in">' in page and "<script" not in page
    wrong = served.get(
        "/sign-in", method="POST", headers=OWN, body=urlencode({"token": "kfm_nope", "csrf": ""}).encode()
    )
    assert wrong.status == 401 and "this token is not valid" in wrong.body.decode() and b"kfm_nope" not in wrong.body
    assert "set-cookie" not in wrong.headers
    form = urlencode({"token": listed.tokens["vic"], "csrf": ""}).encode()
    done = served.get("/sign-in", method="POST", headers=OWN, body=form)
    assert (done.status, done.headers["location"]) == (303, "/")
    cookie = {"cookie": done.headers["set-cookie"].partition(";")[0]}
    page = served.get("/sign-in", headers=cookie).body.decode()
    csrf = served.get(ME, headers=cookie).data["csrf"]
    assert "signed in as <strong>vic</strong>" in page and f'name="csrf" value="{csrf}"' in page
    assert served.get("/sign-out", method="POST", headers={**cookie, **OWN}).status == 403
    out = served.get("/sign-out", method="POST", headers={**cookie, **OWN}, body=urlencode({"csrf": csrf}).encode())
    assert out.status == 303 and out.headers["set-cookie"].startswith("kfm_session=; Max-Age=0; ")


def test_every_page_carries_the_csrf_token_of_its_caller_and_none_of_the_public(listed: Listed) -> None:
    served = listed.served()
    cookie, csrf = signed_in(served, listed.tokens["ada"])
    for path in ("/", "/runs", "/now", "/sign-in", "/v1/docs", "/datasets/rain-gauges/"):
        page = served.get(path, headers=cookie).body.decode()
        assert page.count(f'<meta name="kfm-csrf" content="{csrf}"></head>') == 1, path
        assert '<a href="/sign-in">ada (admin)</a></nav>' in page, path
    for headers in ({}, {"authorization": f"Bearer {listed.tokens['ada']}"}):
        assert "kfm-csrf" not in served.get("/", headers=headers).body.decode()


def test_the_open_mode_has_no_sign_in_and_no_route_that_changes_something(listed: Listed) -> None:
    served, body = listed.served(Rules("open", behind_proxy=True)), json.dumps({"token": listed.tokens["ada"]}).encode()
    assert served.get(SESSION, method="POST", body=body).status == 404
    assert served.get("/sign-in").status == 404 and b"/sign-in" not in served.get("/").body
    cookie = {"cookie": f"kfm_session={listed.tokens['ada']}"}
    assert served.get(ME, headers=cookie).data["role"] == "public"


def test_a_body_that_is_no_sign_in_is_refused_without_a_word_of_it(listed: Listed) -> None:
    served = listed.served()
    for body in (b"", b"[]", b'{"token":1}', b'{"tok":"kfm_canary"}', b"[" * 9000, b'{"token":"kfm_\xff"}'):
        answer = served.get(SESSION, method="POST", body=body)
        assert (answer.status, answer.data["code"]) == (400, "input.bad") and b"kfm_" not in answer.body, body
