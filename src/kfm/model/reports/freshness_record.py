"""How old a dataset is, how old it may be, and which causes its age has."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record

Cause = Literal[
    "source late",
    "not yet noticed",
    "waiting",
    "waiting for a pool",
    "running",
    "held",
    "failed",
    "waiting for review",
    "withdrawn",
    "frozen",
    "upstream late",
]
Verdict = Literal["fresh", "late", "never", "no target"]


class Freshness(Record, frozen=True):
    """The freshness of one dataset at one instant. The minutes of all causes add up to its age."""

    dataset: str
    verdict: Verdict
    as_of: str  # when the run that made the public version ended; empty: nothing is public
    age_min: int | None
    target: str  # as declared; empty: none
    late_min: int  # beyond the target; 0: not late
    blame: dict[str, int]  # minutes by cause, largest first
