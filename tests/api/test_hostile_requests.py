"""Requests that no client of ours sends: one answer that says what to change, and a server that goes on."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from typing import Any

import pytest

from kfm.api import application
from tests.api.serving_site import CANARY, CLOSED, OPEN, SECRET, Site

METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PROPFIND", b"TRACE", b"CONNECT", b"get", b"\xff")
PATHS = (
    b"/",
    b"/v1",
    b"/v1/datasets",
    b"/v1/datasets/",
    b"/v1/focus/",
    b"/stac/collections/",
    b"/datasets/",
    b"//",
    b"*",
    b"",
)
NAMES = (
    b"parcels", b"vaulted", b"%00", b"%ff%fe", b"%2e%2e", b"..%2f..%2fkfm.yml", b"%252e", b"\xc3\xa9", b"%0d%0aX:1",
    b"a" * 5000, b"%", b"%zz", b"{name}", b"sha256:0", b"parcels@%00", b"parcels/../vaulted", b"\xed\xa0\x80",
    b"%ED%A0%80",
)  # fmt: skip
QUERIES = (
    b"",
    b"?",
    b"?limit=-1",
    b"?limit=\xd9\xa1",
    b"?limit=1e3",
    b"?&&&=",
    b"?after=%00",
    b"?after=%ff",
    b"?" + b"a=1&" * 9000,
    b"?bbox=NaN",
    b"?limit=" + b"9" * 400,
)
HEADERS = (
    b"Range: bytes=0-", b"Range: bytes=-", b"Range: bytes=" + b"9" * 30 + b"-", b"Range: bytes=\xb2-",
    b"If-None-Match: \xff", b"If-Range: ,", b"Host: \xff", b"Host: a\tb", b"Accept: " + b"a/b," * 2000,
    b"Content-Length: 0", b"X:" + b" " * 5000, b"Transfer-Encoding: chunked", b"Expect: 100-continue",
    b"Content-Type: x",
    b"Upgrade: websocket", b"Cookie: \x01",
)  # fmt: skip
BODIES: dict[str, Callable[[], bytes]] = {
    "deep": lambda: b"[" * 100_000 + b"]" * 100_000,
    "deep in a filter": lambda: b'{"filter":' * 20_000 + b"1" + b"}" * 20_000,
    "not UTF-8": lambda: b'{"ids":["\xff"]}',
    "half a surrogate": lambda: b'{"ids":["\\ud800"]}',
    "no object": lambda: b"[1,2]",
    "a number": lambda: b"1e999",
    "cut": lambda: b'{"ids":',
    "nothing but zeros": lambda: b"\x00" * 1000,
    "a huge number": lambda: b'{"limit":' + b"9" * 100_000 + b"}",
    "too large": lambda: b'{"ids":["' + b"a" * application.MOST_BODY + b'"]}',
}


def exchanged(site: Site, request: bytes) -> tuple[int, bytes]:
    """Send a request that asks for the connection to be closed, and return status and everything that came."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as sock:
        sock.sendall(request)
        parts = []
        try:
            while part := sock.recv(1 << 16):
                parts.append(part)
        except ConnectionError:
            pass
    found = b"".join(parts)
    return (int(found[9:12]) if found else 0), found


def hostile(draw: random.Random) -> bytes:
    path = draw.choice(PATHS)
    if draw.random() < 0.6:
        path += draw.choice(NAMES) + draw.choice((b"", b"", b"/", b"/x.csv"))
    method = b"GET" if draw.random() < 0.5 else draw.choice(METHODS)
    query = draw.choice(QUERIES) if draw.random() < 0.5 else b""
    lines = [method + b" " + path + query + b" HTTP/1.1", b"Connection: close"]
    lines += draw.sample(HEADERS, draw.choice((0, 0, 1, 2)))
    if draw.random() < 0.8:
        lines.insert(1, b"Host: 127.0.0.1")
    end = b"0\r\n\r\n" if b"Transfer-Encoding: chunked" in lines else b""
    return b"\r\n".join(lines) + b"\r\n\r\n" + end


def asked(site: Site, number: int, count: int) -> set[int]:
    draw, seen = random.Random(number), set[int]()
    for _ in range(count):
        request = hostile(draw)
        status, answer = exchanged(site, request)
        seen.add(status)
        assert 100 < status < 500, (request[:300], answer[:300])
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"application/problem+json" in head and not request.startswith(b"HEAD"):
            assert json.loads(body)["status"] == status
        for closed in (CANARY, CLOSED, "Traceback", "/kfm/"):
            assert closed.encode() not in answer, request[:300]
        assert b"\r\nX:1" not in head and (SECRET.encode() not in answer)
    return seen


def test_no_hostile_head_is_a_mistake_of_the_server(served: Site) -> None:
    seen = asked(served, 1, 400)
    assert {200, 400, 404, 405} <= seen
    assert served.ask("/v1").status == 200


@pytest.mark.long
@pytest.mark.parametrize("number", range(2, 6))
def test_no_hostile_head_of_many_is_a_mistake_of_the_server(number: int, served: Site) -> None:
    assert {200, 400, 404, 405} <= asked(served, number, 5000)


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_that_is_no_request_is_refused(kind: str, served: Site) -> None:
    answer = served.ask("/stac/search", "POST", {"Content-Type": "application/json"}, BODIES[kind]())
    problem = json.loads(answer.body)
    assert answer.status == (413 if kind == "too large" else 400)
    assert problem["status"] == answer.status and problem["detail"] and problem["code"] == "input.bad"
    assert served.ask("/stac/search", "POST", {"Content-Type": "application/json"}, b"{}").status == 200


def test_a_body_of_another_type_is_refused(served: Site) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        answer = served.ask("/stac/search", "POST", {"Content-Type": kind}, b"{}")
        assert (answer.status, json.loads(answer.body)["detail"]) == (415, "send the body as application/json")
    for kind in ("application/json", "Application/JSON; charset=utf-8"):
        assert served.ask("/stac/search", "POST", {"Content-Type": kind}, b"{}").status == 200


def test_a_body_of_unknown_length_is_read_no_further_than_the_limit(served: Site) -> None:
    piece = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    head = (
        b"POST /stac/search HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    status, answer = exchanged(served, head + piece * 9)
    assert status == 413 and b"connection: close" in answer.lower()


def test_a_slow_body_is_given_up(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "SECONDS_FOR_BODY", 0.05)
    head = b"POST /stac/search HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    status, answer = exchanged(served, head)
    assert status == 408 and b"connection: close" in answer.lower()
    assert served.ask("/v1").status == 200


def test_the_address_that_a_client_names_is_an_address_or_loopback(served: Site) -> None:
    for host, said in (("example.org", "http://example.org/stac"), ('x"><script>', "http://127.0.0.1/stac")):
        status, answer = exchanged(
            served, b"GET /stac HTTP/1.1\r\nConnection: close\r\nHost: " + host.encode() + b"\r\n\r\n"
        )
        links = json.loads(answer.partition(b"\r\n\r\n")[2])["links"]
        assert status == 200 and links[0]["href"] == said


def test_a_range_outside_the_file_says_how_long_the_file_is(served: Site) -> None:
    at = json.loads(served.ask(f"/v1/datasets/{OPEN}").body)["files"][0]
    answer = served.ask(at["href"], headers={"Range": "bytes=5000-"})
    assert (answer.status, answer.headers["content-range"]) == (416, f"bytes */{at['size']}")
    whole = served.ask(at["href"])
    part = served.ask(at["href"], headers={"Range": "bytes=1-3"})
    assert (part.status, part.body, part.headers["etag"]) == (206, whole.body[1:4], whole.headers["etag"])
    known = served.ask(at["href"], headers={"Range": "bytes=1-3", "If-None-Match": whole.headers["etag"]})
    assert (known.status, known.body) == (304, b"") and "content-range" not in known.headers


def test_a_bug_is_a_problem_document_without_its_text(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fired: list[int] = []

    def broken(*_: Any) -> Any:
        fired.append(1)
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr(application, "encoded", broken)
    answer = served.ask("/v1")
    assert fired and answer.status == 500 and CANARY.encode() not in answer.body
    assert json.loads(answer.body) == {"title": "the server made a mistake", "status": 500}
