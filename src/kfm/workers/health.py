"""Answers probes and Prometheus over HTTP: /livez, /readyz and /metrics. It changes nothing, takes no body and names no
dataset."""

from __future__ import annotations

import http.server
import ipaddress
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kfm.errors import BadInput, Refused
from kfm.parsing.characters import printable

SECONDS = 5.0  # a client may be silent
MOST_AT_ONCE = 16  # requests


class Health(NamedTuple):
    """The answers, each asked for when a request comes. A bool says whether all is well."""

    live: Callable[[], tuple[bool, dict[str, Any]]]
    ready: Callable[[], tuple[bool, dict[str, Any]]]
    metrics: Callable[[], str]


def check_listen(host: str, *, behind_proxy: bool) -> None:
    """Raise Refused if other machines could read the answers, unless the operator says that they may."""
    if not behind_proxy and not _is_loopback(host):
        raise Refused(
            f"{printable(host)} is open to others",
            hint="give --behind-proxy if the network lets only probes and Prometheus in, or listen on 127.0.0.1",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, health: Health) -> None:
        self.health = health
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self.address_family = found[0][0]
            super().__init__((host, port), _Handler)
        except OSError as problem:
            reason = (problem.strerror or "unknown").lower()
            raise BadInput(
                f"cannot listen on {printable(host)} port {port}: {reason}", hint="choose another --listen"
            ) from None

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):  # a probe comes again
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client hung up, or was silent for too long."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = SECONDS
    server: _Server

    def do_GET(self) -> None:
        health = self.server.health
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, "text/plain; version=0.0.4; charset=utf-8", health.metrics())
        elif path in ("/livez", "/readyz"):
            is_well, body = health.live() if path == "/livez" else health.ready()
            self._answer(200 if is_well else 503, "application/json", json.dumps(body, sort_keys=True) + "\n")
        else:
            self._answer(404, "text/plain; charset=utf-8", "there are /livez, /readyz and /metrics\n")

    do_HEAD = do_GET

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "kfm"

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: a client decides what would be in the line."""


@contextmanager
def serving(address: tuple[str, int], health: Health) -> Iterator[int]:
    """Answer in background threads while the block runs; yield the port. BadInput if nothing can listen there."""
    server = _Server(*address, health)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
