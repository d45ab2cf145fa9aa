"""An installation with data of several formats: GeoJSON, CSV, NDJSON, Parquet with places, and bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.api.serving_site import Site, serving

COUNTIES = ("ellis", "ford", "osage", "riley", "thomas")
WELLS, GAUGES, NOTES, PLOTS, GRID, SECRET = "wells", "gauges", "notes", "plots", "pictures", "springs"
CANARY = "canary5521"  # in every row of what is closed
ABOVE = f"-98.{CANARY[-4:]}"  # the place of what is closed
_DATASET = """\
  {name}:
    title: {name} of Kansas
    description: Made up for a test
    license: CC0-1.0
    sensitivity: {level}
    updater: made.py:{updater}
    extent: {{bbox: [-102.05, 36.99, -94.59, 40.0], interval: ["2025-01-01T00:00:00Z", "2025-12-31T00:00:00Z"]}}
    sources: {{seed: {{uri: seed.csv, format: csv, contract: {{columns: [{{name: county, required: true}}]}}}}}}
"""
UPDATERS = """\
import io
import json
import struct

from kfm import Output, Plan, Step, Updater

COUNTIES = ("ellis", "ford", "osage", "riley", "thomas")


def point(county, number):
    return [-101.5 + 1.25 * COUNTIES.index(county) + number / 16, 37.125 + 0.5 * COUNTIES.index(county)]


class Made(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("seed")]

    def plan(self, inputs):
        return Plan([Step(id=name, key=(name,)) for name in COUNTIES])


class Wells(Made):
    def perform(self, step, read):
        county = step.id
        features = [
            {
                "type": "Feature",
                "id": f"{county}-{number}",
                "geometry": {"type": "Point", "coordinates": point(county, number)},
                "properties": {"name": f"{county} Brunnen {number} \\u2603", "depth": 12.5 + number, "dry": number == 2,
                               "drilled": "1999-12-31" if number else None},
            }
            for number in range(3)
        ]
        month = 1 + COUNTIES.index(county)
        body = json.dumps({"type": "FeatureCollection", "features": features}, ensure_ascii=False).encode()
        return Output(body, "application/geo+json", datetime=f"2025-{month:02}-01T00:00:00Z")


class Gauges(Made):
    def perform(self, step, read):
        rows = []
        for number in range(3):
            east, north = point(step.id, number)
            note = 'say "hi",\\n\\u00e4\\u6c34' if number else ""
            rows.append({"gauge": f"00{number}", "county": step.id, "note": note,
                         "rain_mm": "" if number == 1 else f"{number}.50", "longitude": east, "latitude": north})
        return Output.csv(rows)


class Notes(Made):
    def perform(self, step, read):
        big = 2**60 + COUNTIES.index(step.id)
        return Output.ndjson([{"county": step.id, "of": {"a": [1, None]}, "big": str(big), "n": 1.5, "none": None}])


class Plots(Made):
    def perform(self, step, read):
        import pyarrow
        from pyarrow import parquet

        places = [struct.pack("<BIdd", 1, 1, *point(step.id, number)) for number in range(2)]
        table = pyarrow.table({
            "plot": pyarrow.array([2**60 + 1, None], pyarrow.int64()),
            "yield": pyarrow.array([0.1, -0.0]),
            "sown": pyarrow.array([19000, None], pyarrow.date32()),
            "geometry": pyarrow.array(places, pyarrow.binary()),
        })
        about = {"version": "1.1.0", "primary_column": "geometry",
                 "columns": {"geometry": {"encoding": "WKB", "geometry_types": ["Point"]}}}
        table = table.replace_schema_metadata({"geo": json.dumps(about)})
        body = io.BytesIO()
        parquet.write_table(table, body, compression="zstd")
        return Output(body.getvalue(), "application/vnd.apache.parquet")


class Pictures(Made):
    def perform(self, step, read):
        return Output(b"no rows are in here: " + step.id.encode(), "application/octet-stream")


class Springs(Made):
    def perform(self, step, read):
        return Output.csv([{"name": "CANARY", "longitude": "EAST", "latitude": "38.1"}])
""".replace("CANARY", CANARY).replace("EAST", ABOVE)


def make(folder: Path) -> None:
    """Publish everything but what is closed, which is only processed."""
    from kfm.cli.main import main

    shown = (WELLS, GAUGES, NOTES, PLOTS, GRID)
    config = ["accept_weak_storage: true", "catalog: file:catalog", "datasets:\n"]
    text = "\n".join(config)
    for name in (*shown, SECRET):
        level = "restricted" if name == SECRET else "public"
        text += _DATASET.format(name=name, level=level, updater=name.capitalize())
    (folder / "kfm.yml").write_text(text)
    (folder / "made.py").write_text(UPDATERS)
    (folder / "seed.csv").write_text("county\nellis\n")
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["run", *shown, SECRET]) == 0
        for name in shown:
            assert main(["publish", name, "--reason", "a test"]) == 0
    finally:
        os.chdir(before)


@contextmanager
def served_formats(folder: Path) -> Iterator[Site]:
    make(folder)
    with serving(folder) as site:
        yield site
