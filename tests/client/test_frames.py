"""Data read as frames has the same values in every library, and nothing is lost."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import kfm
from kfm.errors import BadInput, Corrupt, Denied, Unavailable
from tests.abilities import lacking


def library(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        lacking(f"{name} is not installed")


def values(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of either library, with what is missing as None."""
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.astype(object).to_dict("records")
    return [{name: None if value is None or value != value else value for name, value in row.items()} for row in rows]


def both(found: Any, **how: bool) -> list[dict[str, Any]]:
    library("polars")
    library("pandas")
    first, second = values(found.polars(**how)), values(found.pandas(**how))
    assert first == second
    return first


def test_a_column_is_of_numbers_only_where_nothing_is_lost(shapes: kfm.Installation) -> None:
    big = "12345678901234567890"
    first = {"fips": "007", "count": 3, "share": 0.5, "word": "NA", "big": big}
    second = {"fips": "020", "count": None, "share": 1000.0, "word": None, "big": "1"}
    assert both(shapes.read("codes")) == [first, second]
    plain = both(shapes.read("codes"), text=True)
    assert plain == [
        {"fips": "007", "count": "3", "share": "0.5", "word": "NA", "big": big},
        {"fips": "020", "count": None, "share": "1e3", "word": None, "big": "1"},
    ]
    assert str(shapes.read("codes").pandas()["count"].dtype) == "Int64"


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1", "-2", "0"], [1, -2, 0]),
        (["1", "01"], ["1", "01"]),
        (["-0"], [-0.0]),
        (["+1"], ["+1"]),
        ([" 1"], [" 1"]),
        (["999999999999999999", "1"], [999999999999999999, 1]),
        (["9999999999999999999", "1"], ["9999999999999999999", "1"]),
        (["1", "2.5"], [1.0, 2.5]),
        (["1.", ".5"], ["1.", ".5"]),
        (["1e400"], ["1e400"]),
        (["nan", "inf"], ["nan", "inf"]),
        (["1,5"], ["1,5"]),
        (["٣"], ["٣"]),
        (["1_000"], ["1_000"]),
        (["true"], ["true"]),
        (["", "1"], [None, 1]),
        (["", ""], [None, None]),
        (["2026-01-01"], ["2026-01-01"]),
    ],
)
def test_what_counts_as_a_number(cells: list[str], wanted: list[object]) -> None:
    from kfm.app.data.frames import typed

    assert typed(cells, text=False) == wanted
    assert typed(cells, text=True) == [cell or None for cell in cells]


def test_several_entries_are_one_frame(gauges: kfm.Installation) -> None:
    gauges.run()
    found = both(gauges.read("rain-gauges"))
    assert [(row["county"], row["rain_mm"]) for row in found] == [
        ("ellis", 19.1), ("ellis", 11.3), ("ellis", 12.7), ("ford", 22.4), ("ford", 9.8), ("ford", 14.2),
        ("ford", 18.9), ("riley", 41.2), ("riley", 24.9), ("riley", 21.6), ("riley", 27.3),
    ]  # fmt: skip


def test_records_of_json_are_rows(shapes: kfm.Installation) -> None:
    assert both(shapes.read("lines")) == [{"a": 1, "b": 2.5}, {"a": 2, "b": 3.0}]
    assert shapes.read("lines").rows() == [{"a": 1, "b": 2.5}, {"a": 2, "b": 3}]


def test_features_are_rows_and_shapes(shapes: kfm.Installation) -> None:
    point = {"type": "Point", "coordinates": [-99.33, 38.88]}
    rows = shapes.read("points").rows()
    assert rows[0] == {"name": "Hays", "people": 21116, "id": 1, "geometry": point}
    text = '{"coordinates":[-99.33,38.88],"type":"Point"}'
    assert [row["geometry"] for row in both(shapes.read("points"))] == [text, None]
    library("geopandas")
    frame = shapes.read("points").geopandas()
    assert frame.crs.to_epsg() == 4326 and list(frame["name"]) == ["Hays", "nowhere"]
    assert (frame.geometry[0].x, frame.geometry[0].y) == (-99.33, 38.88) and frame.geometry[1] is None


def test_a_table_can_be_a_dataset_of_xarray(shapes: kfm.Installation) -> None:
    library("xarray")
    found = shapes.read("codes").xarray()
    assert dict(found.sizes) == {"index": 2} and list(found["fips"].values) == ["007", "020"]


BINARY = """
from pathlib import Path
from kfm import Output, Plan, Step, Updater


class Whole(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("file:body")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output(read.bytes(0), {media!r})
"""


def whole(place: Path, body: bytes, media: str) -> kfm.Installation:
    """A dataset that is one file of this type."""
    (place / "body").write_bytes(body)
    (place / "whole.py").write_text(BINARY.replace("{media!r}", repr(media)))
    (place / "kfm.yml").write_text("datasets:\n  whole:\n    updater: whole.py:Whole\n")
    made = kfm.open(place)
    made.run()
    return made


def test_parquet_is_read_with_its_types(place: Path) -> None:
    pl = library("polars")
    frame = pl.DataFrame({"id": [1, 2], "name": ["a", None]})
    out = io.BytesIO()
    frame.write_parquet(out)
    made = whole(place, out.getvalue(), "application/vnd.apache.parquet")
    assert both(made.read("whole")) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}] == made.read("whole").rows()


def test_what_is_not_what_it_says_is_one_line_without_a_value_of_it(place: Path) -> None:
    library("polars")
    made = whole(place, b"PAR1 secret-of-the-file PAR1", "application/vnd.apache.parquet")
    found = made.read("whole")
    for read in (found.rows, found.polars, found.pandas):
        with pytest.raises(BadInput) as problem:
            read()
        assert "secret" not in str(problem.value) and problem.value.__suppress_context__
    assert found.bytes() == b"PAR1 secret-of-the-file PAR1"


def test_what_a_library_says_of_values_it_cannot_put_together_is_withheld(place: Path) -> None:
    pl = library("polars")
    with pytest.raises(Exception, match="secret-word"):  # it would quote it
        pl.Series("a", [1, "secret-word"], strict=True)
    found = whole(place, b'{"a":1}\n{"a":"secret-word"}\n', "application/x-ndjson").read("whole")
    with pytest.raises(BadInput) as problem:
        found.polars()
    assert "do not make one frame" in str(problem.value) and "secret" not in str(problem.value)
    assert found.rows() == [{"a": 1}, {"a": "secret-word"}]


@pytest.mark.parametrize("how", ["rows", "polars", "pandas", "geopandas", "xarray"])
def test_what_has_no_rows_is_refused(shapes: kfm.Installation, how: str) -> None:
    if how != "rows":
        library(how)
    with pytest.raises(BadInput, match="text/plain"):
        getattr(shapes.read("plain"), how)()
    assert shapes.read("plain").bytes() == b"only words"


def test_a_grid_without_an_engine_says_what_to_install(place: Path) -> None:
    xr = library("xarray")
    made = whole(place, b"CDF\x01", "application/netcdf")
    if {"h5netcdf", "scipy", "netcdf4"} & set(xr.backends.list_engines()):
        with pytest.raises(BadInput, match="as NetCDF"):
            made.read("whole").xarray()
    else:
        with pytest.raises(Unavailable, match="nothing to read NetCDF with"):
            made.read("whole").xarray()


@pytest.mark.parametrize("name", ["polars", "pandas", "geopandas", "xarray"])
def test_what_is_not_installed_is_named_with_what_to_install(
    shapes: kfm.Installation, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = shapes.read("points")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable) as problem:
        getattr(found, name)()
    assert str(problem.value) == (
        f"{name} is not installed, or does not work; pip install 'kansas-frontier-matrix[frames]'"
    )


def test_columns_that_differ_are_not_put_together(place: Path) -> None:
    (place / "made.py").write_text(
        "from kfm import Output, Plan, Step, Updater\n\n\n"
        "class Made(Updater):\n    version = '1.0.0'\n\n"
        "    def inputs(self, trigger, sources):\n        return []\n\n"
        "    def plan(self, inputs):\n        return Plan([Step(id=n, key=(n,)) for n in 'ab'])\n\n"
        "    def perform(self, step, read):\n        return Output.csv([{step.id: '1'}])\n"
    )
    (place / "kfm.yml").write_text("datasets:\n  made:\n    updater: made.py:Made\n")
    made = kfm.open(place)
    made.run()
    with pytest.raises(BadInput, match="name a key"):
        made.read("made").rows()
    with pytest.raises(BadInput, match="has 2 entries; name a key"):
        made.read("made").bytes()
    assert made.read("made", "a").rows() == [{"a": "1"}]


def test_of_what_is_damaged_no_frame_is_made(shapes: kfm.Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    library("polars")
    found = shapes.read("codes")
    for problem in (Corrupt("damaged"), Denied("no")):
        asked = []

        def fails(_self: object, digest: str, problem: Exception = problem, asked: list[str] = asked) -> bytes:
            asked.append(digest)
            raise problem

        monkeypatch.setattr("kfm.engine.protected.encrypted_objects.DecryptingObjects.read", fails)
        with pytest.raises(type(problem)):
            found.polars()
        assert asked


def test_a_geoparquet_that_was_held_against_its_contract_is_read_as_shapes(place: Path) -> None:
    gpd = library("geopandas")
    frame = gpd.GeoDataFrame(
        {"name": ["a", "b"]}, geometry=gpd.points_from_xy([-99.33, -97.3], [38.88, 37.7]), crs=4326
    )
    frame.to_parquet(place / "places.parquet")
    (place / "kfm.yml").write_text(
        "datasets:\n  places:\n    version: 1.0.0\n    sources:\n"
        "      places: {uri: places.parquet, format: parquet}\n    outputs:\n      places: {from: places}\n"
    )
    made = kfm.open(place)
    made.run()
    found = made.read("places").geopandas()
    assert list(found["name"]) == ["a", "b"] and found.crs.to_epsg() == 4326 and found.geometry[0].x == -99.33
    assert [row["name"] for row in made.read("places").rows()] == ["a", "b"]
