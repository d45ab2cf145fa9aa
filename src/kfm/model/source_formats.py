"""The formats that a source may have, and which runner reads them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Format = Literal[
    "csv", "json", "ndjson", "geojson", "stac", "text", "bytes", "parquet",
    "geopackage", "shapefile", "flatgeobuf",
    "geotiff", "grib2", "netcdf", "zarr",
]  # fmt: skip
GRIDS: tuple[str, ...] = ("geotiff", "grib2", "netcdf", "zarr")  # they have no rows and are published whole
VECTORS: tuple[str, ...] = ("geopackage", "shapefile", "flatgeobuf")  # their accepted rows are stored as GeoParquet
COLUMNAR: tuple[str, ...] = ("parquet", *VECTORS)
# The kinds of files that KFM recognises by their first letters: lower case, without blanks.
KINDS: tuple[tuple[str, str], ...] = (
    ("an HTML page", "<!doctypehtml"), ("an HTML page", "<html"), ("an HTML page", "<head"), ("an HTML page", "<body"),
    ("an HTML page", "<script"), ("an HTML page", "<!--"), ("XML", "<?xml"),
    ("JSON", '{"'), ("JSON", "{}"), ("JSON", "[{"), ("JSON", '["'), ("JSON", "[]"), ("JSON", "[["),
    ("a PDF", "%pdf"), ("a ZIP archive", "pk\x03\x04"), ("a gzip file", "\x1f\x8b"), ("Parquet", "par1"),
    ("SQLite", "sqliteformat3"), ("FlatGeobuf", "fgb"), ("GRIB", "grib"), ("NetCDF", "cdf"), ("HDF5", "\x89hdf"),
    ("TIFF", "ii*\0"), ("TIFF", "ii+\0"), ("TIFF", "mm\0"), ("a picture", "\x89png"), ("a picture", "\xff\xd8\xff"),
    ("a picture", "gif8"),
)  # fmt: skip
# Settings of a source or contract, and formats, that the Node runner refuses.
PYTHON_ALONE = (
    "comment", "flatgeobuf", "geopackage", "geotiff", "grib2", "layer", "max_bytes", "member", "netcdf", "parquet",
    "shapefile", "skip_after_header", "skip_lines", "timeout_s", "total_s", "unpack", "zarr",
)  # fmt: skip
# Settings that may be absent: contracts without them keep the digests they had before these existed.
Some = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | msgspec.UnsetType
Sign = Annotated[str, msgspec.Meta(min_length=1, max_length=8)] | msgspec.UnsetType
Layer = Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | msgspec.UnsetType
