"""Log facies, a file for each well, blank photoelectric values left blank."""

from collections.abc import Sequence

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import Trigger
from kfm.model.updater import Reader, Sources


class Facies(Updater):
    id = "hugoton-facies"
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("vectors")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        wells = inputs[0].partitions
        return Plan([Step(id=f"well-{n}", key=("wells", well), params={"well": well}) for n, well in enumerate(wells)])

    def perform(self, step: Step, read: Reader) -> Output:
        rows = [row for row in read.csv("vectors") if row["Well Name"] == step.params["well"]]
        return Output.csv(sorted(rows, key=lambda row: float(row["Depth"])))
