"""A TCP proxy in front of Postgres that loses connections where it hurts: around the COMMIT of a change.

`before`: the COMMIT never reaches the server. `after`: the server has answered, and the answer is lost. `unheard`: the
connection is lost while the server may still be at work.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

_CHANGE = b".commit_ring VALUES"  # the statement just before the COMMIT of every change
_ANSWERED = b"COMMIT\0"
_KEPT = 64  # bytes of the last piece that are searched again with the next one


class FaultProxy:
    """Listens on a free port of this machine and passes everything on, until it is told to lose something."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.fired = 0
        self._mode = ""
        self.refuses = False  # new connections are closed at once
        self._open: set[socket.socket] = set()
        self._ended = False
        threading.Thread(target=self._accept, name="fault-proxy", daemon=True).start()

    def lose(self, mode: str) -> None:
        """Lose the next change: `before`, `after` or `unheard`."""
        self._mode = mode

    def cut(self) -> None:
        """Close every connection."""
        for each in list(self._open):
            _close(each)

    def close(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                _close(client)
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._to), timeout=10)
        except OSError:
            _close(client)
            return
        server.settimeout(None)
        pair = {client: server, server: client}
        self._open |= pair.keys()
        try:
            self._pass_on(client, server)
        except OSError:
            pass
        finally:
            self._open -= pair.keys()
            _close(client)
            _close(server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        asked = answered = b""
        waits = False  # for the server's answer, which is to be lost
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    from_client = key.fileobj is client
                    piece = (client if from_client else server).recv(1 << 16)
                    if not piece:
                        return
                    if from_client:
                        asked = asked[-_KEPT:] + piece
                        if self._mode and _CHANGE in asked:
                            mode, self._mode = self._mode, ""
                            self.fired += 1
                            if mode == "before":
                                return
                            waits = True
                            if mode == "unheard":
                                server.sendall(piece)
                                _close(client)
                                _drain(server)
                                return
                        server.sendall(piece)
                    else:
                        answered = answered[-_KEPT:] + piece
                        if waits and _ANSWERED in answered:
                            return
                        if not waits:
                            client.sendall(piece)


def _drain(server: socket.socket) -> None:
    """Read what the server still says, so that it is not disturbed, and leave."""
    server.settimeout(5)
    answered = b""
    while _ANSWERED not in answered and (piece := server.recv(1 << 16)):
        answered = answered[-_KEPT:] + piece


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
