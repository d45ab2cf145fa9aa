"""Parquet and GeoParquet from source to public file: checked, published whole, changed, taken back."""

from __future__ import annotations

import io
import json
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kfm.model.format_rules import expecting
from kfm.model.records import Column, DataContract
from kfm.model.transform_config import Expected
from kfm.parsing import arrow
from kfm.validation import parquet
from kfm.validation.column_rules import ColumnCheck
from kfm.validation.source_check import Inspection, inspect
from tests.engine.installations import Installation, environment
from tests.node.sites import command
from tests.validation.formats.tables import geographic, point, quakes, read, written
from tests.validation.formats.test_both_engines import COLUMNS

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
        uri: week.parquet
        format: parquet
        expect: {crs: "EPSG:4326", bbox: [-180, -90, 180, 90]}
        contract:
          columns:
            - {name: id, required: true, unique: true, mode: discard-row}
            - {name: mag, type: number, minimum: -3, maximum: 10, mode: discard-row}
            - {name: time, type: datetime, required: true}
    outputs:
      week: {from: week}
"""
QUAKES = quakes()


@pytest.fixture
def site(place: Path) -> Installation:
    (place / "kfm.yml").write_text(CONFIG)
    put(place, QUAKES)
    return Installation(place)


def put(place: Path, table: pa.Table | bytes) -> bytes:
    body = table if isinstance(table, bytes) else written(table)
    (place / "week.parquet").write_bytes(body)
    return body


def change(site: Installation, before: str, after: str) -> None:
    path = site.folder / "kfm.yml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def replaced(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    values = table.column(at).to_pylist()
    values[row] = value
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(values, field.type))


def public(site: Installation) -> bytes:
    (file,) = site.folder.glob("public/datasets/quakes/versions/*/week.parquet")
    return file.read_bytes()


def test_a_file_that_fits_is_published_byte_for_byte(site: Installation) -> None:
    body = (site.folder / "week.parquet").read_bytes()
    (receipt,) = site.kfm("run", "--json").data["receipts"]
    assert receipt["rows"] == QUAKES.num_rows
    site.kfm("promote", "quakes")
    assert public(site) == body


def test_the_catalog_says_where_it_lies(site: Installation) -> None:
    site.kfm("run")
    site.kfm("promote", "quakes")
    (item,) = [json.loads(path.read_text()) for path in site.folder.glob("catalog/**/items/*.json")]
    geo = json.loads(QUAKES.schema.metadata[b"geo"])
    assert item["bbox"] == geo["columns"]["geometry"]["bbox"]


def test_a_change_is_a_version_and_can_be_taken_back(site: Installation) -> None:
    site.kfm("run")
    site.kfm("promote", "quakes")
    first = public(site)
    put(site.folder, QUAKES.slice(1))
    site.kfm("run")
    site.kfm("promote", "quakes")
    current = json.loads((site.folder / "public/datasets/quakes/current.json").read_text())
    site.kfm("rollback", "quakes", "--reason", "the first row was right")
    back = json.loads((site.folder / "public/datasets/quakes/current.json").read_text())
    assert back["version"] != current["version"]
    files = [path.read_bytes() for path in site.folder.glob("public/datasets/quakes/versions/*/week.parquet")]
    assert first in files


def test_the_same_file_again_is_nothing_to_do(site: Installation) -> None:
    site.kfm("run")
    assert site.kfm("run", "--exit-code", expect=10).out.count("noop") == 1


def test_rows_that_break_a_rule_are_held_and_the_others_pass(site: Installation) -> None:
    bad = replaced(replaced(QUAKES, "mag", 2, 11.5), "id", 5, None)
    bad = replaced(bad, "geometry", 7, point(200, 0))
    bad = replaced(bad, "id", 9, bad.column("id")[8].as_py())
    put(site.folder, bad)
    site.kfm("run")
    told = site.kfm("held", "quakes", "--json").data
    rules = {(one["column"], one["rule"]) for one in told["sources"][0]["findings"] if one["held"]}
    assert rules == {("mag", "maximum"), ("id", "required"), ("geometry", "geo.range"), ("id", "unique")}
    site.kfm("promote", "quakes")
    kept = [at for at in range(bad.num_rows) if at not in (2, 5, 7, 9)]
    found = read(public(site))
    assert found.equals(bad.take(kept))
    assert "bbox" not in json.loads(found.schema.metadata[b"geo"])["columns"]["geometry"]


def test_too_many_held_rows_hold_the_source(site: Installation) -> None:
    mags = pc.if_else(pa.array([at % 4 == 0 for at in range(QUAKES.num_rows)]), pa.scalar(99.0), QUAKES.column("mag"))
    put(site.folder, QUAKES.set_column(1, "mag", mags))
    assert "more than max_held_share allows" in site.kfm("run", expect=3).err


def test_a_file_that_lost_a_fifth_is_held(site: Installation) -> None:
    site.kfm("run")
    put(site.folder, QUAKES.slice(0, QUAKES.num_rows // 2))
    assert "rows.shrunk" in site.kfm("run", expect=3).err


def look(table: pa.Table, contract: DataContract) -> Inspection:
    """In this process; tests/validation/formats/test_hostile_parquet.py shows that it is done in another one."""
    body = written(table)
    return inspect(lambda: io.BytesIO(body), contract, "week", lambda _: None, lambda _: None)


@pytest.mark.parametrize("value", ["1.5", [1.5], b"1.5"])
def test_a_column_of_another_type_holds_the_source(value: Any) -> None:
    contract = DataContract(format="parquet", columns=(Column(name="mag", type="number", mode="discard-row"),))
    found = look(pa.table({"mag": [value] * 3}), contract)
    assert found.held and found.cause is not None
    assert (found.cause.rule, found.cause.column) == ("type", "mag")
    assert found.cause.message.endswith("and number in the contract; the source is held")


def test_a_column_that_is_not_there_holds_the_source() -> None:
    contract = DataContract(format="parquet", columns=(Column(name="time", type="datetime", required=True),))
    found = look(QUAKES.drop_columns(["time"]), contract)
    assert found.cause is not None and found.cause.rule == "column.missing"


VALUES: dict[str, tuple[pa.Array, Column, list[int]]] = {
    "NaN": (pa.array([1.0, float("nan"), None]), Column(name="x", type="number"), [2]),
    "NaN that is named": (pa.array([1.0, float("nan")]), Column(name="x", type="number", missing=("NaN",)), []),
    "infinite": (pa.array([1.0, float("inf"), float("-inf")]), Column(name="x", type="number"), [2, 3]),
    "whole numbers": (pa.array([1.0, 2.5, -0.0]), Column(name="x", type="integer"), [2]),
    "past 2^53": (pa.array([2**60, 5]), Column(name="x", type="integer", maximum=10), [1]),
    "past 2^53, by its text": (pa.array([2**60, 5]), Column(name="x", type="integer", values=("5",)), [1]),
    "required": (pa.array(["a", None, " ", "", "\u2003"]), Column(name="x", required=True), [2, 3, 4, 5]),
    "pattern": (pa.array(["KS", "ks", None]), Column(name="x", pattern="[A-Z]{2}"), [2]),
    "as a dictionary": (pa.array(["KS", "ks"]).dictionary_encode(), Column(name="x", pattern="[A-Z]{2}"), [2]),
    "large text": (pa.array(["KS", "ks"], pa.large_string()), Column(name="x", values=("KS",)), [2]),
    "date as text": (pa.array(["2026-01-31", "2026-02-31"]), Column(name="x", type="date"), [2]),
    "date": (pa.array([0, 3_000_000], pa.date32()), Column(name="x", type="date"), [2]),
    "moment": (pa.array([0, 1 << 62], pa.timestamp("ms", "UTC")), Column(name="x", type="datetime"), [2]),
    "decimal": (
        pa.array([1, 3], pa.int64()).cast(pa.decimal128(21, 2)),
        Column(name="x", type="number", maximum=2),
        [2],
    ),
    "truth": (pa.array([True, None]), Column(name="x", type="boolean", required=True), [2]),
    "nothing at all": (pa.nulls(2), Column(name="x", type="date", required=True), [1, 2]),
    "unique": (pa.array([2**60, 7, 7, None, None, 2**60]), Column(name="x", type="integer", unique=True), [3, 6]),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_are_held_against_the_rules_of_their_column(case: str) -> None:
    column, said, wrong = VALUES[case]
    said = msgspec.structs.replace(said, mode="discard-row")
    contract = DataContract(format="parquet", columns=(said,), max_held_share=1, allow_empty=True)
    found = look(pa.table({"x": column}), contract)
    assert [one.row for one in found.findings if one.row] == wrong
    assert found.held_rows == len(wrong) and not found.held


def test_a_value_that_is_discarded_is_null() -> None:
    said = Column(name="x", type="number", maximum=2, mode="discard-value")
    pieces: list[bytes] = []
    body = written(pa.table({"x": [1.0, 3.0], "y": ["a", "b"]}))
    contract = DataContract(format="parquet", columns=(said,))
    assert inspect(lambda: io.BytesIO(body), contract, "week", pieces.append, lambda _: None).changed
    assert read(b"".join(pieces)).to_pylist() == [{"x": 1.0, "y": "a"}, {"x": None, "y": "b"}]


def test_partitions_are_texts() -> None:
    contract = DataContract(format="parquet", partition_by="day")
    found = look(pa.table({"day": pa.array([0, 1, None], pa.date32())}), contract)
    assert found.partitions == ("1970-01-01", "1970-01-02")


@pytest.mark.parametrize(
    ("crs", "told"),
    [({"id": {"authority": "EPSG", "code": 3857}}, "EPSG:3857"), (None, "does not say its system by code")],
)
def test_another_coordinate_system_holds_the_source(crs: Any, told: str) -> None:
    contract = expecting(DataContract(format="parquet"), Expected(crs="EPSG:4326"))
    found = look(geographic(QUAKES, crs=crs), contract)
    assert found.cause is not None and found.cause.rule == "geo.crs" and told in found.cause.message
    assert not look(QUAKES, contract).held
    found = look(QUAKES.replace_schema_metadata(None), contract)
    assert found.cause is not None and found.cause.rule == "geo.missing"


def test_positions_outside_of_the_box_that_is_expected_are_held(site: Installation) -> None:
    change(site, "[-180, -90, 180, 90]", "[-180, -90, 180, 62]")
    change(site, "contract:\n", "contract:\n          max_held_share: 1\n")
    site.kfm("run")
    site.kfm("promote", "quakes")
    inside = []
    for at, body in enumerate(QUAKES.column("geometry").to_pylist()):
        x, y = struct.unpack("<5xdd", body)
        if -180 <= x <= 180 and -90 <= y <= 62:
            inside.append(at)
    assert 0 < len(inside) < QUAKES.num_rows
    assert read(public(site)).equals(QUAKES.take(inside))


def test_a_dry_run_reads_it_and_writes_nothing(site: Installation) -> None:
    before = sorted(path.name for path in site.folder.iterdir())
    site.kfm("run", "--dry-run")
    assert sorted(path.name for path in site.folder.iterdir()) == before


def test_what_is_dropped_is_gone(site: Installation) -> None:
    change(site, "contract:\n", "contract:\n          other_columns: discard-value\n")
    site.kfm("run")
    site.kfm("promote", "quakes")
    assert read(public(site)).schema.names == ["id", "mag", "time", "geometry"]


def test_expectations_without_a_meaning_are_refused_at_their_place(site: Installation) -> None:
    change(site, "EPSG:4326", "WGS 84")
    told = site.kfm("run", expect=3).err
    assert "expect.crs" in told and "is not an authority and a code" in told
    change(site, "WGS 84", "EPSG:4326")
    change(site, "format: parquet", "format: csv")
    assert "has no meaning for this format" in site.kfm("run", expect=3).err


def test_without_its_library_it_is_said_what_to_install(site: Installation) -> None:
    (site.folder / "pyarrow").mkdir()
    (site.folder / "pyarrow/__init__.py").write_text("raise ModuleNotFoundError('pyarrow')")
    told = site.kfm("run", expect=69, env={"PYTHONPATH": str(site.folder)}).err
    assert "Parquet needs a library that is not installed" in told and "[parquet]" in told


def test_the_other_runner_says_that_it_does_not_read_it(site: Installation) -> None:
    told = subprocess.run(
        command("node", "run"), cwd=site.folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert told.returncode == 3
    assert "dataset quakes has a source with parquet, and this runner reads none; run it with" in told.stderr


def test_declared_steps_make_parquet_of_parquet(site: Installation) -> None:
    (site.folder / "nets.csv").write_text("code,network\nus,Global\nnc,California\n")
    change(site, "    outputs:\n      week: {from: week}\n", STEPS)
    site.kfm("run")
    site.kfm("promote", "quakes")
    found = read(public(site))
    strong = QUAKES.filter(pc.and_(pc.greater_equal(QUAKES.column("mag"), 4.5), pc.equal(QUAKES.column("net"), "us")))
    strong = strong.take(pc.sort_indices(strong, sort_keys=[("mag", "descending"), ("id", "ascending")]))
    assert 0 < strong.num_rows < QUAKES.num_rows
    assert found.column("id").to_pylist() == strong.column("id").to_pylist()
    assert found.schema.names == ["id", "magnitude", "geometry", "network"]
    assert set(found.column("network").to_pylist()) == {"Global"}
    assert site.kfm("run", "--exit-code", expect=10).out.count("noop") == 1


STEPS = """\
      nets: {uri: nets.csv, format: csv, contract: {columns: [{name: code}, {name: network}]}}
    outputs:
      week:
        from: week
        steps:
          - filter: {column: mag, at_least: 4.5}
          - sort: [{column: mag, descending: true}, id]
          - join: {source: nets, on: {net: code}, add: [network], missing: drop}
          - filter: {column: net, equals: us}
          - select: [id, mag, geometry, network]
          - rename: {mag: magnitude}
"""


RULES: list[dict[str, Any]] = [
    {"type": "number", "minimum": -1, "maximum": 7},
    {"type": "number", "required": True},
    {"type": "integer", "maximum": 2.5, "required": True},
    {"type": "integer"},
    {"type": "number", "missing": ["NaN", "7"]},
    {"type": "text", "pattern": "[a-z]", "required": True},
    {"type": "text", "values": ["a", "10"]},
    {"type": "date"},
    {"type": "boolean", "required": True},
]


def test_what_is_asked_of_distinct_and_doubtful_values_alone_is_what_all_would_answer() -> None:
    pick = random.Random(11)
    found = 0
    for _ in range(300):
        name = pick.choice(sorted(COLUMNS))
        values, kind = COLUMNS[name]
        column = arrow.plain(pa.array([pick.choice(values) for _ in range(pick.choice((0, 1, 30)))], kind))
        said = msgspec.convert({"name": name, "mode": "discard-row", **pick.choice(RULES)}, Column)
        if arrow.family(column.type) not in parquet._FITS[said.type]:
            continue
        check = ColumnCheck(said)
        wanted = list(parquet._singly(check, column))
        assert list(parquet._rules(check, column)) == wanted, (said, column)
        found += bool(wanted)
    assert found > 20
