"""Runs an application under uvicorn, with limits on what a stranger may send before it is even a request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kfm.api.webhooks import Letterbox, WebhookDoor
from kfm.arrivals import reception_of
from kfm.errors import BadInput
from kfm.runtime import House

MAX_HEAD = 64 * 1024  # bytes of a request line and its headers
SECONDS_FOR_HEAD = 20.0


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose heads are short and come in time; httptools alone would gather them for ever."""

    _head = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def _await_head(self) -> None:
        self._head, self._in_head = 0, True
        self._timer = self.loop.call_later(SECONDS_FOR_HEAD, self._too_slow)

    def _too_slow(self) -> None:
        if self._in_head and not self.transport.is_closing():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        waited = self._in_head
        super().data_received(data)
        if waited and self._in_head:  # all of it was head, and there is more to come
            self._head += len(data)
            if self._head > MAX_HEAD:
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop listening, answer what is open, end. uvicorn itself would raise the signal again afterwards."""
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as problem:
        reason = (problem.strerror or "unknown").lower()
        raise BadInput(
            f"cannot listen on {host} port {port}: {reason}", hint="choose another --host or --port"
        ) from None
    return listener


def serve_webhooks(
    opened: Callable[[], House], host: str, port: int, tls: ssl.SSLContext | None, ready: Callable[[int], None]
) -> None:
    """Until SIGTERM or SIGINT; what was accepted by then is answered. `ready` is told the port."""
    with opened() as house:  # a bad secret or an updater that cannot be loaded is told before anyone listens
        reception = reception_of(house)
        for hook in house.config.webhooks.values():
            for name in hook.datasets:
                house.updater(name)
    listener = listen(host, port)
    letterbox = Letterbox(opened)
    config = uvicorn.Config(
        WebhookDoor(reception, letterbox),
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=15,
    )
    config.load()
    config.ssl = tls  # uvicorn itself would read certificate and key only after we said that we listen
    letterbox.start()
    try:
        ready(listener.getsockname()[1])
        _Server(config).run(sockets=[listener])
    finally:
        letterbox.close()
