"""GeoTIFF, GRIB2, NetCDF and Zarr from source to public file: checked, published whole, changed, taken back."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import kfm
from kfm.engine.isolation import sandbox
from kfm.model.format_rules import expecting
from kfm.model.records import DataContract
from kfm.model.transform_config import Expected
from kfm.parsing.tiff import is_cloud_optimized
from kfm.validation.source_check import Inspection, inspect
from tests.abilities import lacking
from tests.engine.installations import Installation, environment
from tests.node.sites import command
from tests.validation.formats import grids
from tests.validation.formats.grids import KANSAS, MADE, SUFFIX, geotiff, netcdf, rain, site_of, zarr

FOUR = """\
kfm: 1
accept_weak_storage: true
catalog: file:catalog
datasets:
"""
ONE = """\
  {form}:
    version: "1.0.0"
    title: Rain
    description: How much rain fell.
    license: CC0-1.0
    sensitivity: public
    sources:
      day: {{uri: day.{form}, format: {form}, expect: {{bbox: [-103, 36, -94, 41], bands: {bands}, {more}}}}}
    outputs:
      day: {{from: day}}
"""
FEWEST = "variables: [{name: rain, mode: evolve}]"
TYPES = {
    "geotiff": "image/tiff; application=geotiff",
    "grib2": "application/wmo-GRIB2",
    "netcdf": "application/netcdf",
    "zarr": "application/vnd.zarr+zip",
}


def look(form: str, body: bytes, **expect: Any) -> Inspection:
    """In this process."""
    contract = msgspec.convert({"format": form}, DataContract)
    if expect:
        contract = expecting(contract, msgspec.convert(expect, Expected))
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.flush()

        def opened() -> Any:
            file.seek(0)
            return os.fdopen(os.dup(file.fileno()), "rb")

        return inspect(opened, contract, "day", lambda _: None, lambda _: None)


def rule(found: Inspection) -> str:
    return found.cause.rule if found.held and found.cause is not None else ""


def public(site: Installation, form: str) -> list[bytes]:
    pattern = f"public/datasets/{form}/versions/*/day.{SUFFIX[form]}"
    return [path.read_bytes() for path in site.folder.glob(pattern)]


@pytest.mark.usefixtures("confinement")
def test_each_is_published_whole_described_changed_and_taken_back(place: Path) -> None:
    bands = {"geotiff": 1, "grib2": 1, "netcdf": 4, "zarr": 4}
    (place / "kfm.yml").write_text(
        FOUR
        + "".join(
            ONE.format(form=form, bands=bands[form], more=FEWEST if form == "grib2" else f'crs: "EPSG:4326", {FEWEST}')
            for form in MADE
        )
    )
    bodies = {form: made() for form, made in MADE.items()}
    for form, body in bodies.items():
        (place / f"day.{form}").write_bytes(body)
    site = Installation(place)
    site.kfm("run")
    for form in MADE:
        site.kfm("promote", form)
    items = {}
    for path in place.glob("catalog/**/items/*.json"):
        item = json.loads(path.read_text())
        items[item["collection"]] = item
    for form, body in bodies.items():
        assert public(site, form) == [body]
        (item,) = [one for name, one in items.items() if form in name]
        assert item["bbox"] == list(KANSAS)
        (asset,) = [one for one in item["assets"].values() if one["href"].endswith(SUFFIX[form])]
        assert asset["type"] == TYPES[form]
        assert len(asset["bands"]) == bands[form], "its variables are described, with units where the file has them"
        assert any(one.get("unit") and one["data_type"] == "float32" for one in asset["bands"]) or form == "grib2"
        if form == "netcdf":
            assert item["properties"]["start_datetime"] == "2026-06-01T00:00:00Z"
            assert item["properties"]["end_datetime"] == "2026-06-02T00:00:00Z"
        if form == "grib2":
            assert item["properties"]["datetime"] == "2026-06-01T06:00:00Z"
    assert site.kfm("run", "geotiff", "--exit-code", expect=10).out.count("noop") == 1
    (place / "day.geotiff").write_bytes(geotiff(rain(seed=9)))
    site.kfm("run", "geotiff")
    site.kfm("promote", "geotiff")
    current = place / "public/datasets/geotiff/current.json"
    after = json.loads(current.read_text())["version"]
    site.kfm("rollback", "geotiff", "--reason", "the first was right")
    assert json.loads(current.read_text())["version"] != after
    assert bodies["geotiff"] in public(site, "geotiff")


@pytest.mark.usefixtures("confinement")
def test_a_run_that_goes_on_after_a_crash_says_the_same_of_it() -> None:
    """Then it was not held against its contract in this process."""
    for form in ("geotiff", "netcdf"):
        body = MADE[form]()
        found = sandbox.describe_apart(io.BytesIO, lambda body=body: io.BytesIO(body), form)
        assert found == look(form, body).described != {}


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "crs": ("geo.crs", {"crs": "EPSG:3857"}),
    "extent": ("geo.extent", {"bbox": [-100, 36, -94, 41]}),
    "bands": ("grid.bands", {"bands": 2}),
    "missing": ("variable.missing", {"variables": [{"name": "snow", "required": True}]}),
    "dtype": ("grid.dtype", {"variables": [{"name": "rain", "dtype": "float64"}]}),
    "units": ("grid.units", {"variables": [{"name": "rain", "units": "inch"}]}),
    "dimensions": ("grid.dimensions", {"variables": [{"name": "rain", "dimensions": ["a", "b"]}]}),
    "shape": ("grid.shape", {"variables": [{"name": "rain", "shape": [30, 76]}]}),
    "nodata": ("grid.nodata", {"variables": [{"name": "rain", "nodata": 5}]}),
    "minimum": ("minimum", {"variables": [{"name": "rain", "minimum": 1}]}),
    "maximum": ("maximum", {"variables": [{"name": "rain", "maximum": 1}]}),
    "time": ("grid.time", {"time": "2026-06-02T00:00:00Z/.."}),
}


def fits(form: str) -> dict[str, Any]:
    known = form in ("netcdf", "zarr")
    about = {
        "name": "rain",
        "dtype": "float32",
        "units": "mm",
        "dimensions": ["time", "lat", "lon"] if known else ["y", "x"],
        "shape": [2, 30, 75] if known else [30, 75],
        "minimum": 0,
        "maximum": 1000,
        "required": True,
    }
    if form != "zarr":
        about["nodata"] = -9999
    said: dict[str, Any] = {"crs": "EPSG:4326", "bbox": [-102, 37, -94.5, 40], "variables": [about]}
    return {**said, "time": "2026-06-01T00:00:00Z/2026-06-02T00:00:00Z"} if known else said


def made(form: str) -> bytes:
    if form == "zarr":
        return zarr(np.maximum(np.stack([rain(), rain(seed=8)]), 0))
    return geotiff(names=["rain"]) if form == "geotiff" else MADE[form]()


@pytest.mark.parametrize("form", ["geotiff", "netcdf", "zarr"])
def test_what_is_expected_is_so(form: str) -> None:
    body = made(form)
    found = look(form, body, **fits(form))
    assert not found.held, found.cause
    assert found.findings == []
    for kind, (told, expect) in WRONG.items():
        assert rule(look(form, body, **expect)) == told, kind


def test_what_is_expected_of_messages_is_so() -> None:
    body = grids.grib2()
    name = "APCP06" if rule(look("grib2", body, variables=[{"name": "APCP06", "required": True}])) == "" else "APCP"
    fine = {"name": name, "required": True, "dimensions": ["message", "y", "x"], "shape": [1, 30, 75], "minimum": 0}
    assert rule(look("grib2", body, bands=1, variables=[fine], time="2026-06-01T00:00:00Z/2026-06-02T00:00:00Z")) == ""
    assert rule(look("grib2", body, time="../2026-06-01T05:00:00Z")) == "grid.time"
    assert rule(look("grib2", body, variables=[{"name": name, "maximum": 1}])) == "maximum"
    assert rule(look("grib2", body, variables=[{"name": name, "units": "K"}])) == "grid.units"


def test_two_messages_of_one_element_are_one_variable() -> None:
    """With a byte between them, as servers of parts leave it."""
    found = look("grib2", grids.grib2() + b"G" + grids.grib2(), bands=1)
    assert not found.held, found.cause


def test_what_may_evolve_is_noted_only() -> None:
    found = look(
        "geotiff", made("geotiff"), variables=[{"name": "rain", "units": "inch", "maximum": 1, "mode": "evolve"}]
    )
    assert not found.held
    assert sorted(found.finding_counts) == ["grid.units", "maximum"]


def test_a_file_without_a_place_is_held_if_one_is_expected() -> None:
    from rasterio.io import MemoryFile

    with MemoryFile() as memory:
        with memory.open(driver="GTiff", count=1, height=4, width=4, dtype="uint8") as file:
            file.write(np.zeros((1, 4, 4), "uint8"))
        body = bytes(memory.read())
    assert rule(look("geotiff", body)) == "" and look("geotiff", body).described is msgspec.UNSET
    assert rule(look("geotiff", body, crs="EPSG:4326")) == "geo.crs"
    assert rule(look("geotiff", body, bbox=[-180, -90, 180, 90])) == "geo.missing"
    assert rule(look("geotiff", body, time="../2026-01-01T00:00:00Z")) == "grid.time"


def test_a_projected_grid_is_described_in_degrees() -> None:
    found = look("geotiff", geotiff(crs="EPSG:5070", bounds=(-100_000, 1_500_000, 0, 1_600_000)), crs="EPSG:5070")
    west, south, east, north = found.described["bbox"]
    assert -97.2 < west < -97.0 and 36.5 < south < 36.7 and -96.1 < east < -95.9 and 37.4 < north < 37.6


def test_longitudes_to_360_are_written_from_minus_180_to_180() -> None:
    found = look("geotiff", geotiff(bounds=(258.0, 37.0, 265.5, 40.0)))
    assert found.described == {"bbox": list(KANSAS)}
    body = geotiff(bounds=(258.0, 37.0, 265.5, 40.0))
    assert (
        rule(look("geotiff", body, bbox=[-103, 36, -94, 41]))
        == rule(look("geotiff", body, bbox=[257, 36, 266, 41]))
        == ""
    )
    assert rule(look("geotiff", body, bbox=[-101, 36, -94, 41])) == "geo.extent"


@pytest.mark.usefixtures("confinement")
def test_a_cloud_optimized_one_says_so(place: Path) -> None:
    values = np.zeros((1, 700, 700), "uint8")
    body = geotiff(values, driver="COG")
    site = site_of(place, "geotiff", body, f'{{crs: "EPSG:4326", {FEWEST}}}')
    site.kfm("run")
    site.kfm("promote", "rain")
    (item,) = [json.loads(path.read_text()) for path in place.glob("catalog/**/items/*.json")]
    types = {one["type"] for one in item["assets"].values()}
    assert "image/tiff; application=geotiff; profile=cloud-optimized" in types


def test_what_is_cloud_optimized() -> None:
    values = np.zeros((1, 700, 700), "uint8")
    tiles = {"tiled": True, "blockxsize": 128, "blockysize": 128}
    assert is_cloud_optimized(io.BytesIO(geotiff(values, driver="COG")))
    assert is_cloud_optimized(io.BytesIO(geotiff(units="")))  # small: it needs neither tiles nor overviews
    assert not is_cloud_optimized(io.BytesIO(geotiff(values)))
    assert not is_cloud_optimized(io.BytesIO(geotiff(values, **tiles)))
    assert not is_cloud_optimized(io.BytesIO(b"II*\0"))


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ("{bands: 0}", "bands"),
        ("{time: yesterday}", "is not two instants in UTC"),
        ('{time: "2026-02-01T00:00:00Z/2026-01-01T00:00:00Z"}', "ends before it begins"),
        ("{variables: [{name: a}, {name: a}]}", "names 'a' twice"),
        ("{variables: [{name: a, minimum: 2, maximum: 1}]}", "above its maximum"),
        ("{variables: [{name: a, shape: [1], dimensions: [x, y]}]}", "more or fewer dimensions"),
        ("{variables: [{name: a, colour: red}]}", "colour"),
        ("{layers: 2}", "layers"),
    ],
)
def test_what_cannot_be_meant_is_refused(expect: str, told: str, place: Path) -> None:
    site = site_of(place, "geotiff", b"", expect)
    assert told in site.kfm("run", expect=3).err


@pytest.mark.usefixtures("confinement")
def test_a_grid_has_no_steps_and_no_rows(place: Path) -> None:
    site = site_of(place, "geotiff", b"")
    path = place / "kfm.yml"
    plain = path.read_text()
    for more, told in (
        ("steps: [{select: [a]}]", "a grid is published whole"),
        ("format: csv", "a grid is published whole"),
        ("partition_by: a", "a grid is published whole"),
    ):
        path.write_text(plain.replace("{from: day}", f"{{from: day, {more}}}"))
        assert told in site.kfm("run", expect=3).err
    path.write_text(plain.replace("format: geotiff", "format: csv\n        expect: {bands: 1}"))
    assert "has no meaning for this format" in site.kfm("run", expect=3).err
    path.write_text(plain.replace("format: geotiff", "format: geotiff\n        contract: {min_rows: 1}"))
    assert "min_rows has no meaning for the format geotiff" in site.kfm("run", expect=3).err


@pytest.mark.usefixtures("confinement")
def test_without_its_library_it_is_said_what_to_install(place: Path) -> None:
    site = site_of(place, "geotiff", geotiff())
    (place / "rasterio.py").write_text("raise ModuleNotFoundError('rasterio')")
    told = site.kfm("run", expect=69, env={"PYTHONPATH": str(place)}).err
    assert "GeoTIFF needs a library that is not installed" in told
    assert 'pip install "kansas-frontier-matrix[grids]"' in told


def test_the_other_runner_says_that_it_does_not_read_it(place: Path) -> None:
    site_of(place, "netcdf", netcdf())
    told = subprocess.run(
        command("node", "run"), cwd=place, env=environment(), capture_output=True, text=True, check=False
    )
    assert told.returncode == 3
    assert "dataset rain has a source with netcdf, and this runner reads none; run it with" in told.stderr


@pytest.mark.usefixtures("confinement")
def test_each_is_a_dataset_of_xarray(place: Path) -> None:
    if find_spec("xarray") is None:
        lacking("xarray is not installed")
    (place / "kfm.yml").write_text(
        FOUR + "".join(ONE.format(form=form, bands=1, more=FEWEST) for form in MADE).replace(", bands: 1", "")
    )
    for form in MADE:
        (place / f"day.{form}").write_bytes(made(form))
    opened = kfm.open(place)
    opened.run()
    for form in MADE:
        found = opened.read(form).xarray()
        (name,) = [str(name) for name in found.data_vars]
        values = np.asarray(found[name].values).reshape(-1, 30, 75)
        expected = np.maximum(rain(), 0) if form in ("grib2", "zarr") else np.where(rain() < 0, np.nan, rain())
        assert np.allclose(values[0], expected, atol=0.01, equal_nan=True), form
        if form != "grib2":
            assert name == "rain" and found[name].attrs["units"] == "mm"
        west, east = (
            float(found[axis][at]) for axis, at in ((("lon" if "lon" in found.coords else "x"), at) for at in (0, -1))
        )
        assert -102 <= west < -101.8 and -94.8 < east <= -94.5
