"""Tables of real things as Parquet, and what can be done to such a file."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

QUAKES = Path(__file__).resolve().parents[3] / "examples/kansas/data/usgs-all-week.geojson"


def point(x: float, y: float) -> bytes:
    return struct.pack("<BIdd", 1, 1, x, y)


def quakes() -> pa.Table:
    """The earthquakes of a week, as GeoParquet."""
    features = json.loads(QUAKES.read_text())["features"]
    table = pa.table(
        {
            "id": [one["id"] for one in features],
            "mag": pa.array([one["properties"]["mag"] for one in features], pa.float64()),
            "time": pa.array([one["properties"]["time"] for one in features], pa.timestamp("ms", "UTC")),
            "net": [one["properties"]["net"] for one in features],
            "geometry": [point(*one["geometry"]["coordinates"][:2]) for one in features],
        }
    )
    places = [one["geometry"]["coordinates"] for one in features]
    box = [min(p[0] for p in places), min(p[1] for p in places), max(p[0] for p in places), max(p[1] for p in places)]
    return geographic(table, bbox=box)


def geographic(table: pa.Table, **about: Any) -> pa.Table:
    column = {"encoding": "WKB", "geometry_types": ["Point"], **about}
    geo = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": column}}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"geo": json.dumps(geo).encode()})


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def read(body: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(body))
