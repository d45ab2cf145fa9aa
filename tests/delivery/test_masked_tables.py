"""The facts of a masked file come from its own bytes, in every format that an output can have."""

from __future__ import annotations

import io
import json
from typing import Any, BinaryIO

import pytest

from kfm.delivery.masked_tables import NOTHING, box_around, table_facts
from kfm.errors import Corrupt
from kfm.masking.cells import shape_of
from tests.sources.memory_objects import MemoryObjects

CELLS = ["8626e001fffffff", "8626e0457ffffff", "8326f1fffffffff"]
ROWS: list[dict[str, Any]] = [{"id": f"{n:032x}", "kind": "camp", "cell": CELLS[n % 3]} for n in range(6)]
COLUMNS = ("id", "kind", "cell")


def facts(body: bytes, media_type: str) -> Any:
    objects = MemoryObjects()
    return table_facts(objects, objects.put(body), media_type)


def parquet(rows: list[dict[str, Any]]) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as library

    out = io.BytesIO()
    library.write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()


def written(rows: list[dict[str, Any]], media_type: str) -> bytes:
    if media_type == "application/vnd.apache.parquet":
        return parquet(rows)
    if media_type == "application/geo+json":
        features = [{"type": "Feature", "id": row["id"], "geometry": None, "properties": row} for row in rows]
        return json.dumps({"type": "FeatureCollection", "features": features}).encode()
    if media_type == "application/json":
        return json.dumps(rows).encode()
    if media_type == "application/x-ndjson":
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return ("\n".join([",".join(COLUMNS), *(",".join(row.values()) for row in rows)]) + "\n").encode()


@pytest.mark.parametrize(
    "media_type",
    ["text/csv; charset=utf-8", "application/x-ndjson", "application/json", "application/geo+json",
     "application/vnd.apache.parquet"],
)  # fmt: skip
def test_columns_rows_and_the_box_of_the_cells_are_read_from_every_format(media_type: str) -> None:
    found = facts(written(ROWS, media_type), media_type)
    assert found.columns == COLUMNS and found.rows == 6
    assert found.bbox == box_around([shape_of(int(cell, 16)).bbox for cell in CELLS])


@pytest.mark.parametrize("media_type", ["text/csv", "application/x-ndjson"])
def test_a_count_below_the_smallest_k_is_not_stated(media_type: str) -> None:
    found = facts(written(ROWS[:4], media_type), media_type)
    assert found.rows is None and found.columns == COLUMNS and found.bbox


def test_only_cells_make_an_extent_and_no_other_number_does() -> None:
    assert facts(b"id,lat,lon,cell\na,38.1,-97.2,withheld\nb,38.2,-97.3,8fffffffffffffff\n", "text/csv").bbox == ()


@pytest.mark.parametrize(
    ("body", "media_type"),
    [(b"\xff\xfe\x00", "text/csv"), (b"[1]", "application/json"), (b"{", "application/geo+json"), (b"x", "image/png"),
     (b"PAR1", "application/vnd.apache.parquet"), (b"nonsense", "application/x-ndjson")],
)  # fmt: skip
def test_a_file_that_is_no_table_has_no_facts(body: bytes, media_type: str) -> None:
    assert facts(body, media_type) == NOTHING


class Damaged(MemoryObjects):
    def open(self, digest: str) -> BinaryIO:
        raise Corrupt(f"{digest} is gone")


def test_a_file_that_is_gone_has_no_facts() -> None:
    assert table_facts(Damaged(), "sha256:" + "0" * 64, "text/csv") == NOTHING
