"""The section `schedule` of a dataset: when it is updated. schedule_files.py reads the schedule files."""

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
    """Thresholds of an unusual run. Crossing one triggers one run, until runs are usual again."""

    held_share: Annotated[Share | None, Meta(description="more than this share of the rows is quarantined")] = None
    removed_share: Annotated[Share | None, Meta(description="more than this share of the keys was removed")] = None
    rows_drop: Annotated[Share | None, Meta(description="this share fewer rows than in the run before")] = None


class ScheduleConfig(Record, frozen=True):
    """When a dataset is updated: by a `cadence`, by `cron`, `after` other datasets, or `on` an event."""

    cadence: Annotated[
        Cadence | None,
        Meta(
            description="real-time: every `every_min` minutes; daily, weekly (on `day`) and annual (on 1 January): at "
            "`at`; static: once, and again when its code, its declaration or KFM changes"
        ),
    ] = None
    cron: Annotated[
        str,
        Meta(
            max_length=200,
            description="minute, hour, day, month, weekday, or @daily and the like; instead of a cadence",
        ),
    ] = ""
    after: Annotated[tuple[Text, ...], Meta(description="datasets whose new versions trigger a run")] = ()
    on: Annotated[
        On | None,
        Meta(
            description="event: a webhook or a watched source reports a change; anomaly: a run crossed a "
            "threshold of `when`"
        ),
    ] = None
    of: Annotated[tuple[Text, ...], Meta(description="datasets whose anomalies count; empty: its own")] = ()
    when: Annotated[AnomalyConfig | None, Meta(description="the thresholds of an anomaly")] = None
    timezone: Annotated[Text, Meta(description="time zone of the schedule, e.g. America/Chicago")] = "UTC"
    at: Annotated[str, Meta(max_length=5, description="time of day of a cadence, such as 06:30")] = "00:00"
    day: Annotated[Day, Meta(description="day of a weekly cadence")] = "mon"
    every_min: Annotated[int, Meta(ge=1, le=5, description="minutes between two runs of a real-time cadence")] = 5
    overlap: Annotated[
        Overlap | None,
        Meta(
            description="if the run before has not ended: skip this one, queue it, or cancel-older, which ends that "
            "run; null: skip, or queue with catch_up: all"
        ),
    ] = None
    catch_up: Annotated[
        CatchUp, Meta(description="which missed instants are run later: none, only the last, or all")
    ] = "last"
    jitter_s: Annotated[
        int, Meta(ge=0, le=86_400, description="start up to this much later, by an amount fixed for each instant")
    ] = 0
    start: Annotated[str, Meta(description="nothing before this instant, in RFC 3339")] = ""
    end: Annotated[str, Meta(description="nothing after this instant, in RFC 3339")] = ""
    window: Annotated[str, Meta(description="the days to update, as for `kfm run --window`, such as P30D")] = ""
    pool: Annotated[str, Meta(max_length=63, description="a name of `pools`; empty: the pool of the dataset")] = ""
    paused: Annotated[bool, Meta(description="no runs until this is removed")] = False
