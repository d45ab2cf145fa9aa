"""Deliver notices to an endpoint, one by one: CloudEvents in structured mode, signed as Standard Webhooks."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from kfm.clock import Clock
from kfm.errors import Denied, Refused, Unavailable
from kfm.model.outbox_messages import Letter
from kfm.retries.http_status import retry_after_s

_LATER = (408, 425, 429)
_OURS = (401, 403, 404, 405, 407)  # the address or the secret is wrong, not the event
GONE = 410


class Answer(NamedTuple):
    """What an endpoint answered. Its text is never read: it may hold anything, and never end."""

    status: int
    retry_after: str


class WebhookReceiver:
    """Sends each notice at least once. The endpoint recognizes a repetition by its `webhook-id`."""

    def __init__(
        self,
        name: str,
        url: Callable[[], str],
        signed: Callable[[str, str, bytes], str],
        clock: Clock,
        seconds: float,
    ) -> None:
        """`signed` returns the signatures of an id, a timestamp and a body."""
        self.name = name
        self._url = url
        self._signed = signed
        self._clock = clock
        self._seconds = seconds

    def send(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            self._judge(*self.post(letter))

    def post(self, letter: Letter) -> tuple[str, Answer]:
        """Send one notice, and return the host with what it answered."""
        body = msgspec.json.encode(letter.body)
        sent = str(self._clock.now_ms() // 1000)
        try:
            url, signatures = self._url(), self._signed(letter.key, sent, body)
        except Refused as problem:  # the notice itself is not at fault
            raise Denied(problem.message, hint=problem.hint) from None
        headers = {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "User-Agent": "kfm",
            "webhook-id": letter.key,
            "webhook-timestamp": sent,
            "webhook-signature": signatures,
        }
        return urlsplit(url).netloc, _post(url, headers, body, self._seconds)

    def _judge(self, host: str, answer: Answer) -> None:
        """Raise unless the endpoint took the notice."""
        status = answer.status
        if 200 <= status < 300:
            return
        if status in _LATER or status >= 500:
            after = retry_after_s(answer.retry_after, self._clock.now_ms())
            raise Unavailable(f"{host} answers {status}", hint="check the endpoint", retry_after_s=after)
        setting = f"notify.{self.name.partition('.')[2]}"
        if status == GONE:
            told = f"{host} answers {GONE}: the endpoint is gone, and gets nothing more"
            raise Denied(told, hint=f"take {setting} out of kfm.yml, or correct its url", for_good=1)
        if status in _OURS:
            raise Denied(f"{host} answers {status}", hint=f"check url and secrets of {setting}")
        if status < 400:
            raise Denied(f"{host} redirects ({status})", hint=f"set the url of {setting} to the final address")
        raise Refused(f"{host} answers {status} to a notice", hint="ask the endpoint's operator what it accepts")


def _post(url: str, headers: dict[str, str], body: bytes, seconds: float) -> Answer:
    """Send one request on a connection of its own, without redirects or proxies. All of it together takes at most so
    many seconds, also the search for the address, and however slowly the other side sends."""
    parts = urlsplit(url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port, seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    found: list[Answer | str] = []

    def exchange() -> None:
        try:
            connection.request("POST", target, body=body, headers=headers)
            answer = connection.getresponse()
            found.append(Answer(answer.status, answer.getheader("retry-after") or ""))
        except (OSError, http.client.HTTPException, ValueError) as problem:
            found.append(type(problem).__name__)
        finally:
            connection.close()

    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    thread.join(seconds)
    answer = found[0] if found else "TimeoutError"
    if not found:
        _hang_up(connection)
    if isinstance(answer, str):
        raise Unavailable(f"{parts.netloc} does not answer ({answer})", hint="check the endpoint")
    return answer


def _connection(scheme: str, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=seconds)
    return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """End an exchange that takes too long: what its thread waits for fails then, and nobody hears it."""
    with suppress(OSError, AttributeError):  # it is not connected yet, or no longer
        connection.sock.shutdown(socket.SHUT_RDWR)
