"""The sections `openlineage` and `otel`: the servers that get a message about every run."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kfm.config.setting_values import Seconds, Text
from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document

Signal = Literal["traces", "metrics", "logs"]


class OpenLineageConfig(Record, frozen=True):
    """Where OpenLineage events go: into a file, to a server, or both."""

    file: Annotated[str, Meta(max_length=4096, description="path of a file that gets one line per event")] = ""
    url: Annotated[
        str,
        Meta(max_length=4096, description="https://HOST of a server, or env:NAME that holds it"),
    ] = ""
    endpoint: Annotated[Text, Meta(description="path below the server's address")] = "api/v1/lineage"
    api_key: Annotated[str, Meta(max_length=4096, description="env:NAME or file:PATH; empty: no key")] = ""
    timeout_s: Annotated[Seconds, Meta(description="how long the server may be silent")] = 30


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


def check_openlineage(document: Document, said: OpenLineageConfig, allow: tuple[str, ...]) -> None:
    if said == OpenLineageConfig():
        return
    import re

    if not is_printable(said.file):
        document.refuse(("openlineage", "file"), "holds a control character", "use a plain path")
    if said.api_key and not re.match(r"[a-z][a-z0-9+.-]*:.", said.api_key):
        document.refuse(("openlineage", "api_key"), "is not a reference", "write env:NAME or file:PATH")
    if not re.match(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*\Z", said.endpoint):
        document.refuse(("openlineage", "endpoint"), "is not a path", "write api/v1/lineage")
    if said.url and not said.url.startswith("env:"):
        wrong, hint = address_fault(said.url, allow)
        if wrong:
            document.refuse(("openlineage", "url"), wrong, hint)


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


def address_fault(url: str, allow: tuple[str, ...]) -> tuple[str, str]:
    """Return what is wrong with the address of a server that gets a key and events, and the cure; ("", "") if nothing
    is.
    """
    import re

    found = re.match(
        r"(https?)://((?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)((?:/[A-Za-z0-9._-]+)*)/?\Z", url
    )
    if found is None or not _has_host_and_port(url):
        return "is not an address", "write https://HOST or https://HOST:PORT, without user, password or query"
    place = found[2].lower()
    host = place if place.endswith("]") else place.rpartition(":")[0] or place
    local = host in ("localhost", "127.0.0.1", "[::1]")
    if found[1] == "http" and not local and not {host, place} & {each.lower() for each in allow}:
        return "is not encrypted", "use https, or name the host in network.allow if the network is yours"
    return "", ""


def _has_host_and_port(url: str) -> bool:
    """Return whether a library will find a host and a port in an address: no port beyond 65535, no broken IPv6."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
