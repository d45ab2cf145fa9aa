"""TLS proves the name or there is no answer.

The certificates in tls/ are made for these tests: an authority, and one key certified by it for
localhost (until 2120), for elsewhere.example, and for localhost until 2020.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from kfm.errors import Denied, Refused, Unavailable
from kfm.model.records import Fetched
from kfm.sources.http import HttpSource
from tests.sources.fetching import fetch_in_time, request_for
from tests.sources.hostile_server import SILENT, TRICKLING, Exchange, ScriptedServer
from tests.sources.memory_objects import MemoryObjects, digest_of

TLS = Path(__file__).parent / "tls"
ROWS = b"station,name\n1,Topeka\n"


def speaking(certificate: str) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / f"{certificate}.pem", TLS / "key.pem")
    return lambda sock: context.wrap_socket(sock, server_side=True)


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(TLS / "authority.pem"))


def serve(x: Exchange) -> None:
    x.answer("200 OK", f"Content-Length: {len(ROWS)}", body=ROWS)


def fetch(server: ScriptedServer, source: HttpSource, objects: MemoryObjects, **fields: Any) -> Any:
    given = {"uri": f"https://localhost:{server.port}/", "allow": (f"localhost:{server.port}",)} | fields
    return fetch_in_time(request_for(server, **given), objects, source)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_that_proves_its_name_is_read(host: str) -> None:
    objects = MemoryObjects()
    with ScriptedServer(serve, speaking("localhost")) as server:
        named = f"{host}:{server.port}"
        outcome = fetch(server, HttpSource(tls=trusting), objects, uri=f"https://{named}/", allow=(named,))
    assert isinstance(outcome, Fetched), outcome
    assert objects.stored == {digest_of(ROWS): ROWS}


@pytest.mark.parametrize(
    ("certificate", "trust"), [("elsewhere", True), ("expired", True), ("localhost", False), ("authority", False)]
)
def test_a_certificate_that_does_not_prove_the_name_is_refused(certificate: str, trust: bool) -> None:
    objects = MemoryObjects()
    with ScriptedServer(serve, speaking(certificate)) as server:
        outcome = fetch(server, HttpSource(tls=trusting) if trust else HttpSource(), objects)
    assert server.connections == 1
    assert isinstance(outcome, Refused), outcome
    assert "certificate" in outcome.message
    assert objects.stored == {}


def _plain_http(sock: socket.socket) -> socket.socket:
    sock.recv(1024)
    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    return sock


def _closes(sock: socket.socket) -> socket.socket:
    sock.recv(1024)
    sock.close()
    return sock


def _says_nothing(sock: socket.socket) -> socket.socket:
    sock.settimeout(3)
    while sock.recv(1024):
        pass
    return sock


def _half_a_handshake(sock: socket.socket) -> socket.socket:
    sock.recv(1024)
    sock.sendall(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76")
    return _says_nothing(sock)


def _a_byte_now_and_then(sock: socket.socket) -> socket.socket:
    sock.recv(1024)
    sock.sendall(b"\x16\x03\x03\x40\x00")
    sock.settimeout(0.05)
    while True:
        sock.sendall(b"\0")
        try:
            if not sock.recv(1024):
                return sock
        except TimeoutError:
            continue


@pytest.mark.parametrize("fault", [_plain_http, _closes, _says_nothing, _half_a_handshake, _a_byte_now_and_then])
def test_a_broken_handshake_is_unavailable_in_time(fault: Any) -> None:
    fired: list[bool] = []

    def wrap(sock: socket.socket) -> socket.socket:
        fired.append(True)
        return fault(sock)  # type: ignore[no-any-return]

    objects = MemoryObjects()
    with ScriptedServer(serve, wrap) as server:
        limits = TRICKLING if fault is _a_byte_now_and_then else SILENT
        outcome = fetch(server, HttpSource(tls=trusting), objects, **limits)
    assert fired
    assert isinstance(outcome, Unavailable), outcome
    assert objects.stored == {}


def test_a_connection_cut_without_goodbye_is_no_end_of_a_body() -> None:
    def cut(x: Exchange) -> None:
        x.send("HTTP/1.1 200 OK\r\n\r\n", ROWS)
        raw = socket.socket(fileno=x.sock.detach())  # closes the connection below TLS
        raw.close()

    objects = MemoryObjects()
    with ScriptedServer(cut, speaking("localhost")) as server:
        outcome = fetch(server, HttpSource(tls=trusting), objects)
    assert server.fired
    assert isinstance(outcome, Unavailable), outcome
    assert (objects.stored, objects.open_stagings) == ({}, 0)


def test_a_redirect_from_https_to_http_is_denied() -> None:
    with ScriptedServer(serve) as plain:
        with ScriptedServer(
            lambda x: x.answer("302 Found", f"Location: http://localhost:{plain.port}/"), speaking("localhost")
        ) as server:
            outcome = fetch(server, HttpSource(tls=trusting), MemoryObjects(), allow=("localhost",))
    assert server.fired
    assert isinstance(outcome, Denied)
    assert plain.connections == 0
