"""How old a dataset is, how old it may be, and whom the minutes are owed to."""

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
    "frozen",
    "upstream late",
]
Verdict = Literal["fresh", "late", "never", "no target"]


class Freshness(Record, frozen=True):
    """Of one dataset at one instant. The minutes of all causes together are its age."""

    dataset: str
    verdict: Verdict
    as_of: str  # when the run ended that made what is public now; empty: nothing is
    age_min: int | None
    target: str  # as declared; empty: none is
    late_min: int  # beyond the target; 0: it is not late
    blame: dict[str, int]  # minutes by cause, the most first
