"""Parquet from anyone: cut off, spoilt, swollen, absurd. One clear line, bounded, and nothing changed."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kfm.engine.isolation import sandbox
from kfm.model.records import Column, DataContract
from kfm.parsing.parquet_footer import footer_of
from kfm.parsing.wkb import NoGeometry, box_of
from kfm.validation.source_check import Inspection, inspect
from tests.engine.installations import Installation
from tests.sampling import sampled
from tests.validation.formats.tables import geographic, point, quakes, written

CONFIG = """\
kfm: 1
accept_weak_storage: true
datasets:
  quakes:
    version: "1.0.0"
    license: CC0-1.0
    title: Quakes
    sensitivity: public
    sources:
      week: {uri: week.parquet, format: parquet, contract: {columns: [{name: id, required: true}]}}
    outputs:
      week: {from: week}
"""
CONTRACT = DataContract(format="parquet", columns=(Column(name="id", required=True),), max_held_share=1)
GOOD = written(quakes())


def bomb() -> bytes:
    """Thirty million rows of one value in a few kilobytes."""
    table = pa.table({"id": pa.array(["x"] * 1_000_000).dictionary_encode()})
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, compression="zstd") as writer:
        for _ in range(30):
            writer.write_table(table)
    return out.getvalue()


def swollen() -> bytes:
    """A value of 200 megabytes in a few kilobytes: longer than the reader may hold here."""
    return written(pa.table({"id": pa.array(["x" * 200_000_000])}), compression="zstd", use_dictionary=False)


def wide() -> bytes:
    return written(pa.table({f"c{n}": pa.array([1]) for n in range(10_001)}))


def nested() -> bytes:
    kind: pa.DataType = pa.int8()
    for _ in range(60):
        kind = pa.list_(kind)
    return written(pa.table({"id": pa.array(["a"]), "deep": pa.nulls(1, kind)}))


def no_text() -> bytes:
    raw = pa.array([b"\xff\xfe", b"ok"])
    return written(pa.table({"id": raw.view(pa.string())}))


def lying_geo() -> bytes:
    return written(quakes().replace_schema_metadata({b"geo": b'{"columns": 1'}))


def footer_too_long() -> bytes:
    return GOOD[:-8] + struct.pack("<I", 0xFFFFFFF0) + b"PAR1"


HOSTILE = {
    "nothing": lambda: b"",
    "four letters": lambda: b"PAR1",
    "letters twice": lambda: b"PAR1PAR1",
    "no parquet": lambda: b"id,mag\na,1\n" * 100,
    "cut off": lambda: GOOD[:-5],
    "cut in the middle": lambda: GOOD[: len(GOOD) // 2],
    "beginning cut off": lambda: GOOD[100:],
    "footer too long": footer_too_long,
    "encrypted": lambda: GOOD[:-4] + b"PARE",
    "too wide": wide,
    "no text": no_text,
    "lying about geometries": lying_geo,
    "twice one name": lambda: written(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])),
}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def standing(site: Installation) -> list[tuple[str, str]]:
    refs = site.kfm("refs", "list", "--json").data
    return [(one["ref"], one["version"]) for one in refs if one["ref"].startswith(("processed/", "published/"))]


def test_one_clear_line_and_nothing_changed(place: Path) -> None:
    (place / "kfm.yml").write_text(CONFIG)
    (place / "week.parquet").write_bytes(GOOD)
    site = Installation(place)
    site.kfm("run")
    site.kfm("promote", "quakes")
    before = tree(place / "public")
    refs = standing(site)
    for kind in ("nothing", "cut off", "too wide"):
        (place / "week.parquet").write_bytes(HOSTILE[kind]())
        told = site.kfm("run", expect=3).err
        assert "source week (week.parquet) is held: " in told, kind
        assert "Traceback" not in told
        assert tree(place / "public") == before
        assert standing(site) == refs


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_cannot_be_read_is_held_for_a_reason(kind: str) -> None:
    """In this process: what crashes is no case of these."""
    found = inspect(lambda: io.BytesIO(HOSTILE[kind]()), CONTRACT, "week", lambda _: None, lambda _: None)
    assert found.held and found.cause is not None
    assert found.cause.rule in ("parquet.unreadable", "parquet.columns", "geo.metadata")


def look(body: bytes) -> Inspection:
    return sandbox.inspect_apart(io.BytesIO, lambda: io.BytesIO(body), CONTRACT, "week", lambda _: None, lambda _: None)


def test_what_takes_too_much_time_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    found = look(bomb())
    assert found.held and found.cause is not None
    assert found.cause.rule == "parquet.limits"
    assert "more time" in found.cause.message or "time or memory" in found.cause.message  # as it was stopped


def test_what_takes_too_much_memory_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MEMORY", 256 << 20)
    found = look(swollen())
    assert found.held and found.cause is not None
    assert found.cause.rule == "parquet.limits"
    assert "memory" in found.cause.message


def test_lists_in_lists_are_read_or_held() -> None:
    assert look(nested()).rows in (0, 1)


@pytest.mark.parametrize("seed", sampled(range(100)))
def test_spoilt_bytes_never_end_in_anything_but_an_answer(seed: int) -> None:
    """Every answer is held, or the rows are there; whatever the library does over it. A byte of a value or of a
    statistic may make another file that is as good."""
    pick = random.Random(seed)
    small = written(quakes().slice(0, 50))
    for _ in range(4):
        body = bytearray(small)
        for _ in range(pick.choice((1, 3, 20))):
            body[pick.randrange(4, len(body) - 8)] = pick.randrange(256)
        found = look(bytes(body))
        assert found.held or found.rows == 50


def test_a_spoilt_page_of_any_column_is_noticed() -> None:
    small = written(quakes().slice(0, 50))
    group = pq.read_metadata(io.BytesIO(small)).row_group(0)
    for at in range(group.num_columns):
        for start in (group.column(at).dictionary_page_offset, group.column(at).data_page_offset):
            body = small[:start] + b"\xff" * 8 + small[start + 8 :]
            found = inspect(lambda body=body: io.BytesIO(body), CONTRACT, "week", lambda _: None, lambda _: None)
            assert found.held and found.cause is not None and found.cause.rule == "parquet.unreadable", (at, start)


def test_a_footer_is_read_as_far_as_it_can_be_believed() -> None:
    footer = footer_of(GOOD)
    assert footer is not None and footer.rows == quakes().num_rows and b"geo" in footer.metadata
    pick = random.Random(13)
    size = struct.unpack("<I", GOOD[-8:-4])[0]
    for _ in range(300):
        body = bytearray(GOOD[-size - 8 :])
        for _ in range(3):
            body[pick.randrange(len(body) - 8)] = pick.randrange(256)
        footer_of(bytes(body))
    for cut in range(0, size, 37):
        assert footer_of(GOOD[-size - 8 + cut : -8] + GOOD[-8:]) is None or cut == 0


def test_a_geometry_that_lies_about_its_size_is_none() -> None:
    for body in (
        b"",
        b"\x01",
        point(1, 2)[:-1],
        point(1, 2) + b"\0",
        struct.pack("<BII", 1, 2, 0xFFFFFFFF),
        struct.pack("<BII", 1, 3, 0xFFFFFFFF) + b"\0" * 64,
        struct.pack("<BII", 1, 7, 1) * 10_000,
        struct.pack("<BI", 1, 99) + b"\0" * 16,
        struct.pack("<BIdd", 1, 1, float("inf"), 0),
    ):
        with pytest.raises(NoGeometry):
            box_of(body)
    assert box_of(struct.pack("<BIdd", 1, 1, float("nan"), float("nan"))) is None
    assert box_of(struct.pack(">BIdd", 0, 1, 3, 4)) == (3, 4, 3, 4)
    assert box_of(struct.pack("<BII6d", 1, 1002, 2, 1, 2, 3, 4, 5, 6)) == (1, 2, 4, 5)


def test_geometries_that_cannot_be_read_are_held_as_rows() -> None:
    table = quakes().slice(0, 10)
    bodies = table.column("geometry").to_pylist()
    bodies[3] = b"\x01\x02"
    found = look(written(geographic(table.set_column(4, "geometry", pa.array(bodies)))))
    assert not found.held and found.held_rows == 1
    assert [(one.row, one.rule) for one in found.findings if one.row] == [(4, "geo.geometry")]
