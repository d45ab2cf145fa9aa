"""The formats that a source may have, and who reads them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Format = Literal[
    "csv", "json", "ndjson", "geojson", "stac", "text", "bytes", "parquet",
    "geopackage", "shapefile", "flatgeobuf",
    "geotiff", "grib2", "netcdf", "zarr",
]  # fmt: skip
GRIDS: tuple[str, ...] = ("geotiff", "grib2", "netcdf", "zarr")  # they have no rows, and are published whole
VECTORS: tuple[str, ...] = ("geopackage", "shapefile", "flatgeobuf")  # what passes of them is kept as GeoParquet
COLUMNAR: tuple[str, ...] = ("parquet", *VECTORS)
# Settings of a source or contract, and formats: the Node runner refuses them.
PYTHON_ALONE = (
    "comment", "flatgeobuf", "geopackage", "geotiff", "grib2", "layer", "member", "netcdf", "parquet", "shapefile",
    "skip_after_header", "skip_lines", "unpack", "zarr",
)  # fmt: skip
# Settings that may be absent, so that contracts without them have the digests they always had.
Some = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | msgspec.UnsetType
Sign = Annotated[str, msgspec.Meta(min_length=1, max_length=8)] | msgspec.UnsetType
Layer = Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | msgspec.UnsetType
