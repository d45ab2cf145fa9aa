"""NOAA's station list, one file for each of the Great Plains states."""

from collections.abc import Sequence

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import Trigger
from kfm.model.updater import Reader, Sources

STATES = ("CO", "IA", "KS", "MO", "NE", "OK")
COLUMNS = ("USAF", "WBAN", "STATION NAME", "STATE", "ICAO", "LAT", "LON", "ELEV(M)", "BEGIN", "END")


class Stations(Updater):
    id = "noaa-stations"
    version = "1.0.0"  # changes whenever plan() or perform() would answer differently

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("stations")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan(
            [Step(id=f"state-{state}", key=("stations", state.lower()), params={"state": state}) for state in STATES],
            complete=True,
        )

    def perform(self, step: Step, read: Reader) -> Output:
        rows = [row for row in read.csv("stations") if row["CTRY"] == "US" and row["STATE"] == step.params["state"]]
        rows.sort(key=lambda row: (row["USAF"], row["WBAN"]))
        return Output.csv(({name: row[name] for name in COLUMNS} for row in rows), COLUMNS)
