"""The section `network`, and the check of host names for all sections."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Interval, Seconds, Text
from kfm.model.records import Record
from kfm.parsing.documents import Document, Path


class NetworkConfig(Record, frozen=True):
    """The section `network`: which addresses KFM may reach, and limits on time and size."""

    allow: Annotated[
        tuple[Text, ...], Meta(description="host or host:port allowed despite a private address or another port")
    ] = ()
    timeout_s: Annotated[Seconds, Meta(description="longest silence of a server")] = 30
    total_s: Annotated[Seconds, Meta(description="time limit for one whole source")] = 3600
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 50, description="size limit of one source, decompressed")] = 1 << 40
    revalidate_s: Annotated[
        Interval, Meta(description="after this long the whole source is fetched, whatever the ETag says")
    ] = 86_400
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=20,
            description="how often an unavailable source is tried again; Python only",
        ),
    ] = 0
    per_host: Annotated[
        int,
        Meta(ge=1, le=1000, description="most requests to one host at a time, of all jobs of one process; Python only"),
    ] = 6


def check_host(document: Document, path: Path, host: str) -> None:
    import re

    if not re.match(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\Z", host):
        document.refuse(path, "is not a host", "write example.org, or 127.0.0.1:8931 with a port")
