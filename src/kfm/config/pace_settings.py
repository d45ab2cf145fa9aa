"""The sections `execute`, `watch` and `freshness`: how much at a time, how often, and how old it may become."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Interval
from kfm.model.records import Record


class ExecuteConfig(Record, frozen=True):
    """How steps are run."""

    threads: Annotated[int, Meta(ge=1, le=64, description="steps that run at the same time")] = 4
    window: Annotated[
        int,
        Meta(
            ge=1,
            le=65_536,
            description="at most this many steps share one durable write and are in doubt after a crash",
        ),
    ] = 4096
    lease_s: Annotated[float, Meta(gt=0, le=86_400, description="how long a dead worker keeps others waiting")] = 60


class WatchConfig(Record, frozen=True):
    """How `kfm triggers watch` looks at sources, and how it gathers what asks for the same run."""

    poll_s: Annotated[
        Interval, Meta(description="between two looks at a source; 0: only those that say so themselves")
    ] = 900
    jitter: Annotated[float, Meta(ge=0, le=1, description="at most this share of it is added by chance")] = 0.1
    host_pause_s: Annotated[Interval, Meta(description="between two looks at one host")] = 1
    debounce_s: Annotated[
        Interval, Meta(description="triggers of a dataset are gathered until none came for this long")
    ] = 2


class FreshnessConfig(Record, frozen=True):
    """How old a dataset may become, one of the two."""

    max_age: Annotated[str, Meta(max_length=20, description="of what is public, such as 90m, 26h or 3d")] = ""
    by: Annotated[
        str, Meta(max_length=100, description="made on each day by this time, such as 07:00 America/Chicago")
    ] = ""
