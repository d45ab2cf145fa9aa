"""A proxy between a client and an HTTP server that breaks requests as it is told, and counts what it broke."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Fault = Literal["", "reset-before", "reset-after", "cut", "503", "slow", "twice", "flipped", "short"]
Rule = Callable[[str, str], Fault]  # of method and path


class FaultProxy:
    """Passes requests on to a server on this machine. `rule` says what happens to each; `fired` counts the faults."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.partition("://")[2]
        self.rule: Rule = lambda _method, _path: ""
        self.fired: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()  # requests that reached the server, by method
        self.endpoint = ""

    def breaks(self, fault: Fault, method: str, *, times: int = 1, part: str = "") -> None:
        """Break the next requests of a method whose path has this part."""
        left, lock = [times], threading.Lock()

        def rule(asked: str, path: str) -> Fault:
            with lock:
                if asked != method or part not in path or left[0] <= 0:
                    return ""
                left[0] -= 1
                return fault

        self.rule = rule


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    proxy: FaultProxy
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self.proxy.rule(self.command, self.path)
        if fault:
            self.proxy.fired[fault] += 1
        if fault == "reset-before":
            return self._reset()
        if fault == "503":
            return self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
        if fault == "slow":
            time.sleep(0.5)
        if fault == "cut":
            self._send_half(body)
            return self._reset()
        answer = self._forward(body)
        if fault == "twice":
            answer = self._forward(body)
        if fault == "reset-after":
            return self._reset()
        status, headers, content = answer
        if fault == "flipped" and content:
            content = content[:-1] + bytes([content[-1] ^ 1])
        self._answer(status, headers, content[: len(content) // 2] if fault == "short" else content)
        return self._reset() if fault == "short" else None

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        server = http.client.HTTPConnection(self.proxy.upstream, timeout=60)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                server.putheader(name, value)
            server.endheaders(body)
            answer = server.getresponse()
            content = answer.read()
            self.proxy.passed[self.command] += 1
            return answer.status, answer.getheaders(), content
        finally:
            server.close()

    def _send_half(self, body: bytes) -> None:
        """Send the server a request that ends in the middle of its body."""
        host, _, port = self.proxy.upstream.partition(":")
        with socket.create_connection((host, int(port))) as server:
            head = f"{self.command} {self.path} HTTP/1.1\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            server.sendall(head.encode() + b"\r\n" + body[: len(body) // 2])

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_words: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_words: object) -> None:
        """A connection that was reset is what was asked for."""


@contextlib.contextmanager
def proxied(upstream: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
    proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
