"""Catalogs and pages describe public files as readers get them: columns, rows, units, extent, geometry and time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Kfm, kfm, plain_environment

__all__ = ["kfm", "plain_environment"]

CONFIG = """\
kfm: 1
accept_weak_storage: true
catalog: file:catalog
pages: true
datasets:
  one:
    version: 1.0.0
    title: One
    license: CC0-1.0
    sensitivity: public
    promote: auto
    sources:
      one: {uri: one.SUFFIX, format: FORM, contract: CONTRACT}
    outputs:
      all: {from: one, format: FORM}
"""
TABLE = "{columns: [{name: id}]}"


def published(kfm: Kfm, form: str, body: bytes, contract: str = TABLE) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Publish one file, and return its item, its collection and its page."""
    text = CONFIG.replace("FORM", form).replace("SUFFIX", form).replace("CONTRACT", contract)
    Path("kfm.yml").write_text(text)
    Path(f"one.{form}").write_bytes(body)
    done = kfm("run")
    assert done.code == 0, done
    assert kfm("catalog", "validate", "catalog").code == 0
    assert kfm("reconcile").code == 0
    item, collection = (
        json.loads(Path(f"catalog/one/{name}.json").read_text()) for name in ("items/all", "collection")
    )
    return item, collection, Path("public/datasets/one/index.html").read_text()


def features(many: int) -> bytes:
    said = [
        {
            "type": "Feature",
            "id": str(n),
            "properties": {"id": str(n), "mag": n / 2, "time": 1767225600000 + n * 86_400_000, "note": "x" * 80},
            "geometry": {"type": "Point", "coordinates": [-100 + n % 50 / 10, 37 + n % 20 / 10]},
        }
        for n in range(many)
    ]
    return json.dumps({"type": "FeatureCollection", "features": said}).encode()


@pytest.mark.parametrize("many", [10, pytest.param(8000, marks=pytest.mark.long)], ids=["small", "over a megabyte"])
def test_extent_geometry_and_time_of_geojson_reach_the_catalog(kfm: Kfm, many: int) -> None:
    item, collection, page = published(kfm, "geojson", features(many))
    box = [-100.0, 37.0, -99.1 if many == 10 else -95.1, 37.9 if many == 10 else 38.9]
    assert item["bbox"] == box and collection["extent"]["spatial"]["bbox"] == [box]
    first, last = collection["extent"]["temporal"]["interval"][0]
    assert first.startswith("2026-01-01T00:00:00") and last > first
    assert (item["properties"]["start_datetime"], item["properties"]["end_datetime"]) == (first, last)
    for said in (item["properties"], collection):
        columns = {each["name"]: each.get("type") for each in said["table:columns"]}
        assert columns == {"id": "string", "mag": "number", "note": "string", "time": "integer", "geometry": "Point"}
        assert (said["table:row_count"], said["table:primary_geometry"]) == (many, "geometry")
    assert f"<dt>Rows</dt><dd>{many:,}</dd>" in page and f"{many:,} places" in page


def test_columns_and_rows_of_tables_are_described(kfm: Kfm) -> None:
    item, collection, page = published(kfm, "csv", b"id,depth\n1,2\n2,3\n")
    assert item["properties"]["table:columns"] == [{"name": "id"}, {"name": "depth"}]
    assert collection["table:row_count"] == 2
    assert all(f'<th scope="row">{name}</th><td>integer</td>' in page for name in ("id", "depth"))
    (about,) = [each["description"] for each in dcat()["distribution"] if each.get("description")]
    assert about == "Columns: id, depth. 2 rows."
    item, collection, _ = published(
        kfm, "ndjson", b'{"id": "a", "n": 1}\n{"id": "b", "n": null}\n{"id": "c", "n": 2.5}\n'
    )
    assert item["properties"]["table:columns"] == [{"name": "id", "type": "string"}, {"name": "n", "type": "number"}]
    assert collection["table:row_count"] == 3


def dcat() -> dict[str, Any]:
    (found,) = json.loads(Path("catalog/catalog.jsonld").read_text())["dataset"]
    return dict(found)


def test_types_and_units_of_parquet_are_described(kfm: Kfm) -> None:
    import io

    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    fields = [pyarrow.field("id", pyarrow.string()), pyarrow.field("depth", pyarrow.float64(), metadata={"units": "m"})]
    out = io.BytesIO()
    parquet.write_table(pyarrow.table([["a", "b"], [1.0, 2.0]], schema=pyarrow.schema(fields)), out)
    item, _, page = published(kfm, "parquet", out.getvalue())
    assert item["properties"]["table:columns"] == [
        {"name": "id", "type": "string"}, {"name": "depth", "type": "double", "unit": "m"}
    ]  # fmt: skip
    assert '<th scope="row">depth</th><td>double</td><td>m</td>' in page
