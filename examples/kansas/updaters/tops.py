"""Formation tops of an oil field: a file for each formation, and a summary that needs them all."""

import csv
import io
from collections.abc import Sequence

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import Trigger
from kfm.model.updater import Reader, Sources

COLUMNS = ("API", "FORMATION", "TOP", "BASE", "ELEVATION", "SOURCE", "UPDATED")


class FormationTops(Updater):
    id = "kgs-tops"
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("tops")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        # The quarantine collected the distinct values of the partition column: plan() reads no data itself.
        formations = inputs[0].partitions
        steps = [
            Step(id=f"formation-{n}", key=("by-formation", name), params={"formation": name})
            for n, name in enumerate(formations)
        ]
        summary = Step(id="summary", key=("summary",), needs=tuple(step.id for step in steps))
        return Plan([*steps, summary])

    def perform(self, step: Step, read: Reader) -> Output:
        if step.id == "summary":
            return self.summary(step, read)
        rows = [row for row in read.csv("tops") if row["FORMATION"] == step.params["formation"]]
        rows.sort(key=lambda row: (row["API"], float(row["TOP"] or 0)))
        return Output.csv(({name: row[name] for name in COLUMNS} for row in rows), COLUMNS)

    def summary(self, step: Step, read: Reader) -> Output:
        lines = []
        for need in step.needs:
            rows = list(csv.DictReader(io.StringIO(read.text(need))))
            depths = sorted(float(row["TOP"]) for row in rows if row["TOP"])
            lines.append(
                {
                    "formation": rows[0]["FORMATION"],
                    "wells": len({row["API"] for row in rows}),
                    "shallowest": depths[0] if depths else "",
                    "deepest": depths[-1] if depths else "",
                }
            )
        return Output.csv(lines, ("formation", "wells", "shallowest", "deepest"))
