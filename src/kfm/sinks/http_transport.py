"""HTTP for publishers: to the one place that is configured, without redirects, proxies or patience without end."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

from kfm.errors import Unavailable

SECONDS = 60.0  # between two bytes
MOST = 16 << 20  # bytes of an answer


class HttpTransport:
    """One connection per call: a call is rare, and one that broke must not spoil the next."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    def call(
        self, method: str, url: str, headers: dict[str, str], body: bytes | Iterable[bytes] | None
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._seconds)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read(MOST + 1)
            if len(text) > MOST:
                raise Unavailable(f"{host} answers with more than 16 MiB", hint="`kfm resume` tries again")
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text
        except (OSError, http.client.HTTPException) as problem:
            raise Unavailable(
                f"{host} does not answer ({type(problem).__name__})",
                hint="what was committed is kept; `kfm resume` publishes it later",
            ) from problem
        finally:
            connection.close()
