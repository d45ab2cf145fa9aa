"""The four methods that have defaults, overridden. What they can do is said in docs/specs/updater-interface.md."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.errors import Refused
from kfm.model.records import DatasetVersion, Item, RunTelemetry, Trigger
from kfm.model.updater import Reader, Sources

FACTOR = b"1.05"  # the model, such as it is
MODEL = "https://models.example.org/undercatch/1"


class Rain(Updater):
    id = "rain"
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("gauges")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=f"county-{name}", key=(name,)) for name in inputs[0].partitions], complete=True)

    def perform(self, step: Step, read: Reader) -> Output:
        return Output.csv(row for row in read.csv("gauges") if (row["county"],) == step.key)

    def execute(self, step: Step, read: Reader) -> Output:
        """Every output ends with a line that says how it was corrected."""
        made = super().execute(step, read)
        return Output(body=made.body + b"# corrected by " + FACTOR + b"\n", media_type=made.media_type)

    def upsert(self, version: DatasetVersion) -> DatasetVersion:
        """A version of fewer than three counties is not committed; any other says how many it has."""
        if version.entries < 3:
            raise Refused("there are fewer than three counties", hint="look at the source")
        return msgspec.structs.replace(version, metadata={**version.metadata, "counties": version.entries})

    def lineage(self, inputs: Sequence[Item]) -> Sequence[Item]:
        """Made of the source, and by a model that is no source."""
        digest = "sha256:" + hashlib.sha256(FACTOR).hexdigest()
        return [*inputs, Item(kind="uri", id=MODEL, checksum=digest)]

    def telemetry(self, measured: RunTelemetry) -> RunTelemetry:
        """As somebody who reads a meter would."""
        return msgspec.structs.replace(measured, energy_kwh=0.002, co2e_g=0.8, energy_method="meter of the rack")
