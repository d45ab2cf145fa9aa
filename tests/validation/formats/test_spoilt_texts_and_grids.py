"""Spoilt texts, shapefiles and grids: what a common reader of the format refuses or answers wrongly is quarantined."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kfm.model.records import DataContract
from kfm.validation.source_check import Inspection, inspect
from tests.sampling import tries
from tests.validation.formats.grids import grib2, netcdf, rain, zarr
from tests.validation.formats.shapes import shaped, week
from tests.validation.formats.test_grids import look as look_at_grid

TABLE = b"id,mm\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(20))
LINES = b"".join(b'{"id": %d}\n' % n for n in range(20))
RING = [[0, 0], [1, 0], [1, 1], [0, 0]]
FEATURES = [
    {"type": "Feature", "properties": {"id": n}, "geometry": {"type": "Polygon", "coordinates": [RING]}}
    for n in range(20)
]
MAP = json.dumps({"type": "FeatureCollection", "features": FEATURES}).encode()


def look(form: str, body: bytes) -> Inspection:
    contract = DataContract(format=form, max_held_share=1)  # type: ignore[arg-type]
    return inspect(lambda: io.BytesIO(body), contract, "week", lambda _: None, lambda _: None)


def with_ring(ring: list[Any], kind: str = "Polygon") -> bytes:
    geometry = {"type": kind, "coordinates": [ring]}
    return json.dumps({"type": "FeatureCollection", "features": [{**FEATURES[0], "geometry": geometry}]}).encode()


def with_id(text: bytes) -> bytes:
    return MAP.replace(b'{"id": 0}', text, 1)


SPOILT: dict[str, dict[str, bytes]] = {
    "csv": {
        "a quote that is never closed": TABLE + b'20,"open\n',
        "text after a closing quote": TABLE.replace(b"7,7", b'7,"a"b'),
        "a row with one field more": TABLE.replace(b"7,7", b"7,7,7"),
        "a row with one field less": TABLE.replace(b"7,7", b"7"),
        "a row that is cut off": TABLE[:-4],
        "a NUL": TABLE.replace(b"7,7", b"7,\0"),
        "bytes that are not UTF-8": TABLE.replace(b"7,7", b"7,\xff"),
        "UTF-16": TABLE.decode().encode("utf-16"),
        "a gzip file": gzip.compress(TABLE),
        "two columns of one name": TABLE.replace(b"id,mm", b"id,id"),
        "a conflict of git": TABLE.replace(b"7,7\n", b"<<<<<<< HEAD\n7,7\n=======\n7,8\n>>>>>>> x\n"),
    },
    "ndjson": {
        "a line that is cut off": LINES[:-3],
        "NaN": LINES.replace(b'{"id": 5}', b'{"id": NaN}'),
        "two records on a line": LINES.replace(b'{"id": 5}\n', b'{"id": 5}'),
        "a key twice": LINES.replace(b'{"id": 5}', b'{"id": 5, "id": 6}'),
    },
    "geojson": {
        "the end cut off": MAP[:-30],
        "something after the end": MAP + b"x",
        "two documents": MAP + MAP,
        "NaN": MAP.replace(b"[1, 1]", b"[NaN, 1]", 1),
        "a number beyond every range": with_id(b'{"id": 1e999}'),
        "a key twice": with_id(b'{"id": 0, "id": 1}'),
        "half a surrogate pair": with_id(b'{"id": "\\ud800"}'),
        "bytes that are not UTF-8": with_id(b'{"id": "\xff"}'),
        "a line break in a text": with_id(b'{"id": "a\nb"}'),
        "a comment": b"// x\n" + MAP,
        "a ring that is open": with_ring(RING[:-1]),
        "a ring of three": with_ring([[0, 0], [1, 1], [0, 0]]),
        "a place beyond the earth": with_ring([[0, 0], [500, 0], [1, 1], [0, 0]]),
        "numbers as text": with_ring([[0, 0], ["1", "0"], [1, 1], [0, 0]]),
        "the coordinates of another type": with_ring(RING, "Point"),
        "a type that does not exist": with_ring(RING, "Circle"),
    },
}


@pytest.mark.parametrize("form", SPOILT)
def test_a_spoilt_text_is_quarantined_whole_or_by_row(form: str, count: Any) -> None:
    assert look(form, {"csv": TABLE, "ndjson": LINES, "geojson": MAP}[form]).finding_counts == {}
    for what, body in SPOILT[form].items():
        found = look(form, body)
        assert found.held or found.held_rows, what
    count("spoilt texts", len(SPOILT[form]))


def test_python_agrees_that_the_tables_are_spoilt_or_read_otherwise() -> None:
    """A reader that knows nothing of contracts: it refuses, or has rows of other widths."""
    for what, body in SPOILT["csv"].items():
        try:
            rows = list(csv.reader(io.StringIO(body.decode(), newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error):
            continue
        odd = (
            {len(row) for row in rows} != {2}
            or len(set(rows[0])) < 2
            or any("\0" in cell for row in rows for cell in row)
        )
        assert odd, what


# ------------------------------------------------------------------------------------------- shapefiles


def packed(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, body in parts.items():
            archive.writestr(name, body)
    return out.getvalue()


def test_a_shapefile_whose_parts_disagree_is_quarantined() -> None:
    with zipfile.ZipFile(io.BytesIO(shaped("shapefile", week()))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert not look("shapefile", packed(parts)).held
    shp, shx, dbf = (next(name for name in parts if name.endswith(end)) for end in (".shp", ".shx", ".dbf"))
    index, table = parts[shx], parts[dbf]
    rows, (first, width) = struct.unpack_from("<I", table, 4)[0], struct.unpack_from("<HH", table, 8)
    fewer = table[:4] + struct.pack("<I", rows - 5) + table[8 : first + width * (rows - 5)] + b"\x1a"
    spoilt = {
        "the index leads to the shapes of others": {shx: index[:100] + index[108:116] + index[100:108] + index[116:]},
        "the index leads to one shape twice": {shx: index[:108] + index[100:108] + index[116:]},
        "the index leads out of the shapes": {shx: index[:100] + struct.pack(">i", 1 << 28) + index[104:]},
        "the index is cut off": {shx: index[:-40]},
        "the shapes are cut off": {shp: parts[shp][:-40]},
        "the table is cut off": {dbf: table[: -width * 3]},
        "the table has fewer rows": {dbf: fewer},
    }
    for what, other in spoilt.items():
        assert look("shapefile", packed({**parts, **other})).held, what
    for gone in (shp, shx, dbf):
        assert look("shapefile", packed({name: body for name, body in parts.items() if name != gone})).held, gone


# ------------------------------------------------------------------------------------------- grids


def checked_netcdf() -> bytes:
    """A file whose chunks carry checksums."""
    import netCDF4

    file = netCDF4.Dataset("memory", "w", format="NETCDF4", memory=1)
    for name, size, units in (("lat", 30, "degrees_north"), ("lon", 75, "degrees_east")):
        file.createDimension(name, size)
        axis = file.createVariable(name, "f8", (name,))
        axis[:], axis.units = np.linspace(0, 10, size), units
    file.createVariable("rain", "f4", ("lat", "lon"), zlib=True, fletcher32=True)[:] = rain()
    return bytes(file.close())


def read_netcdf(body: bytes) -> None:
    import netCDF4

    file = netCDF4.Dataset("memory", memory=body)
    for variable in file.variables.values():
        variable[:]
    file.close()


def read_grib2(body: bytes) -> None:
    from rasterio.io import MemoryFile

    with MemoryFile(body) as memory, memory.open(driver="GRIB") as file:
        file.read()


def read_zarr(body: bytes) -> None:
    import zarr as library

    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(body)
        file.flush()
        for _, array in library.open_group(library.storage.ZipStore(file.name, mode="r"), mode="r").arrays():
            array[...]


def spoil(body: bytes, pick: random.Random) -> bytes:
    at, size = pick.randrange(len(body)), pick.choice((1, 4, 64))
    kind = pick.choice(("noise", "cut", "zeros"))
    if kind == "cut":
        return body[:at]
    return body[:at] + (pick.randbytes(size) if kind == "noise" else bytes(size)) + body[at + size :]


GRIDS: dict[str, tuple[str, Callable[[], bytes], Callable[[bytes], None]]] = {
    "NetCDF": ("netcdf", netcdf, read_netcdf),
    "NetCDF with checksums": ("netcdf", checked_netcdf, read_netcdf),
    "GRIB2": ("grib2", grib2, read_grib2),
    "Zarr": ("zarr", zarr, read_zarr),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_that_its_own_reader_refuses_is_quarantined(name: str, count: Any) -> None:
    form, make, read = GRIDS[name]
    body, pick, found = make(), random.Random(5), 0
    read(body)
    assert not look_at_grid(form, body).held
    for _ in range(tries(100)):
        other = spoil(body, pick)
        try:
            with warnings.catch_warnings(action="ignore"):
                read(other)
        except Exception:  # whatever its library raises
            found += 1
            assert look_at_grid(form, other).held
    assert found > 1
    count("spoilt grids", found)


def test_a_grib2_whose_end_is_missing_is_quarantined() -> None:
    body = grib2()
    longer = body[:8] + struct.pack(">Q", len(body) + 100) + body[16:]
    for other in (body[:-4], body[:-4] + b"7776", body + body[: len(body) // 2], longer):
        assert look_at_grid("grib2", other).held
