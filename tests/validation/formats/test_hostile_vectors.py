"""Shapes from anyone: cut off, spoilt, swollen, disguised. One clear line, bounded, and nothing changed."""

from __future__ import annotations

import io
import random
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kfm.engine.isolation import sandbox
from kfm.model.format_rules import expecting
from kfm.model.records import DataContract
from kfm.model.transform_config import Expected
from kfm.validation import shapefiles
from kfm.validation.source_check import Inspection, inspect
from tests.sampling import sampled
from tests.validation.formats.shapes import FORMATS, parts, shaped, week, zipped
from tests.validation.formats.test_hostile_parquet import standing, tree
from tests.validation.formats.test_vectors import opened

SMALL = week(50)
GOOD = {form: shaped(form, SMALL) for form in FORMATS}
PARTS = parts(SMALL.drop_columns(["time"]))
VRT = b"<OGRVRTDataSource><OGRVRTLayer name='a'><SrcDataSource>/etc/passwd</SrcDataSource></OGRVRTLayer>"


def look(form: str, body: bytes, crs: str = "") -> Inspection:
    """In this process."""
    contract = DataContract(format=form, max_held_share=1)  # type: ignore[arg-type]
    said = expecting(contract, Expected(crs=crs)) if crs else contract
    return inspect(lambda: io.BytesIO(body), said, "week", lambda _: None, lambda _: None)


def edited(*said: str) -> bytes:
    """A GeoPackage about which somebody told SQLite this."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "week.gpkg"
        path.write_bytes(GOOD["geopackage"])
        with sqlite3.connect(path) as database:
            for one in said:
                database.execute(one)
        database.close()
        return path.read_bytes()


def plain_sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        with sqlite3.connect(Path(folder) / "a") as database:
            database.execute("CREATE TABLE a (b)")
        database.close()
        return (Path(folder) / "a").read_bytes()


def without(*suffixes: str) -> bytes:
    return zipped({name: body for name, body in PARTS.items() if not name.endswith(suffixes)})


def absurd_table() -> bytes:
    """A .dbf that says it has two thousand million rows."""
    dbf = PARTS["week.dbf"]
    return zipped({**PARTS, "week.dbf": dbf[:4] + struct.pack("<I", 2**31) + dbf[8:]})


def absurd_index() -> bytes:
    shx = PARTS["week.shx"]
    return zipped({**PARTS, "week.shx": shx[:24] + struct.pack(">I", 2**31 - 1) + shx[28:]})


def indexed() -> bytes:
    return shaped("flatgeobuf", week(50), SPATIAL_INDEX="YES")


def last_feature() -> bytes:
    body = GOOD["flatgeobuf"]
    at = 12 + struct.unpack("<I", body[8:12])[0]
    while (after := at + 4 + struct.unpack("<I", body[at : at + 4])[0]) < len(body):
        at = after
    return body[at:]


def many_features(said: int, body: bytes = b"") -> bytes:
    """A FlatGeobuf whose header says that it has so many; the number stands there once."""
    body = body or GOOD["flatgeobuf"]
    head = body[: 12 + struct.unpack("<I", body[8:12])[0]]
    number = struct.pack("<Q", 50)
    assert head.count(number) == 1
    return head.replace(number, struct.pack("<Q", said)) + body[len(head) :]


HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "gpkg: nothing": ("geopackage", lambda: b"", "geopackage.unreadable"),
    "gpkg: another format in disguise": ("geopackage", lambda: VRT, "geopackage.unreadable"),
    "gpkg: an address": ("geopackage", lambda: b"/vsicurl/http://127.0.0.1:1/a.gpkg\n", "geopackage.unreadable"),
    "gpkg: a database that is none": ("geopackage", plain_sqlite, "geopackage.unreadable"),
    "gpkg: cut off": ("geopackage", lambda: GOOD["geopackage"][:-4096], "geopackage.unreadable"),
    "gpkg: its log lies elsewhere": ("geopackage", lambda: edited("PRAGMA journal_mode=WAL"), "geopackage.wal"),
    "gpkg: a view without an end": (
        "geopackage",
        lambda: edited(
            "ALTER TABLE week RENAME TO other",
            "CREATE VIEW week AS WITH RECURSIVE r(fid) AS (SELECT 1 UNION ALL SELECT fid+1 FROM r) SELECT fid FROM r",
        ),
        "geopackage.layer",
    ),
    "gpkg: a virtual table": (
        "geopackage",
        lambda: edited("ALTER TABLE week RENAME TO other", "CREATE VIRTUAL TABLE week USING fts5(id, mag, geometry)"),
        "geopackage.layer",
    ),
    "fgb: 2^31 features": ("flatgeobuf", lambda: many_features(2**31), "flatgeobuf.rows"),
    "fgb: 2^32 + 50 features": ("flatgeobuf", lambda: many_features(2**32 + 50), "flatgeobuf.rows"),
    "fgb: 2^63 features": ("flatgeobuf", lambda: many_features(2**63), "flatgeobuf.rows"),
    "fgb: fewer features than it holds": ("flatgeobuf", lambda: many_features(49), "flatgeobuf.rows"),
    "fgb: fewer features, with an index": ("flatgeobuf", lambda: many_features(49, indexed()), "flatgeobuf.rows"),
    "fgb: a feature twice": ("flatgeobuf", lambda: GOOD["flatgeobuf"] + last_feature(), "flatgeobuf.rows"),
    "fgb: cut off between two": (
        "flatgeobuf",
        lambda: GOOD["flatgeobuf"][: -len(last_feature())],
        "flatgeobuf.rows",
    ),
    "fgb: features of nothing": ("flatgeobuf", lambda: GOOD["flatgeobuf"] + bytes(64), "flatgeobuf.rows"),
    "fgb: more behind it": ("flatgeobuf", lambda: GOOD["flatgeobuf"] + b"\0", "flatgeobuf.rows"),
    "fgb: nothing": ("flatgeobuf", lambda: b"", "flatgeobuf.unreadable"),
    "fgb: another format in disguise": ("flatgeobuf", lambda: VRT, "flatgeobuf.unreadable"),
    "fgb: only the beginning": ("flatgeobuf", lambda: GOOD["flatgeobuf"][:8], "flatgeobuf.unreadable"),
    "shp: nothing": ("shapefile", lambda: b"", "shapefile.unreadable"),
    "shp: alone": ("shapefile", lambda: PARTS["week.shp"], "shapefile.members"),
    "shp: without its table": ("shapefile", lambda: without(".dbf"), "shapefile.members"),
    "shp: without its index": ("shapefile", lambda: without(".shx"), "shapefile.members"),
    "shp: no shapefile in it": ("shapefile", lambda: zipped({"a.txt": b"a"}), "shapefile.members"),
    "shp: an archive in it": ("shapefile", lambda: zipped({"a.zip": zipped(PARTS)}), "shapefile.members"),
    "shp: two in it": (
        "shapefile",
        lambda: zipped({**PARTS, **{"b" + name: body for name, body in PARTS.items()}}),
        "shapefile.members",
    ),
    "shp: leads out": ("shapefile", lambda: zipped({**PARTS, "../../a.txt": b"a"}), "shapefile.members"),
    "shp: a name twice": ("shapefile", lambda: zipped({**PARTS, "WEEK.SHP": b"a"}), "shapefile.members"),
    "shp: absurd rows": ("shapefile", absurd_table, "shapefile.rows"),
    "shp: absurd index": ("shapefile", absurd_index, "shapefile.unreadable"),
    "shp: cut off": (
        "shapefile",
        lambda: zipped({**PARTS, "week.shp": PARTS["week.shp"][:-40]}),
        "shapefile.unreadable",
    ),
    "shp: zip cut off": ("shapefile", lambda: GOOD["shapefile"][:-30], "shapefile.unreadable"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_it_is_held_for_a_reason(case: str) -> None:
    form, body, rule = HOSTILE[case]
    found = look(form, body())
    assert found.held and found.cause is not None
    assert found.cause.rule == rule, found.cause


@pytest.mark.parametrize("index", ["NO", "YES"])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 256, 257, 600])
def test_every_feature_is_counted_with_an_index_of_any_height(rows: int, index: str) -> None:
    found = look("flatgeobuf", shaped("flatgeobuf", week(rows), SPATIAL_INDEX=index))
    assert not found.held and found.rows == rows


def test_a_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapefiles, "MOST_UNPACKED", 1 << 20)
    found = look("shapefile", zipped({**PARTS, "week.prj": bytes(20 << 20)}, zipfile.ZIP_DEFLATED))
    assert found.held and found.cause is not None and found.cause.rule == "shapefile.limits"


def test_capital_letters_and_neighbouring_files_do_not_matter() -> None:
    files = {f"data/{name.upper()}": body for name, body in PARTS.items()}
    found = look("shapefile", zipped({**files, "data/readme.txt": b"a", "__MACOSX/data/._WEEK.SHP": b"a"}), "EPSG:4326")
    assert not found.held and found.rows == 50


def test_what_does_not_say_where_it_lies_is_held_only_if_that_is_expected() -> None:
    body = without(".prj")
    assert not look("shapefile", body).held
    found = look("shapefile", body, "EPSG:4326")
    assert found.held and found.cause is not None and found.cause.rule == "geo.crs"


@pytest.mark.parametrize("form", FORMATS)
def test_another_coordinate_system_is_held(form: str) -> None:
    found = look(form, GOOD[form], "EPSG:26914")
    assert found.held and found.cause is not None and found.cause.rule == "geo.crs"


def test_triggers_and_extensions_of_a_database_are_not_run() -> None:
    body = edited(
        "CREATE TRIGGER t AFTER INSERT ON week BEGIN SELECT load_extension('/tmp/evil.so'); END",
        "INSERT INTO gpkg_extensions VALUES ('week', NULL, 'evil_extension', 'none', 'read-write')",
    )
    found = look("geopackage", body)
    assert not found.held and found.rows == 50


@pytest.mark.usefixtures("confinement")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", sampled(range(40)))
def test_spoilt_bytes_never_end_in_anything_but_an_answer(form: str, seed: int) -> None:
    """Apart, as it may crash: held, or all rows are there."""
    pick = random.Random(f"{form} {seed}")
    body = bytearray(GOOD[form])
    if pick.random() < 0.3:
        body = body[: pick.randrange(len(body))]
    else:
        for _ in range(pick.choice((1, 3, 20))):
            body[pick.randrange(len(body))] = pick.randrange(256)
    contract = DataContract(format=form, max_held_share=1)  # type: ignore[arg-type]
    held = sandbox.inspect_apart(io.BytesIO, lambda: io.BytesIO(bytes(body)), contract, "week", len, len)
    assert held.held or held.rows == 50 or form != "shapefile"


@pytest.mark.usefixtures("confinement")
def test_one_clear_line_and_nothing_changed(place: Path) -> None:
    site = opened(place, "geopackage", GOOD["geopackage"])
    site.kfm("run")
    site.kfm("promote", "quakes")
    before, refs = tree(place / "public"), standing(site)
    (place / "week.gpkg-wal").write_bytes(b"a" * 100)  # next to it, and nobody's
    for case in ("gpkg: an address", "gpkg: cut off", "gpkg: a view without an end"):
        (place / "week.gpkg").write_bytes(HOSTILE[case][1]())
        told = site.kfm("run", expect=3).err
        assert "source week (week.gpkg) is held: " in told and "Traceback" not in told
        assert tree(place / "public") == before and standing(site) == refs
