"""Weekly drought classes of one county: all weeks, or those of one month where a backfill asks for it."""

from collections.abc import Sequence

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import Trigger
from kfm.model.updater import Reader, Sources


class Drought(Updater):
    id = "riley-drought"
    version = "1.0.0"
    lease_by = "partition"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        month = (trigger.partition,) if trigger.partition else ()
        return [sources.pin("weeks", partition=month)]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        part = inputs[0].partition
        return Plan([Step(id=part[0] if part else "all", key=(*(part or ("all",)), "weeks"))])

    def perform(self, step: Step, read: Reader) -> Output:
        weeks = sorted(read.csv("weeks"), key=lambda row: row["ValidStart"])
        return Output.csv([week for week in weeks if step.id == "all" or week["ValidStart"].startswith(step.id)])
