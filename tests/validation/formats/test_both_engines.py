"""Random tables through random steps: the engine of columns and the engine of records make the same of them.

A Parquet source is made Parquet by the one and NDJSON by the other; and the same rows, written as NDJSON by this test,
are made NDJSON as they always were. All three must be the same rows, or all be refused.
"""

from __future__ import annotations

import datetime
import io
import json
import math
import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from kfm.engine.step_reader import StepReader
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import DataContract, SourceRef, Step
from kfm.model.transform_config import OutputConfig
from kfm.updaters.transforms.transform_updater import DeclaredUpdater
from tests.sampling import sampled
from tests.validation.formats.tables import quakes, read, written

TEXTS = [None, "", " ", "\u2003", "a", "A", "b", "10", "9", " 5 ", "1e3", "true", "No", "\u00e9", "e\u0301",
         "\U0001f33e", "\ufb01", "x\ny", "9007199254740993", "-0", "1.50"]  # fmt: skip
FLOATS = [None, 0.0, -0.0, 1.0, 2.5, -3.25, 1e21, 1e-7, math.nan, math.inf, -math.inf, float(2**53)]
INTS = [None, 0, 1, -1, 7, 10, 2**53, -(2**53)]
DAYS = [
    None,
    datetime.date(1, 1, 1),
    datetime.date(1969, 12, 31),
    datetime.date(2026, 1, 31),
    datetime.date(9999, 12, 31),
]
UTC = datetime.UTC
TIMES = [
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
    datetime.datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
    datetime.datetime(2026, 3, 29, 1, 30, 0, 500_000, UTC),
]
COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "t": (TEXTS, pa.string()),
    "u": (TEXTS[4:9], pa.dictionary(pa.int32(), pa.string())),
    "f": (FLOATS, pa.float64()),
    "i": (INTS, pa.int64()),
    "b": ([None, True, False], pa.bool_()),
    "d": (DAYS, pa.date32()),
    "z": (TIMES, pa.timestamp("ms", "America/Chicago")),
    "w": (TIMES, pa.timestamp("us", "UTC")),
}
PLACES = [
    {"code": "a", "name": "one", "size": "1"},
    {"code": "10", "name": "", "size": "x"},
    {"code": "7", "name": "n", "size": "2"},
]


def table(pick: random.Random) -> pa.Table:
    names = pick.sample(sorted(COLUMNS), pick.randint(2, len(COLUMNS)))
    rows = pick.choice((0, 1, 5, 40))
    arrays = {}
    for name in names:
        values, kind = COLUMNS[name]
        arrays[name] = pa.array([pick.choice(values) for _ in range(rows)], kind)
    return pa.table(arrays)


def steps(pick: random.Random, names: list[str]) -> list[dict[str, Any]]:
    """Mostly of columns that are there."""
    found: list[dict[str, Any]] = []
    for _ in range(pick.randint(1, 4)):

        def some(there: tuple[str, ...] = tuple(names)) -> str:
            return pick.choice(there) if pick.random() < 0.97 else "nowhere"

        verb = pick.choice(("select", "rename", "cast", "cast", "filter", "filter", "sort", "deduplicate", "join"))
        if verb == "select":
            names = pick.sample(names, pick.randint(1, len(names)))
            found.append({"select": names})
        elif verb == "rename":
            old = some()
            found.append({"rename": {old: old + "2"}})
            names = [name + "2" if name == old else name for name in names]
        elif verb == "cast":
            casts = {some(): pick.choice(("text", "integer", "number", "boolean")) for _ in range(pick.randint(1, 2))}
            found.append({"cast": casts, "unfit": pick.choice(("refuse", "blank", "drop", "blank", "drop"))})
        elif verb == "filter":
            operand = pick.choice((0, 1, 2.5, -1, "a", "2026-01-31", True, "10"))
            condition = pick.choice(
                ("equals", "not_equals", "above", "below", "at_least", "at_most", "in", "matches", "blank")
            )
            if condition in ("above", "below", "at_least", "at_most") and operand is True:
                operand = 1
            said = {"in": [operand, "b"], "matches": "*1*", "blank": pick.random() < 0.5}.get(condition, operand)
            found.append({"filter": {"column": some(), condition: said}})
        elif verb == "sort":
            keys = [{"column": name, "descending": pick.random() < 0.5} for name in {some(), some()}]
            found.append({"sort": keys})
        elif verb == "deduplicate":
            found.append({"deduplicate": {"by": sorted({some(), some()}), "keep": pick.choice(("first", "last"))}})
        elif "name" not in names:
            missing = pick.choice(("keep", "keep", "drop", "refuse"))
            found.append({"join": {"source": "places", "on": {some(): "code"}, "add": ["name"], "missing": missing}})
            names = [*names, "name"]
    return found


def plain(value: Any) -> Any:
    """What a value of Parquet is to a step, said once more."""
    if type(value) is float:
        return None if not math.isfinite(value) else value + 0.0
    if type(value) is datetime.datetime:
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    if type(value) is datetime.date:
        return f"{value:%Y}".zfill(4) + f"-{value:%m-%d}"
    return value


def rows_of(found: pa.Table) -> list[bytes]:
    lines = []
    for row in found.to_pylist():
        told = {name: plain(value) for name, value in row.items()}
        for name, value in row.items():
            if type(value) is datetime.datetime and found.schema.field(name).type.unit == "us":
                told[name] = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lines.append(canonical(told))
    return lines


def made(body: bytes, source: str, said: list[dict[str, Any]], form: str, **more: Any) -> bytes:
    output = msgspec.convert({"from": "rows", "steps": said, "format": form, **more}, OutputConfig)
    places = "code,name,size\n" + "".join(f"{one['code']},{one['name']},{one['size']}\n" for one in PLACES)
    bodies = {"places": places.encode(), "rows": body}
    contracts = {"places": DataContract(format="csv"), "rows": DataContract(format=source)}  # type: ignore[arg-type]
    updater = DeclaredUpdater("case", "1.0.0", {"out": output}, contracts)
    objects = {digest(each): each for each in bodies.values()}
    used = sorted({"rows", *("places" for step in said if "join" in step)})
    inputs = [SourceRef(uri=name, name=name, content_hash=digest(bodies[name]), size=1) for name in used]
    world: Any = SimpleNamespace(
        objects=SimpleNamespace(open=lambda name: io.BytesIO(objects[name])),
        settings=SimpleNamespace(dry_run=True), datasets={}, scratch=io.BytesIO,
    )  # fmt: skip
    found = updater.perform(
        Step(id="out", key=("out",), params={"output": "out"}),
        StepReader(world, inputs, None, None),  # type: ignore[arg-type]
    ).body
    return found if isinstance(found, bytes) else b"".join(found)


def answer(*words: Any) -> list[bytes] | str:
    try:
        body = made(*words)
    except BadInput as problem:
        return str(problem)
    return rows_of(read(body)) if words[-1] == "parquet" else body.splitlines()


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_all_three_make_the_same(seed: int, count: Any) -> None:
    pick = random.Random(seed)
    refused = 0
    for _ in range(40):
        rows = table(pick)
        said = steps(pick, list(rows.schema.names))
        body = written(rows, row_group_size=pick.choice((3, 1000)))
        wanted = answer(b"".join(line + b"\n" for line in rows_of(rows)), "ndjson", said, "ndjson")
        columns = answer(body, "parquet", said, "parquet")
        records = answer(body, "parquet", said, "ndjson")
        refused += isinstance(wanted, str)
        told = (said, rows.to_pylist())
        if not rows.num_rows:  # without any record JSON has no columns, and nothing to refuse
            assert columns == [] or isinstance(columns, str), told
        elif isinstance(wanted, str):  # Parquet says that there is no such column before it looks at a row
            assert isinstance(columns, str) and isinstance(records, str), told
            assert "there is no column" in records or records == wanted, told
        else:
            assert records == wanted, told
            assert columns == wanted, told
    assert 0 < refused < 30
    count("tables through both engines", 40)


def test_the_same_rows_are_the_same_bytes_however_they_came_in() -> None:
    pick = random.Random(13)
    numbers = [pick.randrange(1000) for _ in range(150_000)]
    rows = pa.table({"i": numbers, "t": [pick.choice("abc") for _ in numbers]})
    said = [{"filter": {"column": "i", "at_least": 10}}]
    one = made(written(rows, row_group_size=7_000, compression="none"), "parquet", said, "parquet")
    other = made(written(rows, row_group_size=100_000, compression="zstd"), "parquet", said, "parquet")
    assert one == other
    assert read(one).equals(rows.filter(pa.compute.greater_equal(rows.column("i"), 10)))


def test_a_table_becomes_parquet_with_the_types_of_its_casts() -> None:
    body = b"id,n,x,ok,day\na,5,1.50,yes,2026-01-31\nb,,,no,\n"
    said = [{"cast": {"n": "integer", "x": "number", "ok": "boolean"}}]
    found = read(made(body, "csv", said, "parquet"))
    assert found.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.string()]
    assert found.to_pylist() == [
        {"id": "a", "n": 5, "x": 1.5, "ok": True, "day": "2026-01-31"},
        {"id": "b", "n": None, "x": None, "ok": False, "day": ""},
    ]


def test_what_no_step_can_look_at_is_carried_or_refused() -> None:
    rows = pa.table({"id": ["b", "a"], "raw": [b"\x01", b"\x02"], "many": [[1], [2]], "big": [2**60, 2**60 + 1]})
    body = written(rows)
    found = read(made(body, "parquet", [{"sort": ["id"]}], "parquet"))
    assert found.to_pylist() == rows.take([1, 0]).to_pylist()
    with pytest.raises(BadInput, match="column 'raw' has a type that no step can read"):
        made(body, "parquet", [{"sort": ["raw"]}], "parquet")
    with pytest.raises(BadInput, match="has no plain values"):
        made(body, "parquet", [], "ndjson")
    large = read(made(body, "parquet", [{"filter": {"column": "big", "above": 2**53}}, {"sort": ["big"]}], "parquet"))
    assert large.column("big").to_pylist() == [2**60, 2**60 + 1]


def test_geometries_are_kept_and_no_extent_is_written() -> None:
    found = read(made(written(quakes()), "parquet", [{"filter": {"column": "mag", "at_least": 4}}], "parquet"))
    assert 0 < found.num_rows < quakes().num_rows
    assert json.loads(found.schema.metadata[b"geo"])["columns"]["geometry"].get("bbox") is None
