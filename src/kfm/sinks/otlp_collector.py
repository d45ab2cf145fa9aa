"""Deliver traces, metrics and logs over OTLP/HTTP to a collector of OpenTelemetry."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import msgspec

from kfm.errors import Denied, Refused, Unavailable
from kfm.model.outbox_messages import Letter
from kfm.retries.http_status import retry_after_s
from kfm.sinks.http_transport import HttpTransport

Value = str | int | float | bool
NAME = "otel"  # of the sink
LACKING = "pip install 'kansas-frontier-matrix[otel]'"
AT_ONCE = 64  # runs in one request
_LATER = (408, 425, 429)
_OURS = (401, 403, 404, 405, 407)  # the address or a header is wrong, not the message


class Collector:
    """Sends messages to a collector, one request each. The address and the headers are read anew for each call."""

    def __init__(
        self,
        endpoint: Callable[[], str],
        headers: Callable[[], Mapping[str, str]],
        transport: HttpTransport,
        resource: Callable[[], Mapping[str, Value]],
        version: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._endpoint = endpoint
        self._headers = headers
        self._transport = transport
        self._resource = resource
        self._version = version
        self._now_ms = now_ms

    def send_spans(self, spans: Sequence[Mapping[str, Any]]) -> None:
        if spans:
            self._post("traces", [_messages().trace_request(spans, self._resource(), self._version)])

    def send_logs(self, records: Sequence[Mapping[str, Any]]) -> None:
        if records:
            self._post("logs", [_messages().logs_request(records, self._resource(), self._version)])

    def send_metrics(self, metrics: Iterable[Mapping[str, Any]]) -> int:
        """Send these metrics; return how many requests that took."""
        return self._post("metrics", _messages().metrics_requests(metrics, self._resource(), self._version))

    def _post(self, signal: str, requests: Iterable[bytes]) -> int:
        try:
            endpoint, headers = self._endpoint(), self._headers()
        except Refused as problem:  # the message itself is not at fault
            raise Denied(problem.message, hint=problem.hint) from None
        url, count = f"{endpoint}/v1/{signal}", 0
        for request in requests:
            body = gzip.compress(request, 6, mtime=0)
            sent = {
                **headers,
                "Content-Type": "application/x-protobuf",
                "Content-Encoding": "gzip",
                "Content-Length": str(len(body)),
                "User-Agent": f"kfm/{self._version}",
            }
            host = url.partition("://")[2].partition("/")[0]
            try:
                status, answered, text = self._transport.call("POST", url, sent, body)
            except Unavailable as problem:
                raise Unavailable(problem.message, hint="check otel.endpoint, and whether the collector runs") from None
            self._judge(signal, host, status, answered, text)
            count += 1
        return count

    def _judge(self, signal: str, host: str, status: int, headers: Mapping[str, str], text: bytes) -> None:
        """Raise unless the collector accepted everything. The error names only numbers, because the answer's text may
        hold anything."""
        if 200 <= status < 300:
            refused = _rejected(signal, headers.get("content-type", ""), text)
            if refused is None:
                raise Denied(f"{host} answers {status}, and not as a collector", hint="check otel.endpoint")
            if refused:
                raise Refused(f"{host} rejects a part of the {signal}", hint="see the log of the collector")
            return
        if status in _LATER or status >= 500:
            after = retry_after_s(headers.get("retry-after", ""), self._now_ms())
            raise Unavailable(f"{host} answers {status}", hint="check the collector", retry_after_s=after)
        if status in _OURS:
            raise Denied(f"{host} answers {status}", hint="check otel.endpoint, otel.headers and otel.signals")
        if status < 400:
            raise Denied(f"{host} redirects ({status})", hint="set otel.endpoint to the final address")
        raise Refused(f"{host} answers {status} to {signal}", hint="see the log of the collector")


class OtlpSink:
    """Sends the spans and the log records of runs, each at least once. The receiver recognizes a repetition by its
    ids."""

    name = NAME

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def send(self, letters: Sequence[Letter]) -> None:
        self._collector.send_spans([span for letter in letters for span in letter.body["spans"]])
        self._collector.send_logs([record for letter in letters for record in letter.body["logs"]])


def is_installed() -> bool:
    """Return whether the library of the messages is installed."""
    try:
        _messages()
    except Unavailable:
        return False
    return True


def _messages() -> ModuleType:
    try:
        from kfm.sinks import otlp_messages
    except ImportError:
        raise Unavailable("the messages of OpenTelemetry are not installed", hint=LACKING) from None
    return otlp_messages


def _rejected(signal: str, kind: str, text: bytes) -> int | None:
    """Return how many items an answer rejects; None if it is no answer of a collector."""
    kind = kind.partition(";")[0].strip().lower()
    if not text or kind == "application/x-protobuf":
        found: int | None = _messages().rejected(signal, text)
        return found
    if kind != "application/json":
        return None
    try:
        said = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None
    if not isinstance(said, dict):
        return None
    partial = said.get("partialSuccess") or {}
    if not isinstance(partial, dict):
        return None
    counts = [value for name, value in partial.items() if name.startswith("rejected")]
    try:
        return max((int(value) for value in counts), default=0)
    except (TypeError, ValueError):
        return None
