"""Shapes of real things as GeoPackage, shapefile and FlatGeobuf, and what can be done to such files."""

from __future__ import annotations

import io
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyogrio import raw

from tests.validation.formats.tables import quakes

FORMATS = {"geopackage": "week.gpkg", "shapefile": "week.zip", "flatgeobuf": "week.fgb"}
DRIVERS = {"geopackage": "GPKG", "shapefile": "ESRI Shapefile", "flatgeobuf": "FlatGeobuf"}


def week(rows: int | None = None) -> pa.Table:
    """Earthquakes of a week: texts, numbers, moments, points. Names that fit into a .dbf."""
    table = quakes().replace_schema_metadata(None)
    return table if rows is None else table.slice(0, rows)


def shaped(form: str, table: pa.Table, crs: str = "EPSG:4326", kind: str = "Point", **options: Any) -> bytes:
    """The bytes of a source of this format. Without `crs` nobody says where it lies."""
    if form == "shapefile":  # it has no moments
        at = table.schema.get_field_index("time")
        if at >= 0 and pa.types.is_timestamp(table.schema.field(at).type):
            texts = [value.strftime("%Y-%m-%dT%H:%M:%SZ") for value in table.column(at).to_pylist()]
            table = table.set_column(at, "time", pa.array(texts))
        return zipped(parts(table, crs, kind, **options))
    return {"week." + FORMATS[form].partition(".")[2]: body for body in [_single(form, table, crs, kind, options)]}[
        FORMATS[form]
    ]


def _single(form: str, table: pa.Table, crs: str, kind: str, options: dict[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FORMATS[form]
        if form == "flatgeobuf":
            options.setdefault("SPATIAL_INDEX", "NO")  # which would sort the rows
        write_shapes(table, path, form, crs, kind, layer=options.pop("layer", "week"), **options)
        return path.read_bytes()


def parts(table: pa.Table, crs: str = "EPSG:4326", kind: str = "Point", **options: Any) -> dict[str, bytes]:
    """The files of a shapefile by their names."""
    with tempfile.TemporaryDirectory() as folder:
        write_shapes(table, Path(folder) / "week.shp", "shapefile", crs, kind, **options)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # a name twice
        for name, body in files.items():
            archive.writestr(zipfile.ZipInfo(name), body, method)
    return out.getvalue()


def write_shapes(
    table: pa.Table, path: Path, form: str, crs: str = "EPSG:4326", kind: str = "Point", **options: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw.write_arrow(
            table,
            str(path),
            driver=DRIVERS[form],
            geometry_type=kind,
            crs=crs or None,
            geometry_name="geometry" if "geometry" in table.schema.names else None,
            **options,
        )
