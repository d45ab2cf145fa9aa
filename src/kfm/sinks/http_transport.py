"""HTTP for sinks: to the configured address only, without redirects or proxies, with limits on time and size."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

from kfm.errors import Unavailable

SECONDS = 60.0  # longest wait between two bytes
MOST = 16 << 20  # most bytes of an answer


class HttpTransport:
    """Sends HTTP requests for sinks, with one connection per call: calls are rare, and a broken connection must not
    affect the next call."""

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
                hint="the commit is kept; `kfm resume` publishes it later",
            ) from problem
        finally:
            connection.close()
