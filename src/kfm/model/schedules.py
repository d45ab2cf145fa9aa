"""Schedules: when a dataset is to be updated, as declared, the ticks that result, and the port that stores them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

from kfm.model.records import Record

Overlap = Literal["skip", "queue", "cancel-older"]
CatchUp = Literal["none", "last", "all"]
On = Literal["event", "anomaly"]
Why = Literal["due", "begun", "changed", "after", "event", "anomaly", "overlap", "missed", "paused"]
ASKING: tuple[Why, ...] = (
    "due",
    "changed",
    "after",
    "event",
    "anomaly",
)  # a tick for one of these reasons has a trigger
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def plain_cron(text: str) -> str:
    """Return a cron expression in five fields: `@daily` and the like are written out, and in a range of weekdays that
    ends on Sunday, such as `mon-sun`, Sunday is day 7. Any other text is returned as it is.
    """
    said = _NICKNAMES.get(text.strip().lower(), text)
    *fields, weekdays = said.split(" ")
    if "-sun" not in weekdays.lower():
        return said
    terms = (
        term[: -len("sun")] + "7" if term.lower().endswith("-sun") and term.lower() != "sun-sun" else term
        for term in weekdays.split(",")
    )
    return " ".join([*fields, ",".join(terms)])


class Schedule(Record, frozen=True):
    """When a dataset is updated. Its ticks depend only on this record and the time-zone database."""

    id: str
    dataset: str
    cron: str  # five fields; empty: it is `static`, runs `after` other datasets, or `on` an event
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"
    jitter_s: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    window: str = ""
    pool: str = ""  # the pool its runs take slots of; empty: that of the dataset
    paused: bool = False
    after: tuple[str, ...] = ()  # datasets whose new versions request a run
    on: On | None = None  # what requests a run instead of a clock
    of: tuple[str, ...] = ()  # on an anomaly: the datasets to watch
    when: dict[str, float] = {}  # on an anomaly: the threshold of each measure
    reads: tuple[str, ...] = ()  # the refs of the versions it reads: one run for each set of versions
    implied: bool = False  # not declared: a dataset that reads others follows them
    place: str = ""  # where it is declared, for messages

    @property
    def static(self) -> bool:
        """Whether the schedule is static: it runs once, and again when its code, its declaration or its tools
        change."""
        return not self.cron and not self.after and self.on is None


class Tick(Record, frozen=True):
    """One instant of a schedule, claimed once by one process. The newest tick says how far the schedule was
    followed."""

    schedule_id: str
    at_ms: int  # the instant of the schedule; without a clock, when the cause was noticed
    claimed_ms: int
    why: Why  # those in ASKING request a run
    trigger_id: str = ""
    missed: int = 0  # earlier instants that no process claimed and that will not run
    mark: str = ""  # static: the digest it was run for; others: how far the ledger was read


class Ticks(Protocol):
    """The claimed instants of schedules."""

    def last(self, schedule_id: str) -> Tick | None: ...

    def of(self, schedule_id: str, *, limit: int = -1) -> Iterator[Tick]:
        """Yield the ticks of a schedule, newest first."""

    def newest(self) -> Tick | None:
        """Return the tick that was claimed last, over all schedules."""


class TicksTx(Ticks, Protocol):
    def keep(self, tick: Tick, *, forget_before_ms: int) -> None: ...
