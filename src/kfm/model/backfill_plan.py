"""Backfills: the plan of the partitions to build, and its progress."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record

Downstream = Literal["emit", "coalesce", "suppress"]
Which = Literal["needed", "missing", "all"]
Round = Literal["all", "missing", "failed"]
Kind = Literal["hour", "day", "week", "month", "year", "tile", "cell", "station", "release", "name"]

PREFIX = "backfill."  # the start of the ids of its triggers
CHUNK = 1000  # partitions in one stored list

# The status of a partition when it is planned, and its result: one character each.
MISSING, STALE, DONE = "+", "~", "="
FLYING, MADE, SAME, HELD, FAILED, DENIED, CANCELLED = "*", "d", "u", "h", "f", "x", "c"
WORDS = {
    MISSING: "missing",
    STALE: "stale",
    DONE: "done",
    FLYING: "at work",
    MADE: "made",
    SAME: "unchanged",
    HELD: "held",
    FAILED: "failed",
    DENIED: "denied",
    CANCELLED: "cancelled",
}
BAD = HELD + FAILED + DENIED + CANCELLED


class BackfillPlan(Record, frozen=True):
    """Everything that a backfill will do. People are shown, and workers execute, the plan with exactly this digest."""

    backfill: str
    n: int  # the count of earlier moves of its ref, so that the same partitions again are another plan
    dataset: str
    updater: str
    updater_version: str
    code_hash: str
    config_hash: str  # of the dataset's settings
    kind: Kind
    which: Which
    downstream: Downstream
    after: list[str]  # schedules that run after it
    pool: str
    gates: str  # digest of the policies
    label_epoch: int
    counts: dict[str, int]  # the count of missing, stale and done partitions
    total: int
    chunks: list[str]  # digests of the lists of partitions, `CHUNK` lines each: a status character and the name


class Flight(Record, frozen=True):
    """A partition that a worker took and whose result is not recorded yet."""

    trigger_id: str
    partition: str
    holder: str
    since_ms: int


class Progress(Record, frozen=True):
    """How far a plan has come: the cursor and the partitions at work."""

    plan: str
    total: int
    at: int = 0  # the next position to take
    round: int = 1
    which: Round = "all"
    flying: dict[str, Flight] = {}  # by position
    counts: dict[str, int] = {}  # by the character of the result
    changed: bool = False  # a version was made since downstream schedules were notified
    asked: int = 0  # runs that were requested downstream


def trigger_id(plan: BackfillPlan, round_: int, position: int) -> str:
    return f"{PREFIX}{plan.backfill}.{plan.n}.{round_}.{position:07d}"
