"""One HTTP call with a small answer: to an address that may be reached, bounded in time and bytes, no redirects."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kfm.clock import SystemClock
from kfm.errors import Refused
from kfm.sources.connect import Dial, Resolve, connect, dial_tcp, system_resolve, verifying_tls
from kfm.sources.http1 import Budget, HttpBody, Wire, read_head
from kfm.sources.urls import ParsedUrl, parse

if TYPE_CHECKING:
    import ssl


class HttpCaller:
    """Calls a service. Each call has a connection of its own, and proxies of the environment are ignored."""

    def __init__(
        self,
        *,
        allow: tuple[str, ...],
        timeout_s: float,
        total_s: float,
        most: int,
        resolve: Resolve = system_resolve,
        dial: Dial = dial_tcp,
        tls: Callable[[], ssl.SSLContext] = verifying_tls,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """`allow` names hosts that may be reached despite a private address or another port. An answer has at most
        `most` bytes."""
        self._allow = allow
        self._times = (round(timeout_s * 1000), round(total_s * 1000))
        self._most = most
        self._reach = (resolve, dial, tls)
        self._monotonic = monotonic or SystemClock().monotonic

    def call(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body of the answer. Unavailable if the service does not answer in time; Refused if its
        answer is too large, malformed or a redirect; Denied if the address may not be reached."""
        here = parse(url)
        budget = Budget(
            timeout_ms=self._times[0],
            total_ms=self._times[1],
            wire_bytes=self._most + self._most // 8 + (1 << 17),  # room for the head and sizes of chunks
            monotonic=self._monotonic,
        )
        budget.shown = here.shown()
        resolve, dial, tls = self._reach
        with connect(here, self._allow, budget, resolve=resolve, dial=dial, tls=tls) as sock:
            wire = Wire(sock, budget)
            wire.send(_request(method, here, headers, body))
            stream = io.BufferedReader(wire, 1 << 16)
            head = read_head(stream, budget.shown)
            if 300 <= head.status < 400:
                raise Refused(f"{budget.shown} redirects", hint="write the final address into kfm.yml")
            return head.status, self._body(HttpBody(stream, head, budget.shown), budget.shown)

    def _body(self, body: HttpBody, shown: str) -> bytes:
        parts, size = [], 0
        for part in body.chunks():
            size += len(part)
            if size > self._most:
                raise Refused(f"{shown} answers with more than {self._most} bytes", hint="ask the service's operator")
            parts.append(part)
        return b"".join(parts)


def _request(method: str, here: ParsedUrl, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {here.target} HTTP/1.1", f"Host: {here.authority}", "User-Agent: kfm"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    lines += ["Accept-Encoding: identity", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
