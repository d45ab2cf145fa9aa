"""The sections `execute`, `watch` and `freshness`: parallelism, polling intervals, and how old data may become."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Interval
from kfm.model.records import Record
from kfm.parsing.documents import Document


class ExecuteConfig(Record, frozen=True):
    """How a run performs its steps, and how long a dead worker keeps its lease."""

    threads: Annotated[int, Meta(ge=1, le=64, description="steps that run at the same time")] = 4
    window: Annotated[
        int,
        Meta(
            ge=1,
            le=65_536,
            description="at most this many steps share one durable write and may run again after a crash",
        ),
    ] = 4096
    lease_s: Annotated[float, Meta(gt=0, le=86_400, description="how long other workers wait for a dead one")] = 60
    cluster: Annotated[
        str,
        Meta(
            max_length=300,
            description="tcp://HOST:PORT or tls://HOST:PORT of a Dask scheduler whose workers perform the steps; "
            "empty: threads of this process; Python only",
        ),
    ] = ""


class WatchConfig(Record, frozen=True):
    """How `kfm triggers watch` polls sources, and how it merges triggers for the same run."""

    poll_s: Annotated[
        Interval, Meta(description="time between two polls of a source; 0: only sources with their own poll_s")
    ] = 900
    jitter: Annotated[float, Meta(ge=0, le=1, description="at most this share of it is added at random")] = 0.1
    host_pause_s: Annotated[Interval, Meta(description="pause between two polls of one host")] = 1
    debounce_s: Annotated[
        Interval, Meta(description="triggers of a dataset are merged until none came for this long")
    ] = 2


_CLUSTER = r"(tcp|tls)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"


def check_cluster(document: Document, cluster: str, state: str, objects: str, allow: tuple[str, ...]) -> None:
    """Raise BadInput for an address that this version cannot use, and for storage that workers cannot reach."""
    if not cluster:
        return
    import re

    path = ("execute", "cluster")
    found = re.fullmatch(_CLUSTER, cluster)
    if found is None:
        document.refuse(path, "is not an address of this form", "write tcp://HOST:PORT or tls://HOST:PORT")
        return
    host = found[2].lower()
    if state.partition(":")[0] == "memory":
        document.refuse(path, "needs a state that workers can read", "write state: sqlite:.kfm/state.db")
    if host in ("localhost", "[::1]") or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host):
        return
    if state.partition(":")[0] != "postgresql" or objects.partition(":")[0] != "s3":
        hint = "use postgresql:// and s3:// addresses for state and objects, or a scheduler on 127.0.0.1"
        document.refuse(path, "is another machine, which cannot see the files of this one", hint)
    elif found[1] == "tcp" and not {host, cluster[6:].lower()} & {each.lower() for each in allow}:
        hint = "use tls://, or name the host in network.allow if the network is yours"
        document.refuse(path, "is not encrypted, and whoever reaches a scheduler can run code there", hint)


class FreshnessConfig(Record, frozen=True):
    """How old a dataset may become: exactly one of the two settings is given."""

    max_age: Annotated[str, Meta(max_length=20, description="age of the public data, such as 90m, 26h or 3d")] = ""
    by: Annotated[
        str, Meta(max_length=100, description="built every day by this time, such as 07:00 America/Chicago")
    ] = ""
