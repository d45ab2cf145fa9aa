"""GeoPackage, shapefile and FlatGeobuf from source to public file: checked, published whole or made into others."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.installations import Installation, environment
from tests.node.sites import command
from tests.sampling import sampled
from tests.validation.formats.shapes import FORMATS, shaped, week, write_shapes
from tests.validation.formats.tables import point, read

CONFIG = """\
kfm: 1
accept_weak_storage: true
catalog: file:catalog
datasets:
  quakes:
    version: "1.0.0"
    title: Earthquakes of a week
    description: Earthquakes of a week, as the survey tells them.
    license: CC0-1.0
    sensitivity: public
    sources:
      week:
        uri: URI
        format: FORMAT
        expect: {crs: "EPSG:4326", bbox: [-180, -90, 180, 90], geometry: [Point]}
        contract:
          columns:
            - {name: id, required: true, unique: true, mode: discard-row, pattern: "[a-z0-9]+"}
            - {name: mag, type: number, minimum: -3, maximum: 10, mode: discard-row}
            - {name: time, type: datetime, required: true}
    outputs:
      week: {from: week}
"""
WEEK = week()
SUFFIX = {"geopackage": ".gpkg", "shapefile": ".shp.zip", "flatgeobuf": ".fgb"}


def opened(place: Path, form: str, table: pa.Table | bytes = WEEK, said: str = CONFIG) -> Installation:
    (place / "kfm.yml").write_text(said.replace("URI", FORMATS[form]).replace("FORMAT", form))
    put(place, form, table)
    return Installation(place)


def put(place: Path, form: str, table: pa.Table | bytes) -> bytes:
    body = table if isinstance(table, bytes) else shaped(form, table)
    (place / FORMATS[form]).write_bytes(body)
    return body


def public(site: Installation, name: str) -> bytes:
    version = json.loads((site.folder / "public/datasets/quakes/current.json").read_text())["version"]
    return (site.folder / f"public/datasets/quakes/versions/{version[7:23]}" / name).read_bytes()


def replaced(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    values = table.column(at).to_pylist()
    values[row] = value
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(values, field.type))


@pytest.mark.usefixtures("confinement")
@pytest.mark.parametrize("form", sampled(FORMATS))
def test_published_byte_for_byte_changed_and_taken_back(place: Path, form: str) -> None:
    site = opened(place, form)
    body = (place / FORMATS[form]).read_bytes()
    (receipt,) = site.kfm("run", "--json").data["receipts"]
    assert receipt["rows"] == WEEK.num_rows
    site.kfm("promote", "quakes")
    assert public(site, "week" + SUFFIX[form]) == body
    (item,) = [json.loads(path.read_text()) for path in site.folder.glob("catalog/**/items/*.json")]
    assert item["bbox"] == pytest.approx([-179.6445, -65.8617, 178.8275, 83.0422])
    assert site.kfm("run", "--exit-code", expect=10).out.count("noop") == 1
    changed = put(place, form, WEEK.slice(1))
    site.kfm("run")
    site.kfm("promote", "quakes")
    assert public(site, "week" + SUFFIX[form]) == changed
    site.kfm("rollback", "quakes", "--reason", "the first row was right")
    assert public(site, "week" + SUFFIX[form]) == body


OTHERS = CONFIG.replace(
    "      week: {from: week}\n",
    """\
      columns: {from: week, format: parquet}
      shapes: {from: week, format: geojson, steps: [{filter: {column: mag, at_least: 5}}]}
      strong:
        from: week
        format: csv
        steps: [{filter: {column: mag, at_least: 5}}, {sort: [id]}, {select: [id, mag, time]}]
""",
)


@pytest.mark.usefixtures("confinement")
@pytest.mark.parametrize("form", sampled(FORMATS))
def test_steps_make_parquet_geojson_and_csv_of_what_passed(place: Path, form: str) -> None:
    bad = replaced(replaced(WEEK, "mag", 2, 11.5), "geometry", 7, point(200, 0))
    bad = replaced(bad, "id", 9, bad.column("id")[8].as_py())
    site = opened(place, form, bad, OTHERS)
    site.kfm("run")
    told = site.kfm("held", "quakes", "--json").data
    rules = {(one["column"], one["rule"]) for one in told["sources"][0]["findings"] if one["held"]}
    assert rules == {("mag", "maximum"), ("geometry", "geo.range"), ("id", "unique")}
    site.kfm("promote", "quakes")
    kept = bad.take([at for at in range(bad.num_rows) if at not in (2, 7, 9)])
    table = read(public(site, "columns.parquet"))
    assert table.column("id").to_pylist() == kept.column("id").to_pylist()
    assert table.column("geometry").to_pylist() == kept.column("geometry").to_pylist()
    assert set(table.schema.metadata) == {b"geo"}
    strong = {row["id"]: row for row in kept.to_pylist() if (row["mag"] or 0) >= 5}
    assert len(strong) > 10
    features = json.loads(public(site, "shapes.geojson"))["features"]
    assert {one["id"] for one in features} == set(strong)
    for one in features:
        row = strong[one["id"]]
        assert one["geometry"]["type"] == "Point" and point(*one["geometry"]["coordinates"]) == row["geometry"]
        assert one["properties"]["mag"] == row["mag"] and set(one["properties"]) == {"mag", "time", "net"}
    lines = public(site, "strong.csv").decode().splitlines()
    assert lines[0] == "id,mag,time" and [line.split(",")[0] for line in lines[1:]] == sorted(strong)


@pytest.mark.usefixtures("confinement")
def test_the_file_itself_is_not_published_if_a_row_is_held(place: Path) -> None:
    site = opened(place, "flatgeobuf", replaced(WEEK, "mag", 2, 11.5))
    told = site.kfm("run", expect=3).err
    assert "source week cannot be read unchanged: rows or values of it are quarantined" in told
    assert "write parquet, geojson or csv from it" in told
    assert not list(site.folder.glob("public/**/*.fgb"))


@pytest.mark.usefixtures("confinement")
def test_without_the_library_it_says_what_to_install(place: Path) -> None:
    site = opened(place, "flatgeobuf")
    (place / "pyogrio.py").write_text("raise ModuleNotFoundError('no module')\n")
    told = site.kfm("run", expect=69, env={"PYTHONPATH": str(place)}).err
    assert "FlatGeobuf needs a library that is not installed" in told
    assert "pip install 'kansas-frontier-matrix[vectors]'" in told


@pytest.mark.parametrize("form", FORMATS)
def test_the_other_runner_says_that_it_does_not_read_it(place: Path, form: str) -> None:
    opened(place, form, b"")
    told = subprocess.run(
        command("node", "run"), cwd=place, env=environment(), capture_output=True, text=True, check=False
    )
    assert told.returncode == 3
    assert f"dataset quakes has a source with {form}, and this runner reads none; run it with" in told.stderr


REFUSED = {
    "steps without a format": ("{from: week}", "{from: week, steps: [{sort: [id]}]}", "steps do not write flatgeobuf"),
    "a kind that is none": ("geometry: [Point]", "geometry: [Blob]", "names no kind of geometry"),
    "csv without columns": ("{from: week}", "{from: week, format: csv}", "no select says which columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_before_anything_is_read(place: Path, case: str) -> None:
    before, after, told = REFUSED[case]
    assert before in CONFIG
    site = opened(place, "flatgeobuf", b"", CONFIG.replace(before, after))
    assert told in site.kfm("run", expect=3).err


def layered() -> bytes:
    """A GeoPackage of two tables of shapes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "week.gpkg"
        write_shapes(WEEK.slice(0, 40), path, "geopackage", layer="first")
        write_shapes(WEEK.slice(0, 30), path, "geopackage", layer="second", append=True)
        return path.read_bytes()


@pytest.mark.usefixtures("confinement")
def test_of_several_layers_the_one_that_is_named_is_read(place: Path) -> None:
    site = opened(place, "geopackage", layered())
    told = site.kfm("run", expect=3).err
    assert "it has 2 layers: say with `layer` which one; it has: " in told and "(geopackage.layer)" in told
    said = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(said.replace("contract:\n", "contract:\n          layer: second\n"))
    (receipt,) = site.kfm("run", "--json").data["receipts"]
    assert receipt["rows"] == 30
