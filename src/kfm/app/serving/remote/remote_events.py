"""Follows the server-sent events of a server: a lost connection is made again from the last event that was received."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kfm.app.serving.access_answers import Me
from kfm.app.serving.event_stream import Event
from kfm.errors import Refused, Unavailable

if TYPE_CHECKING:
    from kfm.app.serving.remote.remote_server import RemoteServer

PATH = "/v1/events"
MOST_OF_STREAM = 1 << 30  # bytes of one connection
MOST_OF_EVENT = 1 << 20
PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0
ATTEMPTS = 10  # connections in a row that bring nothing


class RemoteEvents:
    """The events of a server, one after the other. `close` ends the loop over them, from any thread."""

    def __init__(self, server: RemoteServer, after: int, pause_s: float | None) -> None:
        """`after` is the last ledger entry that the caller knows; 0: everything from now on. `pause_s` is the time
        before a lost connection is made again; None: as the server says."""
        self._server = server
        self._pause_s = pause_s
        self._told_s = PAUSE_S  # as the server says
        self.last = after  # the last ledger entry that was told
        self._closed = threading.Event()
        self._sock: socket.socket | None = None
        self._events = self._followed()

    def __enter__(self) -> RemoteEvents:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __iter__(self) -> RemoteEvents:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """End the loop and the connection. Closing again does nothing."""
        self._closed.set()
        sock = self._sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        with suppress(ValueError):  # another thread waits for an event; its loop ends now that the socket is shut
            self._events.close()

    def _followed(self) -> Generator[Event, None, None]:
        """Yield events. Unavailable if the server cannot be reached at first, or many times in a row."""
        if not self.last:  # events that come while a first connection is lost are then not missed
            self.last = self._server.record(Me, "/v1/me").ledger_entries
        failures, has_connected = 0, False
        while not self._closed.is_set():
            pause = self._pause_s
            try:
                for event in self._connection():
                    failures, has_connected = 0, True
                    if self._closed.is_set():
                        return
                    if event is not None:
                        yield event
            except Unavailable as problem:
                failures += 1
                if self._closed.is_set():
                    return
                if failures > ATTEMPTS or not has_connected:
                    raise
                wait = problem.fields.get("retry_after_s")
                pause = float(wait) if wait else pause
            self._closed.wait(min(self._told_s if pause is None else pause, LONGEST_PAUSE_S))

    def _connection(self) -> Iterator[Event | None]:
        """Yield the events of one connection, and None for each other sign of life. Unavailable if it breaks."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self.last)}
        with self._server.opened(PATH, most=MOST_OF_STREAM, headers=headers) as (body, sock):
            self._sock = sock
            try:
                if self._closed.is_set():
                    return
                rest = b""
                for piece in body.chunks():
                    *blocks, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
                    if len(rest) > MOST_OF_EVENT:
                        raise Refused(f"{self._server.url} sends an event without end", hint="check the address")
                    for block in blocks:
                        yield self._event(block)
            finally:
                self._sock = None

    def _event(self, block: bytes) -> Event | None:
        """Return the event of a block of lines; None if it is a comment or says how long to wait."""
        fields: dict[str, list[str]] = {}
        for line in block.decode("utf-8", "replace").split("\n"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        if wait := _whole(fields.get("retry", [""])[-1]):
            self._told_s = wait / 1000
        if "data" not in fields:
            return None
        try:
            plain = msgspec.json.decode("\n".join(fields["data"]))
        except (msgspec.DecodeError, RecursionError):
            raise Refused(f"{self._server.url} sends an event that is not JSON", hint="check the address") from None
        event = self._server.converted(Event, plain)
        self.last = _whole(fields.get("id", [""])[-1]) or self.last
        return event


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else 0
