"""The sections `execute`, `watch` and `freshness`: parallelism, polling intervals, and how old data may become."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Interval
from kfm.model.records import Record


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


class FreshnessConfig(Record, frozen=True):
    """How old a dataset may become: exactly one of the two settings is given."""

    max_age: Annotated[str, Meta(max_length=20, description="age of the public data, such as 90m, 26h or 3d")] = ""
    by: Annotated[
        str, Meta(max_length=100, description="built every day by this time, such as 07:00 America/Chicago")
    ] = ""
