"""GDAL reads what is served where it is, in parts: files, rows in other formats, and STAC items.

The libraries that are installed for tests bring a GDAL of their own, so a part of it runs everywhere. The programs of
GDAL are those of Debian's `gdal-bin`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.formats_site import COUNTIES, GAUGES, PLOTS, WELLS, served_formats
from tests.api.serving_site import OPEN, Site

# One server on loopback: nothing is listed, nothing is kept, and no proxy is asked.
SETTINGS = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "VSI_CACHE": "FALSE", "NO_PROXY": "*", "no_proxy": "*"}
programs = pytest.mark.skipif(
    shutil.which("ogrinfo") is None and not os.environ.get("CI"),
    reason="ogrinfo is not installed; Debian has it in gdal-bin",
)


def test_the_gdal_of_a_library_reads_rows_over_http_by_parts(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyogrio

    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    at = f"/vsicurl/{served.base}/v1/datasets/{OPEN}/data?format=csv"
    _, _, _, columns = pyogrio.raw.read(f"CSV:{at}")
    assert [list(column) for column in columns] == [["a", "b"] * 2, ["1", "2"] * 2]


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
        with served_formats(tmp_path_factory.mktemp("formats")) as site:
            yield site


def gdal(*command: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **SETTINGS}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and "ERROR" not in done.stderr, (command, done.stdout, done.stderr)
    return done.stdout


def files(site: Site, dataset: str) -> list[str]:
    found = json.loads(site.ask(f"/v1/datasets/{dataset}").body)["files"]
    return [f"/vsicurl/{site.base}{each['href']}" for each in found]


@programs
@pytest.mark.long
def test_ogrinfo_reads_a_published_file_where_it_is(formats: Site) -> None:
    said = gdal("ogrinfo", "-al", "-so", files(formats, WELLS)[0])
    assert "using driver `GeoJSON'" in said and "Feature Count: 3" in said and "depth: Real" in said
    said = gdal("ogrinfo", "-al", files(formats, GAUGES)[0])
    assert "using driver `CSV'" in said and "gauge (String) = 001" in said and "ä水" in said


@programs
@pytest.mark.long
def test_ogr2ogr_converts_the_rows_of_every_format_alike(formats: Site, tmp_path: Path) -> None:
    found = {}
    for form in ("geojson", "csv"):
        at = f"/vsicurl/{formats.base}/v1/datasets/{GAUGES}/data?format={form}"
        options = ["-oo", "X_POSSIBLE_NAMES=longitude", "-oo", "Y_POSSIBLE_NAMES=latitude"] if form == "csv" else []
        out = tmp_path / f"{form}.geojson"
        named = f"CSV:{at}" if form == "csv" else at
        gdal("ogr2ogr", "-f", "GeoJSON", str(out), named, *options, "-lco", "COORDINATE_PRECISION=15")
        features = json.loads(out.read_text())["features"]
        found[form] = [(each["properties"]["gauge"], each["geometry"]["coordinates"]) for each in features]
    assert len(found["csv"]) == 3 * len(COUNTIES) and found["csv"] == found["geojson"]


@programs
@pytest.mark.long
def test_ogrinfo_reads_geoparquet_where_its_driver_exists(formats: Site) -> None:
    if "Parquet" not in gdal("ogrinfo", "--formats"):
        pytest.skip("this GDAL has no driver for Parquet")
    said = gdal("ogrinfo", "-al", "-so", f"/vsicurl/{formats.base}/v1/datasets/{PLOTS}/data?format=parquet")
    assert f"Feature Count: {2 * len(COUNTIES)}" in said and "Geometry: Point" in said


@programs
@pytest.mark.long
def test_the_stac_api_is_read_as_features(formats: Site) -> None:
    listed = gdal("ogrinfo", f"OAPIF:{formats.base}/stac")
    assert all(name in listed for name in (WELLS, GAUGES))
    said = gdal("ogrinfo", "-so", f"OAPIF:{formats.base}/stac", WELLS)
    assert f"Feature Count: {len(COUNTIES)}" in said and "datetime: DateTime" in said
    items = gdal("ogrinfo", "-al", "-so", f"{formats.base}/stac/collections/{WELLS}/items?limit=2")
    assert "using driver `GeoJSON'" in items and "Feature Count: 2" in items
