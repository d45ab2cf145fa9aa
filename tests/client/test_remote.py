"""A client reads from a server: the same rows and versions, the errors of the tree, and no byte it did not check."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import kfm
from kfm import config
from kfm.api.server import Served, listening
from kfm.app.serving.remote.remote_server import RemoteServer
from kfm.app.session.session import Session, open_session
from kfm.errors import BadInput, Corrupt, Denied, KfmError, Refused, Unavailable
from tests.api.conftest import listed as listed
from tests.api.listed import Listed


@pytest.fixture
def address(listed: Listed) -> Iterator[str]:
    """The address of a server over the installation."""
    path = str(listed.folder / "kfm.yml")

    def opened() -> Session:
        return open_session(config.load(path, os.environ))

    served = Served(opened, path, str(listed.folder / ".kfm" / "serve" / "items.db"))
    with listening(opened, "127.0.0.1", 0, None, metrics=False, served=served) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_client_reads_what_the_installation_reads(listed: Listed, address: str) -> None:
    client, installation = kfm.Client(address), kfm.open(listed.folder)
    assert client.datasets == installation.datasets == ["rain-gauges"]
    there, here = client.read("rain-gauges"), installation.read("rain-gauges", ref="published")
    assert there.version == here.version and there.keys() == here.keys() and there.size == here.size
    assert there.rows() == here.rows() and repr(there) == repr(here)
    assert client.read("rain-gauges", "ford").bytes() == installation.read("rain-gauges", "ford").bytes()
    ford = installation.read("rain-gauges", "ford").rows()
    assert client.read("rain-gauges", ("ford",), version=here.version[:19]).rows() == ford
    shown = client.dataset("rain-gauges")
    assert shown.version == here.version and shown.license == "CC0-1.0" and "rain-gauges" in repr(shown)
    context, explained = client.explain("rain-gauges"), installation.explain("rain-gauges")
    assert context.produced.run_id == explained.run_id and context.dataset == explained.dataset
    assert "<table>" in context._repr_html_() and "rain-gauges" in repr(context)
    found = client.search(collections=["rain-gauges"])
    assert {one["collection"] for one in found.features} == {"rain-gauges"} and len(found) == 3
    assert len(client.search(limit=2)) == 2 and not len(client.search(collections="no-such-dataset"))
    assert "rain-gauges" in repr(found)


def test_a_token_makes_the_client_a_person(listed: Listed, address: str) -> None:
    token = listed.tokens["vic"]
    client = kfm.Client(address, token)
    me = client.me()
    assert (me.person, me.role) == ("vic", "viewer") and "vic, viewer, until 2026-01-31" in repr(me)
    assert kfm.Client(address).me().role == "public"
    assert token not in repr(client) + repr(vars(client)) + repr(vars(client._server))
    assert listed.revoke_token(token).receipt.status == "SUCCESS"
    with pytest.raises(Denied, match="does not accept the token") as told:
        client.me()
    assert token not in str(told.value)


def test_what_is_not_there_is_an_error_of_the_tree(listed: Listed, address: str) -> None:
    client = kfm.Client(address + "/")
    wrong: list[Callable[[], Any]] = [
        lambda: client.dataset("no-such-dataset"),
        lambda: client.dataset(""),
        lambda: client.dataset("../../v1/me?x"),
        lambda: client.focus("no-such-thing"),
        lambda: client.read("rain-gauges", "no-such-key"),
        lambda: client.read("rain-gauges", version="0" * 64),
        lambda: client.read("rain-gauges", version="ab"),
        lambda: client.read("rain-gauges").bytes(),
        lambda: client.search(limit=0),
        lambda: kfm.Client(address + "/v1"),
        lambda: kfm.Client("ftp://127.0.0.1"),
        lambda: kfm.Client(""),
        lambda: kfm.Client(address, "a b"),
        lambda: kfm.Client(address, "a\r\nX: y"),
        lambda: kfm.Client(address, ""),
    ]
    for call in wrong:
        with pytest.raises(BadInput) as told:
            call()
        assert told.value.hint or "scheme" in told.value.message or "empty" in told.value.message
    with pytest.raises(Refused, match="unencrypted"):
        kfm.Client("http://data.example.org", listed.tokens["vic"])
    kfm.Client("https://data.example.org", listed.tokens["vic"])
    with pytest.raises(Unavailable):
        kfm.Client("http://127.0.0.1:9").me()


class Liar(BaseHTTPRequestHandler):
    """Passes requests to a real server, and answers some of them otherwise."""

    answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
    real: RemoteServer
    seen: list[tuple[str, str]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("authorization", "")))
        lie = next((answer for part, answer in self.answers.items() if part in self.path), None)
        if lie is None:
            path, _, query = self.path.partition("?")
            sent = dict(one.split("=", 1) for one in query.split("&") if one)
            lie = (200, {}, self.real.body(path, sent, most=1 << 20))
        status, headers, body = lie
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None: ...


@pytest.fixture
def liar(address: str) -> Iterator[tuple[type[Liar], str]]:
    kind = type("OneLiar", (Liar,), {"answers": {}, "real": RemoteServer(address), "seen": []})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield kind, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def problem(status: int, code: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    body = {"title": "a title", "status": status, "detail": "what \x1b[31mhappened", "code": code}
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode()


def test_an_answer_that_lies_is_refused(listed: Listed, liar: tuple[type[Liar], str]) -> None:
    kind, address = liar
    client, token = kfm.Client(address, listed.tokens["vic"]), listed.tokens["vic"]
    version = client.read("rain-gauges").version

    def told(
        call: Callable[[], Any], error: type[KfmError], part: str, answer: tuple[int, dict[str, str], bytes]
    ) -> Any:
        kind.answers, before = {part: answer}, len(kind.seen)
        with pytest.raises(error) as found:
            call()
        assert any(part in path for path, _ in kind.seen[before:]), "the lie was told"
        assert type(found.value) is error and token not in str(found.value) and "\x1b" not in str(found.value)
        return found.value

    read, me = partial(client.read, "rain-gauges"), client.me
    told(lambda: read("ford").bytes(), Corrupt, "ford", (200, {}, b"gauge\nother\n"))
    line = {"key": ["ford"], "digest": "sha256:" + "0" * 64, "size": 1, "media_type": "text/csv"}
    for body in (b"", b"{", json.dumps(line).encode() + b"\n", b'{"depth":1}\n'):
        told(read, Corrupt, ".ndjson", (200, {}, body))
    elsewhere = told(me, Refused, "/v1/me", (302, {"Location": "http://192.0.2.1/"}, b""))
    assert "redirect" in str(elsewhere) and "192.0.2.1" not in str(elsewhere)
    told(me, Refused, "/v1/me", (200, {}, b"<html>"))
    told(me, Refused, "/v1/me", (200, {}, b"[" * 100_000))
    told(me, Refused, "/v1/me", (200, {}, b'{"person": 1}'))
    told(me, Refused, "/v1/me", (200, {"Content-Encoding": "gzip"}, b"{}"))
    told(me, Refused, "/v1/me", (200, {"Content-Length": ""}, b"{}"))
    told(me, Refused, "/v1/me", (200, {"Content-Length": str(1 << 40)}, b"{}"))
    told(me, Denied, "/v1/me", problem(403))
    told(me, BadInput, "/v1/me", problem(400, "input.bad"))
    assert "u001b" in str(told(me, Refused, "/v1/me", problem(422))), "its words are escaped"
    limited = told(me, Unavailable, "/v1/me", problem(429, "rate.limited", Retry_After="7"))
    assert limited.fields["retry_after_s"] == 7
    told(me, Unavailable, "/v1/me", problem(503, "nonsense"))
    told(me, Unavailable, "/v1/me", (500, {}, b"oops"))
    page = {"features": [{"id": "a"}], "links": [{"rel": "next", "href": "http://192.0.2.1/?token=x"}]}
    kind.answers = {"/stac/search": (200, {}, json.dumps(page).encode())}
    assert len(client.search(limit=3)) == 3
    assert kind.seen[-1][0] == "/stac/search?token=x", "the next page is of the same server"
    told(lambda: client.search(), Refused, "/stac/search", (200, {}, b'{"type": "Feature"}'))
    more = {**json.loads(kind.real.body("/v1/me", most=1000)), "new_field": 1}
    kind.answers = {"/v1/me": (200, {}, json.dumps(more).encode())}
    assert client.me().role == "public", "a field of a newer server is left out"
    assert version and {header for _, header in kind.seen} == {f"Bearer {token}"}
