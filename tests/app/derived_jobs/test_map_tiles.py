"""`transform.build_tiles`: real readers open the tiles, no feature is lost, and equal features give equal bytes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kfm.parsing.pmtiles import Tiles, place_of
from tests.app.derived_jobs.conftest import Run, body, derived, written
from tests.app.derived_jobs.map_reader import Map
from tests.cli.conftest import Kfm


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(Path("wells.csv").read_text().splitlines()))


def test_every_well_is_on_the_map_at_every_zoom(wells: Kfm, run: Run) -> None:
    receipt = run("well-tiles")
    assert (receipt["status"], receipt["job_type"]) == ("SUCCESS", "transform.build_tiles")
    drawn = Map(body("processed/well-tiles", "tiles"))
    for zoom in range(7):
        assert {values["KID"] for _, values in drawn.features(zoom)} == {int(row["KID"]) for row in rows()}
    assert {layer for layer, _ in drawn.features(6)} == {"wells"}
    assert {name for _, values in drawn.features(6) for name in values} == {"KID", "STATUS"}
    said = json.loads(body("processed/well-tiles", "metadata"))
    assert said["features"] == len(rows()) and said["tiles"] == len(drawn.tiles)
    assert (said["minzoom"], said["maxzoom"]) == (0, 6) and said["vector_layers"][0]["id"] == "wells"


@pytest.mark.long
def test_gdal_reads_the_tiles_and_finds_as_many_features(wells: Kfm, run: Run) -> None:
    import pyogrio

    run("well-tiles")
    Path("map.pmtiles").write_bytes(body("processed/well-tiles", "tiles"))
    _, _, _, columns = pyogrio.raw.read("map.pmtiles", columns=["KID"], read_geometry=False, ZOOM_LEVEL=6)
    assert len(set(columns[0])) == len(rows())


def test_our_reader_finds_what_the_reference_implementation_finds(wells: Kfm, run: Run) -> None:
    run("well-tiles")
    made = body("processed/well-tiles", "tiles")
    ours = Tiles(made)
    assert {place_of(entry.number): ours.tile(entry) for entry in ours.entries()} == Map(made).tiles


def test_rows_in_another_order_give_the_same_bytes(wells: Kfm, run: Run) -> None:
    run("well-tiles")
    before = body("processed/well-tiles", "tiles")
    lines = Path("wells.csv").read_text().splitlines()
    Path("wells.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    assert run("wells")["outcome"] == "done"
    assert wells("publish", "wells").code == 0
    assert run("well-tiles")["changes"] == {"added": 0, "changed": 0, "removed": 0, "keys": 2}
    assert body("processed/well-tiles", "tiles") == before


@pytest.mark.long
def test_another_process_time_zone_and_language_give_the_same_bytes(wells: Kfm, run: Run) -> None:
    run("well-tiles")
    other = {
        **os.environ,
        "PYTHONHASHSEED": "7",
        "TZ": "Pacific/Auckland",
        "LC_ALL": "tr_TR.UTF-8",
        "GDAL_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-m", "kfm", "reproduce", "well-tiles", "--json"], env=other,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.long
def test_tiles_of_a_feature_collection_have_its_types(kfm: Kfm, run: Run) -> None:
    features = [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[-99, 38], [-98, 38], [-98, 39], [-99, 38]]]},  # noqa: E501
         "properties": {"name": "Łódź", "deep": 4.5, "open": True, "many": [1, 2], "none": None}},
        {"type": "Feature", "geometry": None, "properties": {"name": "nowhere"}},
    ]  # fmt: skip
    Path("shapes.json").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    head = (
        "kfm: 1\ndatasets:\n  shapes:\n    version: '1.0.0'\n    sensitivity: public\n    title: x\n"
        "    license: CC0-1.0\n    sources: {s: {uri: shapes.json, format: geojson}}\n"
        "    outputs: {shapes: {from: s}}\n"
    )
    written(derived("map", "transform.build_tiles", "max_zoom: 4", "{shapes: {dataset: shapes}}"), head=head)
    run("shapes")
    assert run("map")["status"] == "SUCCESS"
    (found,) = {repr(sorted(values.items())) for _, values in Map(body("processed/map", "tiles")).features(4)}
    assert found == repr([("deep", 4.5), ("many", "[1,2]"), ("name", "Łódź"), ("open", True)])


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ("longitude: lon, latitude: lat", "has no feature with a place"),
        ("longitude: KID, latitude: NAD27_LATITUDE", "are not degrees"),
        ("longitude: NAD27_LONGITUDE, latitude: NAD27_LATITUDE, attributes: [depth]", "has no column 'depth'"),
        ("longitude: NAD27_LONGITUDE, latitude: NAD27_LATITUDE, tile_kib: 16", "more than 16"),
    ],
)
@pytest.mark.long
def test_what_cannot_be_drawn_is_refused_and_the_tiles_stay(wells: Kfm, run: Run, parameters: str, what: str) -> None:
    run("well-tiles")
    before = body("processed/well-tiles", "tiles")
    if "16" in parameters:
        table = io.StringIO()
        writer = csv.DictWriter(table, [*rows()[0], "more"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "more": os.urandom(600).hex()} for row in rows())
        Path("wells.csv").write_text(table.getvalue())
        run("wells")
        wells("publish", "wells")
    written(derived("well-tiles", "transform.build_tiles", parameters, "{features: {dataset: wells, zone: published}}"))
    receipt = run("well-tiles")
    assert receipt["status"] == "FAILED" and what in receipt["errors"][0]["message"]
    assert receipt["outputs"] == [] and body("processed/well-tiles", "tiles") == before


@pytest.mark.long
def test_a_dry_run_makes_the_tiles_and_writes_nothing(wells: Kfm) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in Path(".kfm").rglob("*") if path.is_file())
    answer = wells("run", "well-tiles", "--dry-run", "--json")
    assert answer.data["receipts"][0]["changes"]["added"] == 2
    assert before == sorted((path, path.stat().st_mtime_ns) for path in Path(".kfm").rglob("*") if path.is_file())


def test_node_refuses_a_dataset_that_a_job_makes(wells: Kfm) -> None:
    done = subprocess.run(["node", str(Path(__file__).parents[3] / "updater.mjs"), "run", "well-tiles"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 3 and "dataset well-tiles is made by a job" in done.stderr
