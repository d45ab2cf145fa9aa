"""Weekly drought classes of one county, oldest week first."""

from collections.abc import Sequence

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import Trigger
from kfm.model.updater import Reader, Sources


class Drought(Updater):
    id = "riley-drought"
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("weeks")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id="weeks", key=("weeks",))])

    def perform(self, step: Step, read: Reader) -> Output:
        return Output.csv(sorted(read.csv("weeks"), key=lambda row: row["ValidStart"]))
