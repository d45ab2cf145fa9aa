"""A collector of OpenTelemetry on loopback: it decodes what it gets with the official messages and keeps it."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

KINDS: dict[str, tuple[Any, Any]] = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
    "/v1/logs": (ExportLogsServiceRequest, ExportLogsServiceResponse),
}
# What to answer to a request for a path: status, headers, body. None: take it.
Answer = tuple[int, dict[str, str], bytes]
Answering = Callable[[str, Any], Answer | None]


class Receiver:
    """What arrived and was taken, in order."""

    def __init__(self, answering: Answering = lambda _path, _request: None) -> None:
        self.answering = answering
        self.url = ""
        self.raw: list[bytes] = []  # the bodies of all requests, uncompressed
        self.headers: list[dict[str, str]] = []  # of all requests
        self.requests: list[tuple[str, Any]] = []  # those that were taken
        self.faults: list[int] = []  # the statuses of those that were not

    def got(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        assert headers["content-type"] == "application/x-protobuf" and headers["content-encoding"] == "gzip"
        raw = gzip.decompress(body)
        request_kind, answer_kind = KINDS[path]
        request = request_kind.FromString(raw)
        self.raw.append(raw)
        self.headers.append(headers)
        answer = self.answering(path, request)
        if answer is not None:
            self.faults.append(answer[0])
            return answer
        self.requests.append((path, request))
        return 200, {"Content-Type": "application/x-protobuf"}, answer_kind().SerializeToString()

    def of(self, path: str) -> list[Any]:
        return [request for at, request in self.requests if at == path]

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.of("/v1/traces")
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def logs(self) -> list[Any]:
        return [
            record
            for request in self.of("/v1/logs")
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def metrics(self) -> list[Any]:
        return [
            metric
            for request in self.of("/v1/metrics")
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def roots(self) -> dict[str, Any]:
        """The root spans by their run; of a repetition, the last."""
        found = [span for span in self.spans() if not span.parent_span_id]
        return {attributes(span)["cicd.pipeline.run.id"]: span for span in found}

    def clear(self) -> None:
        for each in (self.raw, self.headers, self.requests, self.faults):
            each.clear()


def attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span, record, point or resource as plain values; each key is there once."""
    found: dict[str, Any] = {}
    for each in holder.attributes:
        kind = each.value.WhichOneof("value")
        assert kind in ("string_value", "int_value", "double_value", "bool_value"), each
        assert each.key not in found, each.key
        found[each.key] = getattr(each.value, kind)
    return found


def check_traces(receiver: Receiver) -> None:
    """The spans are what the specification of OpenTelemetry asks of them."""
    spans = {bytes(span.span_id): span for span in receiver.spans()}
    for span in receiver.spans():
        assert (len(span.trace_id), len(span.span_id)) == (16, 8) and any(span.trace_id) and any(span.span_id)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        attributes(span)
        if span.parent_span_id:
            above = spans[bytes(span.parent_span_id)]
            assert above.trace_id == span.trace_id and above.span_id != span.span_id
            assert above.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= above.end_time_unix_nano
    roots = receiver.roots()
    assert len({bytes(span.trace_id) for span in spans.values()}) == len(roots)
    for record in receiver.logs():
        run_id = attributes(record)["cicd.pipeline.run.id"]
        assert (record.trace_id, record.span_id) == (roots[run_id].trace_id, roots[run_id].span_id)


@contextmanager
def receiving(answering: Answering = lambda _path, _request: None, *, port: int = 0) -> Iterator[Receiver]:
    """A collector that takes everything, or answers as it is told to."""
    receiver = Receiver(answering)
    failures: list[BaseException] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                answer = receiver.got(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            except BaseException as problem:
                failures.append(problem)
                answer = (500, {}, b"")
            status, headers, text = answer
            with suppress(OSError):
                if status == 0:  # it dies without an answer
                    self.connection.close()
                    return
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None: ...

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True

    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
    assert not failures, failures


def configured(url: str, more: str = "") -> str:
    """The lines of kfm.yml for a collector at this address."""
    return f"otel: {{endpoint: '{url}'{more}}}\n"
