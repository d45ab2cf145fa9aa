"""Schedules: when a dataset is to be updated, as it was declared; and the ticks that come of it."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record

Overlap = Literal["skip", "queue", "cancel-older"]
CatchUp = Literal["none", "last", "all"]
On = Literal["event", "anomaly"]
Why = Literal["due", "begun", "changed", "after", "event", "anomaly", "overlap", "missed", "paused"]
ASKING: tuple[Why, ...] = ("due", "changed", "after", "event", "anomaly")  # each of these has a trigger


class Schedule(Record, frozen=True):
    """When a dataset is updated. Its ticks follow from this record and the time-zone database alone."""

    id: str
    dataset: str
    cron: str  # five fields; empty: it has no clock, but is `static`, comes `after` others, or `on` something
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"
    jitter_s: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    window: str = ""
    pool: str = ""  # whose slots its runs take; empty: that of the dataset
    paused: bool = False
    after: tuple[str, ...] = ()  # datasets whose new versions ask for a run
    on: On | None = None  # what asks for a run instead of a clock
    of: tuple[str, ...] = ()  # on an anomaly: of these datasets
    when: dict[str, float] = {}  # on an anomaly: the thresholds, by the names of measures
    reads: tuple[str, ...] = ()  # the refs of those whose versions it is made of: asked for once for each set of them
    implied: bool = False  # nobody wrote it: a dataset that reads others follows them
    place: str = ""  # where it is declared, for people

    @property
    def static(self) -> bool:
        """Once, and again when its code, its declaration or the programs it is made with changed."""
        return not self.cron and not self.after and self.on is None


class Tick(Record, frozen=True):
    """One instant of a schedule, claimed once and by one process. The newest one of a schedule says how far it was
    followed."""

    schedule_id: str
    at_ms: int  # the instant of the schedule; of what has no clock, when it was noticed
    claimed_ms: int
    why: Why  # those of ASKING ask for a run
    trigger_id: str = ""
    missed: int = 0  # instants before it that nobody claimed, and that are not made up for
    mark: str = ""  # of a static one: the digest of what it was run for; of others: how far the ledger was read
