"""Backfills: parts of a dataset that are to be made, as declared; the plan of one; and how far it has come."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record

Downstream = Literal["emit", "coalesce", "suppress"]
Which = Literal["needed", "missing", "all"]
Round = Literal["all", "missing", "failed"]
Kind = Literal["hour", "day", "week", "month", "year", "tile", "cell", "station", "release", "name"]

PREFIX = "backfill."  # how the ids of its triggers begin
CHUNK = 1000  # partitions that lie together

# How a partition stands when it is planned, and what became of it: a letter each.
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
    """What a backfill will do, whole: its digest is what is shown, what is started and what is executed."""

    backfill: str
    n: int  # how often its ref had moved before: the same partitions again are another plan
    dataset: str
    updater: str
    updater_version: str
    code_hash: str
    config_hash: str  # of the dataset's settings
    kind: Kind
    which: Which
    downstream: Downstream
    after: list[str]  # schedules that are told of it
    pool: str
    gates: str  # digest of the policies
    label_epoch: int
    counts: dict[str, int]  # how many are missing, stale and done
    total: int
    chunks: list[str]  # digests of the lists of partitions, `CHUNK` lines each: a letter and the name


class Flight(Record, frozen=True):
    """A partition that somebody took, until its result is noted."""

    trigger_id: str
    partition: str
    holder: str
    since_ms: int


class Progress(Record, frozen=True):
    """How far a plan has come: the cursor, and what is beside it."""

    plan: str
    total: int
    at: int = 0  # the position that is looked at next
    round: int = 1
    which: Round = "all"
    flying: dict[str, Flight] = {}  # by position
    counts: dict[str, int] = {}  # by the letter of the result
    changed: bool = False  # something was made since downstream was told
    asked: int = 0  # runs that were asked for downstream


def trigger_id(plan: BackfillPlan, round_: int, position: int) -> str:
    return f"{PREFIX}{plan.backfill}.{plan.n}.{round_}.{position:07d}"
