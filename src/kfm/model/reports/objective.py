"""Objectives: what people promise each other about datasets and operations, and how much may go wrong."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record

Indicator = Literal["success", "latency", "rollback_time", "freshness"]
INDICATORS: tuple[Indicator, ...] = ("success", "latency", "rollback_time", "freshness")
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WINDOWS = {"1h": HOUR_MS, "6h": 6 * HOUR_MS, "3d": 3 * DAY_MS, "30d": 30 * DAY_MS}  # for which the burn is shown
LONGEST_MS = 92 * DAY_MS  # of the window of an objective


class Objective(Record, frozen=True):
    """One objective, as its file declares it."""

    name: str
    indicator: Indicator
    target: float  # the share that must be good, between 0 and 1
    window_ms: int
    datasets: tuple[str, ...] = ()  # it is about these; empty: about all of kfm.yml
    limit_ms: int = 0  # of latency, rollback time and age; 0 for success
    title: str = ""
    place: str = ""  # where it is declared

    @property
    def counts_events(self) -> bool:
        """Whether it counts runs and operations. The others measure time."""
        return self.indicator != "freshness"

    def covers(self, dataset: str) -> bool:
        return not self.datasets or dataset in self.datasets
