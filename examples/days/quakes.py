"""Earthquakes of a week, made day by day: what is meant is in `trigger.partition`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from kfm import Output, Plan, SourceRef, Step, Updater


class QuakesByDay(Updater):
    id = "quakes-by-day"
    version = "1.0.0"
    lease_by = "partition"  # two days may be at work at once

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("week", partition=(trigger.partition,))]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        (day,) = inputs[0].partition
        return Plan([Step(id=day, key=(day, "quakes"), params={"day": day})])

    def perform(self, step: Step, read: Any) -> Output:
        rows = (feature["properties"] for feature in read.json(0)["features"])
        return Output.csv(
            (
                {"time": at.isoformat(), "magnitude": row["mag"], "place": row["place"]}
                for row in sorted(rows, key=lambda each: (each["time"], each["code"]))
                if str((at := datetime.fromtimestamp(row["time"] / 1000, UTC)).date()) == step.params["day"]
            ),
            columns=("time", "magnitude", "place"),
        )
