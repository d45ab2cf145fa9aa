"""The section `schedule` of a dataset: when it is updated. The files of schedules are in schedule_files.py."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kfm.config.setting_values import Text
from kfm.model.records import Record
from kfm.model.schedules import CatchUp, On, Overlap

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Cadence = Literal["real-time", "daily", "weekly", "annual", "static"]


Share = Annotated[float, Meta(ge=0, le=1)]


class AnomalyConfig(Record, frozen=True):
    """What is no longer usual of a run. Crossed once, it asks for one run, until it was usual again."""

    held_share: Annotated[Share | None, Meta(description="more than this share of the rows is held back")] = None
    removed_share: Annotated[Share | None, Meta(description="more than this share of the keys is gone")] = None
    rows_drop: Annotated[Share | None, Meta(description="this share fewer rows were read than the time before")] = None


class ScheduleConfig(Record, frozen=True):
    """When a dataset is updated: by a `cadence`, by `cron`, `after` others, or `on` something."""

    cadence: Annotated[
        Cadence | None,
        Meta(
            description="real-time: every `every_min` minutes; daily, weekly (on `day`) and annual (on 1 January): at "
            "`at`; static: once, and again when its code, its declaration or KFM itself changed"
        ),
    ] = None
    cron: Annotated[
        str, Meta(max_length=200, description="minute, hour, day, month, weekday; instead of a cadence")
    ] = ""
    after: Annotated[
        tuple[Text, ...], Meta(description="datasets whose new versions ask for a run, instead of a clock")
    ] = ()
    on: Annotated[
        On | None,
        Meta(
            description="event: a webhook or a watched source says that something changed; anomaly: a run crossed a "
            "threshold of `when`"
        ),
    ] = None
    of: Annotated[tuple[Text, ...], Meta(description="on an anomaly of these datasets; empty: of its own")] = ()
    when: Annotated[AnomalyConfig | None, Meta(description="the thresholds of an anomaly")] = None
    timezone: Annotated[Text, Meta(description="whose clock is meant, e.g. America/Chicago")] = "UTC"
    at: Annotated[str, Meta(max_length=5, description="the time of the day, of a cadence, such as 06:30")] = "00:00"
    day: Annotated[Day, Meta(description="the day of a weekly one")] = "mon"
    every_min: Annotated[int, Meta(ge=1, le=5, description="of a real-time one: every so many minutes")] = 5
    overlap: Annotated[
        Overlap | None,
        Meta(
            description="if the run before has not ended: skip this one, queue it, or cancel-older, which ends that "
            "run; null: skip, but queue where all is caught up with"
        ),
    ] = None
    catch_up: Annotated[
        CatchUp, Meta(description="of what was missed while nobody looked: none, only the last, or all of it")
    ] = "last"
    jitter_s: Annotated[
        int, Meta(ge=0, le=86_400, description="begin up to this much later, by an amount fixed for each instant")
    ] = 0
    start: Annotated[str, Meta(description="nothing before this instant, in RFC 3339")] = ""
    end: Annotated[str, Meta(description="nothing after this instant, in RFC 3339")] = ""
    window: Annotated[str, Meta(description="the days meant, as for `kfm run --window`, such as P30D")] = ""
    pool: Annotated[
        str, Meta(max_length=63, description="a name of `pools`, instead of that of the dataset; empty: as it says")
    ] = ""
    paused: Annotated[bool, Meta(description="it has no ticks until this is taken out")] = False
