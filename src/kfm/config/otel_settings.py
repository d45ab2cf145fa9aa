"""The section `otel`: the collector of OpenTelemetry that gets traces, metrics and logs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kfm.config.openlineage_settings import address_fault
from kfm.config.setting_values import Seconds, Text
from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document

Signal = Literal["traces", "metrics", "logs"]


class OtelConfig(Record, frozen=True):
    """The collector of OpenTelemetry that gets traces, metrics and logs over OTLP/HTTP; Python only."""

    endpoint: Annotated[
        str,
        Meta(
            max_length=4096,
            description="https://HOST of a collector, or env:NAME that holds it, such as "
            "env:OTEL_EXPORTER_OTLP_ENDPOINT; /v1/traces, /v1/metrics and /v1/logs follow it",
        ),
    ] = ""
    signals: Annotated[tuple[Signal, ...], Meta(description="what is sent")] = ("traces", "metrics", "logs")
    headers: Annotated[
        dict[str, Text], Meta(description="sent with every request; each value is env:NAME or file:PATH")
    ] = {}
    timeout_s: Annotated[Seconds, Meta(description="how long the collector may be silent")] = 10


def check_otel(document: Document, said: OtelConfig, allow: tuple[str, ...]) -> None:
    """Raise BadInput for an address that gets no telemetry, an empty list of signals, or a header that is no
    reference."""
    if said == OtelConfig():
        return
    import re

    if said.endpoint and not said.endpoint.startswith("env:"):
        wrong, hint = address_fault(said.endpoint, allow)
        if wrong:
            document.refuse(("otel", "endpoint"), wrong, hint)
    if not said.signals or len(set(said.signals)) < len(said.signals):
        what = "names a signal twice" if said.signals else "names no signal"
        document.refuse(("otel", "signals"), what, "write [traces, metrics, logs], or leave it out")
    ours = ("host", "connection", "transfer-encoding", "te", "upgrade", "user-agent")
    seen: set[str] = set()
    for name, reference in said.headers.items():
        at = ("otel", "headers", name)
        lower = name.lower()
        if not re.match(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z", name) or lower in seen:
            document.refuse(at, "is not a valid name, or is given twice", "use letters, digits, - and _")
        if lower in ours or lower.startswith("content-"):
            document.refuse(at, "is a header that KFM sets itself", "leave it out")
        seen.add(lower)
        kind, _, rest = reference.partition(":")
        if not re.match(r"[a-z][a-z0-9+.-]*\Z", kind) or not rest or not is_printable(rest):
            document.refuse(at, "is not a reference", "write env:NAME or file:PATH")
