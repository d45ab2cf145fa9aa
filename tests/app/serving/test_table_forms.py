"""The rows of a version have the same values in every form that can hold them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from kfm.app.data import table_forms
from kfm.app.data.row_formats import FORMS
from kfm.app.data.table_forms import Table, forms_of, table_of, written
from kfm.app.data.version_reader import Selection
from kfm.errors import BadInput
from kfm.model.records import ManifestEntry
from kfm.parsing.wkb import as_geojson, of_geojson

TEXT = st.text(st.sampled_from("aZ09 .,;\"'\n\t\\=-+\u00e4\u6c34\u2603\U0001f600\u2028"), max_size=12)
WHOLE = st.integers(-(2**53), 2**53)
REAL = st.floats(allow_nan=False, allow_infinity=False)
EAST, NORTH = st.floats(-180, 180), st.floats(-90, 90)
POSITION = st.tuples(EAST, NORTH).map(list)
PLACE = st.one_of(
    st.none(),
    POSITION.map(lambda at: {"type": "Point", "coordinates": at}),
    st.tuples(EAST, NORTH, REAL).map(lambda at: {"type": "Point", "coordinates": list(at)}),
    st.lists(POSITION, min_size=2, max_size=4).map(lambda line: {"type": "LineString", "coordinates": line}),
)
NAMES = ("a", "b c", 'say "x"', "ä水")
COLUMNS = (TEXT, WHOLE, REAL, st.booleans(), st.lists(WHOLE, max_size=2), st.dictionaries(TEXT, TEXT, max_size=2))


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows with columns of one type each, in which any value may be missing."""
    kinds = {name: draw(st.sampled_from(COLUMNS)) for name in NAMES[: draw(st.integers(1, len(NAMES)))]}
    count = draw(st.integers(1, 5))
    return [{name: draw(st.none() | kind) for name, kind in kinds.items()} for _ in range(count)]


def read(kind: str, *bodies: bytes, plain: bool = True) -> Table:
    """The rows of a version with these files."""
    entries = tuple(ManifestEntry((str(n),), f"sha256:{n:064}", len(body), kind) for n, body in enumerate(bodies))
    stored = {entry.digest: body for entry, body in zip(entries, bodies, strict=True)}
    found = Selection("wells", "", "sha256:" + "1" * 64, entries)
    return table_of(lambda _found, entry: stored[entry.digest], found, with_coordinates=plain)


def cells(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode(), newline="")))


def as_cell(value: Any) -> str:
    """What a cell says, written apart from the product."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value).lower() if isinstance(value, bool) else repr(value)


def same(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> None:
    assert len(one) == len(other)
    for mine, yours in zip(one, other, strict=True):
        assert mine == yours
        assert [type(each) for each in mine.values()] == [type(each) for each in yours.values()]


@settings(max_examples=30, deadline=None)
@given(records())
def test_records_of_json_are_the_same_in_every_form(rows: list[dict[str, Any]]) -> None:
    body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    table = read("application/x-ndjson", body)
    assert forms_of(table) == ("csv", "ndjson", "parquet")
    same([json.loads(line) for line in written(table, "ndjson").splitlines()], rows)
    assert cells(written(table, "csv")) == [{name: as_cell(value) for name, value in row.items()} for row in rows]
    back = parquet.read_table(io.BytesIO(written(table, "parquet"))).to_pylist()
    nested = {name for row in rows for name, value in row.items() if isinstance(value, dict | list)}
    found = [{n: json.loads(v) if n in nested and v is not None else v for n, v in row.items()} for row in back]
    same(found, rows)


@settings(max_examples=30, deadline=None)
@given(records(), st.lists(PLACE, min_size=5, max_size=5))
def test_features_are_the_same_in_every_form(rows: list[dict[str, Any]], places: list[Any]) -> None:
    features = [
        {"type": "Feature", "id": f"i{n}", "geometry": place, "properties": row}
        for n, (row, place) in enumerate(zip(rows, places, strict=False))
    ]
    body = json.dumps({"type": "FeatureCollection", "features": features}).encode()
    table = read("application/geo+json", body, body)
    assert json.loads(written(table, "geojson"))["features"] == features * 2
    flat = [{**row, "id": f"i{n}", "geometry": places[n]} for n, row in enumerate(rows)] * 2
    assert [json.loads(line) for line in written(table, "ndjson").splitlines()] == flat
    assert [json.loads(each["geometry"] or "null") for each in cells(written(table, "csv"))] == places[: len(rows)] * 2
    made = parquet.read_table(io.BytesIO(written(table, "parquet")))
    bodies = made.column("geometry").to_pylist()
    assert [None if each is None else as_geojson(each) for each in bodies] == places[: len(rows)] * 2
    assert json.loads(made.schema.metadata[b"geo"])["columns"]["geometry"]["encoding"] == "WKB"


NUMBER = st.one_of(WHOLE.map(str), REAL.map(repr), st.decimals(allow_nan=False, allow_infinity=False).map(str))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(TEXT, NUMBER | st.just("")), min_size=1, max_size=5))
def test_cells_of_a_table_stay_as_they_are_or_become_numbers_that_lose_nothing(rows: list[tuple[str, str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([("note", "n"), *rows])
    table = read("text/csv", out.getvalue().encode(), out.getvalue().encode())
    assert [(each["note"], each["n"]) for each in cells(written(table, "csv"))] == rows * 2
    from decimal import Decimal

    for form in ("ndjson", "parquet"):
        body = written(table, form)
        back = (
            parquet.read_table(io.BytesIO(body)).to_pylist()
            if form == "parquet"
            else [*map(json.loads, body.splitlines())]
        )
        for each, (_, text) in zip(back, rows * 2, strict=True):
            value = each["n"]
            assert (value is None) == (not text)
            assert not text or value == text or Decimal(repr(value)) == Decimal(text), (form, value, text)


def test_digits_that_a_float_cannot_hold_stay_text() -> None:
    table = read("text/csv", b"n,m\n0.12345678901234567,0.10000000000000001\n1.5,0.10000000000000000\n")
    assert table.values == {"n": ["0.12345678901234567", "1.5"], "m": ["0.10000000000000001", "0.10000000000000000"]}
    assert read("text/csv", b"m\n0.10000000000000000\n").values == {"m": [0.1]}


def test_columns_of_coordinates_become_points_of_public_data_alone() -> None:
    body = b"name,Latitude,Longitude\na,38.5,-98.25\nb,,\nc,95,10\nd,0,0\n"
    features = json.loads(written(read("text/csv", body), "geojson"))["features"]
    assert [each["geometry"] and each["geometry"]["coordinates"] for each in features] == [
        [-98.25, 38.5],
        None,
        None,
        [0, 0],
    ]
    assert features[0]["properties"] == {"name": "a", "Latitude": 38.5, "Longitude": -98.25}
    assert "geojson" not in forms_of(read("text/csv", body, plain=False))
    assert (
        "geometry"
        not in parquet.read_table(io.BytesIO(written(read("text/csv", body, plain=False), "parquet"))).schema.names
    )


def test_parquet_keeps_its_types_and_its_places() -> None:
    import datetime
    import decimal

    when = datetime.datetime(2020, 2, 29, 12, 30, tzinfo=datetime.UTC)
    rows = {
        "n": [2**62 + 1, None], "x": [math.nan, -0.0], "day": [when.date(), None], "at": [when, None],
        "price": [decimal.Decimal("0.10"), None], "blob": [b"\x00\xff", None], "of": [{"a": [1]}, None],
        "place": [of_geojson({"type": "Point", "coordinates": [-98.1, 38.2]}), None],
    }  # fmt: skip
    geo = {
        "primary_column": "place",
        "columns": {"place": {"encoding": "WKB", "geometry_types": [], "bbox": [0, 0, 1, 1]}},
    }
    table = pyarrow.table(rows).replace_schema_metadata({"geo": json.dumps(geo)})
    out = io.BytesIO()
    parquet.write_table(table, out)
    found = read("application/vnd.apache.parquet", out.getvalue(), out.getvalue())
    assert forms_of(found) == FORMS
    back = parquet.read_table(io.BytesIO(written(found, "parquet")))
    assert back.schema.equals(table.schema) and back.num_rows == 4
    assert "bbox" not in json.loads(back.schema.metadata[b"geo"])["columns"]["place"]
    first, second, *_ = json.loads(written(found, "geojson"))["features"]
    assert first["geometry"] == {"type": "Point", "coordinates": [-98.1, 38.2]} and second["geometry"] is None
    assert first["properties"] == {
        "n": 2**62 + 1, "x": None, "day": "2020-02-29", "at": "2020-02-29T12:30:00+00:00", "price": 0.1, "blob": "AP8=",
        "of": {"a": [1]},
    }  # fmt: skip
    one = cells(written(found, "csv"))[0]
    assert (one["x"], one["price"], one["of"], one["n"]) == ("NaN", "0.10", '{"a":[1]}', str(2**62 + 1))


def test_what_a_form_cannot_hold_exactly_is_not_offered() -> None:
    mixed = b'{"a":1}\n{"a":"x"}\n'
    assert forms_of(read("application/x-ndjson", mixed)) == ("csv", "ndjson")
    heights = [{"type": "LineString", "coordinates": [[0, 0, 1], [1, 1]]}]
    features = [{"type": "Feature", "geometry": each, "properties": {"a": 1}} for each in heights]
    body = json.dumps({"type": "FeatureCollection", "features": features}).encode()
    assert forms_of(read("application/geo+json", body)) == ("csv", "geojson", "ndjson")
    utm = {
        "primary_column": "g",
        "columns": {"g": {"encoding": "WKB", "crs": {"id": {"authority": "EPSG", "code": 26914}}}},
    }
    table = pyarrow.table({"g": [of_geojson({"type": "Point", "coordinates": [500000, 4000000]})]})
    out = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({"geo": json.dumps(utm)}), out)
    assert forms_of(read("application/vnd.apache.parquet", out.getvalue())) == ("csv", "ndjson", "parquet")


def test_an_empty_text_is_not_a_missing_value_and_a_lone_column_loses_no_row() -> None:
    table = read("application/x-ndjson", b'{"a":"","b":null}\n{"a":"x","b":1}\n')
    assert written(table, "csv") == b'a,b\n"",\nx,1\n'
    assert written(read("application/x-ndjson", b'{"a":null}\n{"a":"x"}\n'), "csv") == b'a\n""\nx\n'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/csv", b"a,b\n1\n"),
        ("text/csv", b"a,a\n1,2\n"),
        ("application/geo+json", b"[1, 2]"),
        ("application/x-ndjson", b"{"),
        ("application/vnd.apache.parquet", b"PAR1 no"),
        ("image/png", b"x"),
    ],
)
def test_bytes_that_are_not_what_they_say_are_refused_without_a_word_of_them(kind: str, body: bytes) -> None:
    with pytest.raises(BadInput) as problem:
        read(kind, body)
    assert "PAR1" not in str(problem.value)


def test_a_table_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_forms, "MOST_CELLS", 3)
    assert read("text/csv", b"a,b\n1,2\n").rows == 1
    with pytest.raises(BadInput, match="more than 3 values"):
        read("text/csv", b"a,b\n1,2\n3,4\n")
    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": [1] * 4}), out)
    with pytest.raises(BadInput, match="too large"):
        read("application/vnd.apache.parquet", out.getvalue())
