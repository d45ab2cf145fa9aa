"""The USGS weekly feed, cut to Kansas and its surroundings, as GeoJSON."""

from collections.abc import Sequence
from typing import Any

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import Trigger
from kfm.model.updater import Reader, Sources

WEST, SOUTH, EAST, NORTH = -102.1, 36.0, -94.5, 40.1


def near_kansas(feature: dict[str, Any]) -> bool:
    lon, lat = feature["geometry"]["coordinates"][:2]
    return bool(WEST <= lon <= EAST and SOUTH <= lat <= NORTH)


class Earthquakes(Updater):
    id = "usgs-earthquakes"
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("week")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id="events", key=("events",)), Step(id="counts", key=("counts",), needs=("events",))])

    def perform(self, step: Step, read: Reader) -> Output:
        if step.id == "counts":
            features = read.json("events")["features"]
            largest = max((feature["properties"]["mag"] or 0 for feature in features), default=None)
            return Output.json({"events": len(features), "largest_magnitude": largest})
        features = [feature for feature in read.json("week")["features"] if near_kansas(feature)]
        features.sort(key=lambda feature: (feature["properties"]["time"], feature["id"]))
        return Output.json({"type": "FeatureCollection", "features": features}, "application/geo+json")
