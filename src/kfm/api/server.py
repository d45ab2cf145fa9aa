"""Run the HTTP application under uvicorn, with limits on what a client may send before it is a request."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kfm.api.access import Rules as Rules
from kfm.api.metrics_collector import MetricsCollector
from kfm.api.webhooks import InboxWriter, WebhookApp
from kfm.app.runs.trigger_inbox import reception_of
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session
from kfm.clock import SystemClock
from kfm.errors import BadInput

if TYPE_CHECKING:
    from kfm.api.application import GovernedApp
    from kfm.model.ports import Log

MAX_HEAD = 64 * 1024  # most bytes of a request line and its headers
MAX_MESSAGE = 16 * 1024 * 1024  # most bytes of one request; its body has a much smaller limit of its own
SECONDS_FOR_HEAD = 20.0
SECONDS_FOR_HANDSHAKE = 10.0
SECONDS_BETWEEN_LINES = 60.0  # between equal lines on stderr
KINDS = 100  # most kinds of such lines


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a limit on the size and time of a head; httptools alone would collect headers without end.

    Trailers after the body are dropped: they did not exist when the request was judged.
    """

    _head = 0
    _message = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def _await_head(self) -> None:
        self._head, self._message, self._in_head = 0, 0, True
        self._timer = self.loop.call_later(SECONDS_FOR_HEAD, self._too_slow)

    def _too_slow(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # the server is answering
            self._timer = self.loop.call_later(SECONDS_FOR_HEAD, self._too_slow)
        elif self._in_head and not self.transport.is_closing():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Process the data in pieces that fit the limit of a head: one read may bring a head and its body."""
        while data and not self.transport.is_closing():
            waited, most = self._in_head, MAX_HEAD - self._head if self._in_head else MAX_HEAD
            piece, data = data[:most], data[most:]
            self._head += len(piece)
            self._message += len(piece)
            super().data_received(piece)
            if (waited and self._in_head and self._head >= MAX_HEAD) or self._message > MAX_MESSAGE:
                self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

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
        """Stop listening, answer the open requests and end. Without this method uvicorn would raise the signal again
        afterwards."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server as uvicorn does, but with a shorter limit for TLS handshakes: uvicorn would wait a minute
        for one that never comes."""
        loop = asyncio.get_running_loop()
        protocol = functools.partial(BoundedProtocol, config=self.config, server_state=self.server_state, app_state={})
        patience = SECONDS_FOR_HANDSHAKE if self.config.ssl else None
        self.servers = [
            await loop.create_server(protocol, sock=each, ssl=self.config.ssl, ssl_handshake_timeout=patience)
            for each in sockets or ()
        ]
        self.started = True


class ThrottledLog(logging.Handler):
    """Writes lines for the operator and limits them, because clients can cause them: one line per kind, the same kind
    again at most once a minute, with the number of lines left out.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._clock = SystemClock()
        self._since: dict[str, float] = {}
        self._more: dict[str, int] = {}
        self._own = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        self.say(str(record.msg), record.getMessage())

    def say(self, kind: str, text: str) -> None:
        now = self._clock.monotonic()
        with self._own:
            kind = kind if kind in self._since or len(self._since) < KINDS else ""
            if kind in self._since and now - self._since[kind] < SECONDS_BETWEEN_LINES:
                self._more[kind] = self._more.get(kind, 0) + 1
                return
            self._since[kind] = now
            self._write(text, self._more.pop(kind, 0))

    def _write(self, text: str, more: int) -> None:
        line = " ".join(text.split())[:500]
        self._stream.write(f"{line} ({more} more)\n" if more else f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        with self._own:
            for kind, more in self._more.items():
                self._write(kind, more)
            self._more.clear()
        super().close()


def server_of(app: Any, tls: ssl.SSLContext | None) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
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
    config.ssl = tls  # uvicorn itself would read certificate and key only after it listens
    return _Server(config)


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


class Served(NamedTuple):
    """What the governed application needs besides the webhooks."""

    reopened: Callable[[], Session]  # reads kfm.yml again
    config: str  # the path of kfm.yml
    index_file: str  # the file of the item index, which can be made again
    rules: Rules = Rules()  # who may ask, and how often
    log: Log | None = None  # receives a line for each request


@contextmanager
def _listening(
    opened: Callable[[], Session],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    *,
    metrics: bool,
    served: Served | None = None,
) -> Iterator[tuple[uvicorn.Server, socket.socket]]:
    """Return the server and its listening socket. When the block ends, accepted messages are stored."""
    noise = ThrottledLog(sys.stderr)
    loggers = [logging.getLogger(name) for name in ("uvicorn", "asyncio")]
    with opened() as session:  # a bad secret or an updater that cannot be loaded raises before the server listens
        reception = reception_of(session, tell=noise.say)
        for hook in session.config.webhooks.values():
            for name in hook.datasets:
                dataset_updater(session, name)
    listener = listen(host, port)
    letterbox = InboxWriter(opened)
    collector = MetricsCollector(opened) if metrics else None
    app: Any = WebhookApp(reception, letterbox, collector)
    governed = _governed(app, served, letterbox) if served is not None else None
    server = server_of(governed or app, tls)
    if governed is not None:
        governed.is_leaving = lambda: server.should_exit
    letterbox.start()
    if collector is not None:
        collector.start()
    for logger in loggers:
        logger.addHandler(noise)
    try:
        yield server, listener
    finally:
        letterbox.close()
        if collector is not None:
            collector.close()
        if governed is not None:
            governed.close()
        for logger in loggers:
            logger.removeHandler(noise)
        noise.close()


def _governed(beyond: Any, served: Served, letterbox: InboxWriter) -> GovernedApp:
    from kfm.api.application import GovernedApp
    from kfm.api.changes.acceptance import Desk
    from kfm.api.readers import Readers
    from kfm.api.route_table import ROUTES
    from kfm.app.serving.item_catalog import ItemCatalog

    readers, items = Readers(served.reopened, served.config), ItemCatalog(served.index_file)
    return GovernedApp(ROUTES, readers, items, beyond, rules=served.rules, log=served.log, desk=Desk(letterbox))


def serve_http(
    opened: Callable[[], Session],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    ready: Callable[[int], None],
    *,
    served: Served | None = None,
    metrics: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT; open requests are answered. `ready` receives the port. Without `served` only
    webhooks are answered."""
    with _listening(opened, host, port, tls, metrics=metrics, served=served) as (server, listener):
        ready(listener.getsockname()[1])
        server.run(sockets=[listener])


@contextmanager
def listening(
    opened: Callable[[], Session],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    *,
    metrics: bool,
    served: Served | None = None,
) -> Iterator[int]:
    """Serve in background threads and yield the port. Open requests are answered when the block ends."""
    with _listening(opened, host, port, tls, metrics=metrics, served=served) as (server, listener):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="webhooks", daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
