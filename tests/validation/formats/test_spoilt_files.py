"""Files that are spoilt where a reader of all rows does not look. What their own readers refuse or answer wrongly is
quarantined."""

from __future__ import annotations

import io
import random
import sqlite3
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pytest
import rasterio
from rasterio.errors import RasterioError
from rasterio.io import MemoryFile

from kfm.model.records import DataContract
from kfm.validation import vectors
from kfm.validation.source_check import Inspection, inspect
from tests.sampling import tries
from tests.validation.formats.grids import geotiff, rain
from tests.validation.formats.shapes import shaped, week
from tests.validation.formats.tables import quakes, written
from tests.validation.formats.test_grids import look as look_at_grid
from tests.validation.formats.test_grids import rule

TABLE = written(quakes(), write_page_checksum=True, compression="none", use_dictionary=False)
PLACES = shaped("flatgeobuf", week(), SPATIAL_INDEX="YES")
DATABASE = shaped("geopackage", week())
OVERVIEWS = geotiff(rain(600, 900), driver="COG")


def look(form: str, body: bytes) -> Inspection:
    contract = DataContract(format=form, max_held_share=1)  # type: ignore[arg-type]
    return inspect(lambda: io.BytesIO(body), contract, "week", lambda _: None, lambda _: None)


def flipped(body: bytes, at: int, bit: int = 0) -> bytes:
    return body[:at] + bytes([body[at] ^ (1 << bit)]) + body[at + 1 :]


def test_what_is_whole_passes() -> None:
    for form, body in (("parquet", TABLE), ("flatgeobuf", PLACES), ("geopackage", DATABASE)):
        assert not look(form, body).held, form
    assert not look_at_grid("geotiff", OVERVIEWS).held


def test_a_page_of_parquet_with_a_wrong_checksum_is_quarantined(count: Any) -> None:
    found = 0
    pick = random.Random(1)
    for _ in range(tries(60)):
        body = flipped(TABLE, pick.randrange(4, len(TABLE) * 3 // 4), pick.randrange(8))
        try:
            pq.ParquetFile(io.BytesIO(body), page_checksum_verification=True).read()
        except (OSError, ValueError, pa.ArrowException):
            found += 1
            assert rule(look("parquet", body)) == "parquet.unreadable"
    assert found > 1
    count("spoilt Parquet files", found)


def is_intact(body: bytes) -> bool:
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(body)
        return database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    finally:
        database.close()


def test_a_geopackage_that_fails_its_integrity_check_is_quarantined(count: Any) -> None:
    found = 0
    pick = random.Random(2)
    for _ in range(tries(200)):
        at = pick.randrange(100, len(DATABASE))
        body = DATABASE[:at] + pick.randbytes(4) + DATABASE[at + 4 :]
        if not is_intact(body):
            found += 1
            assert look("geopackage", body).held, at
    assert found > 1
    count("spoilt GeoPackage files", found)


def test_a_geopackage_with_a_wrong_spatial_index_is_quarantined() -> None:
    database = sqlite3.connect(":memory:")
    database.deserialize(DATABASE)
    (name,) = database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rtree_%_geom_node'").fetchone()
    (node,) = database.execute(f"SELECT data FROM {name} WHERE nodeno = 1").fetchone()
    number, low, high = struct.unpack_from(">qff", node, 4)
    spoilt = node[:4] + struct.pack(">qff", number, high + 9, low + 9) + node[20:]
    database.execute(f"UPDATE {name} SET data = ? WHERE nodeno = 1", (spoilt,))
    database.commit()
    assert rule(look("geopackage", database.serialize())) == "geopackage.damaged"


def test_a_geotiff_whose_overview_cannot_be_read_is_quarantined(count: Any) -> None:
    with MemoryFile(OVERVIEWS) as memory, memory.open(overview_level=0) as smaller:
        assert smaller.width < 900
    found = 0
    pick = random.Random(3)
    for _ in range(tries(60)):
        at = pick.randrange(2000, len(OVERVIEWS) - 64)
        body = OVERVIEWS[:at] + pick.randbytes(64) + OVERVIEWS[at + 64 :]
        if all_is_read(body):
            continue
        found += 1
        assert look_at_grid("geotiff", body).held, at
    assert found > 1
    count("spoilt GeoTIFF files", found)


def all_is_read(body: bytes) -> bool:
    try:
        with MemoryFile(body) as memory:
            with memory.open() as file:
                file.read()
                levels = len(file.overviews(1))
            for level in range(levels):
                with memory.open(overview_level=level) as file:
                    file.read()
    except (RasterioError, rasterio.errors.RasterioIOError):
        return False
    return True


@pytest.mark.parametrize("rows", [40, None])
def test_a_flatgeobuf_whose_index_misses_a_feature_is_quarantined(rows: int | None, count: Any) -> None:
    body = shaped("flatgeobuf", week(rows), SPATIAL_INDEX="YES")
    assert not look("flatgeobuf", body).held
    said, width = vectors._header(body)
    begin = 12 + struct.unpack_from("<I", body, 8)[0]
    size = vectors._index_bytes(said, width)
    pick, found = random.Random(4), 0
    whole = answers(body)
    for _ in range(tries(60)):
        at = begin + pick.randrange(size // 40) * 40 + pick.randrange(5) * 8 + 5
        spoilt = body[:at] + pick.randbytes(2) + body[at + 2 :]
        if answers(spoilt) != whole:
            found += 1
            assert look("flatgeobuf", spoilt).held, at
    assert found > 1
    count("spoilt FlatGeobuf files", found)


def answers(body: bytes) -> list[Any]:
    """What the reader of the format finds in sixteen parts of the world."""
    found: list[Any] = []
    for west in range(-180, 180, 90):
        for south in range(-90, 90, 45):
            try:
                fids, _ = pyogrio.read_bounds(body, bbox=(west, south, west + 90, south + 45))
                found.append(sorted(fids.tolist()))
            except Exception as problem:
                found.append(type(problem).__name__)
    return found
