"""The formats that a source may have, and who reads them."""

from __future__ import annotations

from typing import Literal

Format = Literal[
    "csv", "json", "ndjson", "geojson", "stac", "text", "bytes", "parquet",
    "geotiff", "grib2", "netcdf", "zarr",
]  # fmt: skip
GRIDS: tuple[str, ...] = ("geotiff", "grib2", "netcdf", "zarr")  # they have no rows, and are published whole
# Settings of a source or contract, and formats: the Node runner refuses them.
PYTHON_ALONE = (
    "comment", "geotiff", "grib2", "member", "netcdf", "parquet", "skip_after_header", "skip_lines", "unpack", "zarr",
)  # fmt: skip
