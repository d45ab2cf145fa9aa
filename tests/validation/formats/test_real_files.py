"""Real files, as their publishers give them: through contract, publication, change and rollback, by the command line.

A file more is a row more in FILES.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import sampling
from tests.abilities import needs_confinement
from tests.engine.installations import KANSAS, Installation
from tests.validation.formats.shapes import parts, shaped, week, zipped
from tests.validation.formats.tables import quakes, written

pytestmark = pytest.mark.xdist_group("real files")  # what they share is made once

REAL = Path(__file__).parent / "real"
DATA = KANSAS / "data"


def lines(body: bytes) -> bytes:
    """Without the last line."""
    return body[: body.rstrip(b"\n").rfind(b"\n") + 1]


def features(body: bytes) -> bytes:
    document = json.loads(body)
    document["features"].pop()
    return json.dumps(document).encode()


def title(body: bytes) -> bytes:
    return body.replace(b"2016-11-21", b"2016-11-22")


def value(body: bytes) -> bytes:
    return body.replace(b"CHOPTANK", b"Choptank")


def packed_anew(body: bytes) -> bytes:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return zipped({name: archive.read(name) for name in archive.namelist()}, zipfile.ZIP_STORED)


class File(NamedTuple):
    format: str
    body: Callable[[], bytes]
    changed: Callable[[bytes], bytes]
    source: str  # what kfm.yml says of it, next to its format
    suffix: str  # of what is published
    rows: int  # that pass
    whole: bool = False  # published byte for byte


def columns(*said: str) -> str:
    return "contract: {columns: [" + ", ".join(f"{{{one}}}" for one in said) + "], max_held_share: 1}"


FILES = {
    "drought": File("csv", (DATA / "usdm-riley-county.csv").read_bytes, lines, columns("name: FIPS"), ".csv", 64),
    "tops": File("csv", (DATA / "kgs-arroyo-tops.csv").read_bytes, lines, columns("name: KID"), ".csv", 0),
    "facies": File("csv", (DATA / "hugoton-facies.csv").read_bytes, lines, columns("name: Depth"), ".csv", 0),
    "stations": File("csv", (DATA / "noaa-isd-history.csv").read_bytes, lines, columns("name: USAF"), ".csv", 0),
    "gzipped": File("csv", lambda: gzip.compress((DATA / "hugoton-facies.csv").read_bytes(), mtime=0),
                    lambda body: gzip.compress(lines(gzip.decompress(body)), mtime=0),
                    "unpack: gzip, " + columns("name: Depth, type: number"), ".csv", 0),
    "gauges": File("csv", (REAL / "usgs-nwis-sites.rdb.txt").read_bytes, lines,
                   'contract: {delimiter: "\\t", comment: "#", skip_after_header: 1, columns: [{name: site_no}]}',
                   ".csv", 0),
    "quakes": File("geojson", (DATA / "usgs-all-week.geojson").read_bytes, features, columns("name: mag, type: number"),
                   ".geojson", 1707),
    "water": File("json", (REAL / "usgs-nwis-daily-values.waterml.json").read_bytes, value,
                  "contract: {json_schema: {type: object, required: [value]}}", ".json", 1),
    "radar": File("stac", (REAL / "S1B_20161121_12SYJ_ASC.json").read_bytes, title, "contract: {}", ".json", 1),
    "kansas": File("shapefile", (REAL / "tl_2010_20_state10.zip").read_bytes, packed_anew,
                   'expect: {crs: "EPSG:4269", bbox: [-103, 36, -94, 41], geometry: [Polygon, MultiPolygon]}, '
                   + columns("name: STATEFP10, values: ['20']"), ".shp.zip", 1, True),
    "package": File("geopackage", lambda: shaped("geopackage", week()), lambda _: shaped("geopackage", week().slice(1)),
                    'expect: {crs: "EPSG:4326"}, ' + columns("name: mag, type: number"), ".gpkg", 1707, True),
    "flat": File("flatgeobuf", lambda: shaped("flatgeobuf", week()), lambda _: shaped("flatgeobuf", week().slice(1)),
                 'expect: {crs: "EPSG:4326"}, ' + columns("name: mag, type: number"), ".fgb", 1707, True),
    "columns": File("parquet", lambda: written(quakes()), lambda _: written(quakes().slice(1)),
                    'expect: {crs: "EPSG:4326"}, ' + columns("name: mag, type: number"), ".parquet", 1707, True),
}  # fmt: skip

LARGEST = ("stations", "package")  # they take as long as the eleven others: tried in `make test-long`
TRIED = {name: file for name, file in FILES.items() if sampling.everything or name not in LARGEST}
NAMES = [pytest.param(name, marks=pytest.mark.long) if name in LARGEST else name for name in FILES]


def test_they_are_twelve_files_in_eight_formats() -> None:
    assert len(FILES) >= 12 and len({file.format for file in FILES.values()}) >= 8
    assert sum(path.stat().st_size for path in REAL.iterdir()) < 400_000
    assert parts(week(3))  # what is derived is derived from a real one


class Passage(NamedTuple):
    given: dict[str, bytes]
    changed: dict[str, bytes]
    first: dict[str, bytes]
    second: dict[str, bytes]
    back: dict[str, bytes]
    receipts: dict[str, Any]


def current(folder: Path) -> dict[str, bytes]:
    """What the public is given now, by dataset."""
    found = {}
    for name, file in TRIED.items():
        version = json.loads((folder / f"public/datasets/{name}/current.json").read_text())["version"]
        found[name] = (folder / f"public/datasets/{name}/versions/{version[7:23]}/it{file.suffix}").read_bytes()
    return found


@pytest.fixture(scope="module")
def passage() -> Iterator[Passage]:
    needs_confinement()
    folder = Path(tempfile.mkdtemp(prefix="kfm-real-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    said = ["kfm: 1", "accept_weak_storage: true", "datasets:"]
    given = {name: file.body() for name, file in TRIED.items()}
    changed = {name: file.changed(given[name]) for name, file in TRIED.items()}
    for name, file in TRIED.items():
        (folder / name).write_bytes(given[name])
        said += [
            f'  {name}:\n    version: "1.0.0"\n    title: {name}\n    license: CC0-1.0\n    sensitivity: public',
            f"    promote: auto\n    sources:\n      it: {{uri: {name}, format: {file.format}, {file.source}}}",
            "    outputs: {it: {from: it}}",
        ]
    (folder / "kfm.yml").write_text("\n".join(said) + "\n")
    site = Installation(folder)
    receipts = {one["dataset"]: one for one in site.kfm("run", "--json").data["receipts"] if one["rows"]}
    first = current(folder)
    for name, body in changed.items():
        (folder / name).write_bytes(body)
    site.kfm("run")
    second = current(folder)
    for name in TRIED:
        site.kfm("rollback", name, "--reason", "the first was right")
    yield Passage(given, changed, first, second, current(folder), receipts)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_file_goes_all_the_way_and_back(passage: Passage, name: str) -> None:
    file = TRIED[name]
    assert passage.receipts[name]["rows"] == (file.rows or passage.receipts[name]["rows"]) > 0
    if file.whole:
        assert passage.first[name] == passage.given[name]
        assert passage.second[name] == passage.changed[name]
    assert len(passage.first[name]) > 1000
    assert passage.second[name] != passage.first[name]
    assert passage.back[name] == passage.first[name]
