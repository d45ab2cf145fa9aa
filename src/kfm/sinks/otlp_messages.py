"""The messages of OpenTelemetry (protobuf), built from plain values. Only this module imports their library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

Value = str | int | float | bool
NS = 1_000_000  # in a millisecond
POINTS = 5000  # most points of metrics in one request
_KINDS = {"SERVER": Span.SPAN_KIND_SERVER, "INTERNAL": Span.SPAN_KIND_INTERNAL}
_SEVERITIES = {
    "INFO": SeverityNumber.SEVERITY_NUMBER_INFO,
    "WARN": SeverityNumber.SEVERITY_NUMBER_WARN,
    "ERROR": SeverityNumber.SEVERITY_NUMBER_ERROR,
}
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def trace_request(spans: Iterable[Mapping[str, Any]], resource: Mapping[str, Value], version: str) -> bytes:
    made = ScopeSpans(scope=_scope(version), spans=[_span(each) for each in spans])
    found = ResourceSpans(resource=_resource(resource), scope_spans=[made])
    return bytes(ExportTraceServiceRequest(resource_spans=[found]).SerializeToString(deterministic=True))


def logs_request(records: Iterable[Mapping[str, Any]], resource: Mapping[str, Value], version: str) -> bytes:
    made = ScopeLogs(scope=_scope(version), log_records=[_log(each) for each in records])
    found = ResourceLogs(resource=_resource(resource), scope_logs=[made])
    return bytes(ExportLogsServiceRequest(resource_logs=[found]).SerializeToString(deterministic=True))


def metrics_requests(
    metrics: Iterable[Mapping[str, Any]], resource: Mapping[str, Value], version: str
) -> Iterator[bytes]:
    """Yield requests with at most POINTS points each."""
    made: list[Metric] = []
    left = POINTS

    def request() -> bytes:
        scoped = ScopeMetrics(scope=_scope(version), metrics=made)
        found = ResourceMetrics(resource=_resource(resource), scope_metrics=[scoped])
        return bytes(ExportMetricsServiceRequest(resource_metrics=[found]).SerializeToString(deterministic=True))

    for each in metrics:
        at, points = 0, each["points"]
        while at < len(points):
            some = points[at : at + left]
            made.append(_metric(each, some))
            at, left = at + len(some), left - len(some)
            if not left:
                yield request()
                made, left = [], POINTS
    if made:
        yield request()


def rejected(signal: str, body: bytes) -> int | None:
    """Return how many spans, records or points an answer rejects; None if it is no answer of a collector."""
    try:
        if signal == "traces":
            return int(ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
        if signal == "metrics":
            return int(ExportMetricsServiceResponse.FromString(body).partial_success.rejected_data_points)
        return int(ExportLogsServiceResponse.FromString(body).partial_success.rejected_log_records)
    except DecodeError:
        return None


def _scope(version: str) -> InstrumentationScope:
    return InstrumentationScope(name="kfm", version=version)


def _resource(attributes: Mapping[str, Value]) -> Resource:
    return Resource(attributes=_attributes(attributes))


def _attributes(found: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_value(value)) for name, value in found.items()]


def _value(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=value)


def _span(said: Mapping[str, Any]) -> Span:
    error = said["error"]
    return Span(
        trace_id=bytes.fromhex(said["trace_id"]),
        span_id=bytes.fromhex(said["span_id"]),
        parent_span_id=bytes.fromhex(said["parent_id"]),
        name=said["name"],
        kind=_KINDS[said["kind"]],
        start_time_unix_nano=said["start_ms"] * NS,
        end_time_unix_nano=said["end_ms"] * NS,
        attributes=_attributes(said["attributes"]),
        status=Status(code=Status.STATUS_CODE_ERROR, message=error) if error else Status(),
    )


def _log(said: Mapping[str, Any]) -> LogRecord:
    return LogRecord(
        time_unix_nano=said["time_ms"] * NS,
        observed_time_unix_nano=said["time_ms"] * NS,
        severity_number=_SEVERITIES[said["severity"]],
        severity_text=said["severity"],
        event_name=said["event"],
        body=AnyValue(string_value=said["event"]),
        attributes=_attributes(said["attributes"]),
        trace_id=bytes.fromhex(said["trace_id"]),
        span_id=bytes.fromhex(said["span_id"]),
    )


def _metric(said: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> Metric:
    start, now = said["start_ms"] * NS, said["now_ms"] * NS
    about = {"name": said["name"], "description": said["help"]}
    if said["kind"] == "histogram":
        bars = [
            HistogramDataPoint(
                attributes=_attributes(each["labels"]),
                start_time_unix_nano=start,
                time_unix_nano=now,
                count=sum(each["counts"]),
                sum=each["sum"],
                bucket_counts=each["counts"],
                explicit_bounds=each["bounds"],
            )
            for each in points
        ]
        return Metric(**about, histogram=Histogram(data_points=bars, aggregation_temporality=_CUMULATIVE))
    is_sum = said["kind"] == "sum"
    numbers = [
        NumberDataPoint(
            attributes=_attributes(each["labels"]),
            start_time_unix_nano=start if is_sum else 0,
            time_unix_nano=now,
            as_double=each["value"],
        )
        for each in points
    ]
    if is_sum:
        total = Sum(data_points=numbers, aggregation_temporality=_CUMULATIVE, is_monotonic=True)
        return Metric(**about, sum=total)
    return Metric(**about, gauge=Gauge(data_points=numbers))
