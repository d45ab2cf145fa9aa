"""Rows as the bytes of an output. Equal rows give equal bytes: JSON is canonical, CSV as in model/csv_format.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import msgspec

from kfm.model.canonical import canonical
from kfm.model.csv_format import line_of
from kfm.updaters.transforms.json_rows import Properties, Row
from kfm.updaters.transforms.step_values import text_of
from kfm.updaters.transforms.table_steps import Rows
from kfm.updaters.transforms.transform_errors import no_feature

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "geojson": "application/geo+json",
    "parquet": "application/vnd.apache.parquet",
    "geotiff": "image/tiff; application=geotiff",
    "grib2": "application/wmo-GRIB2",
    "netcdf": "application/netcdf",
    "zarr": "application/vnd.zarr+zip",
    "geopackage": "application/geopackage+sqlite3",
    "flatgeobuf": "application/vnd.flatgeobuf",
    "shapefile": "application/vnd.shp+zip",  # QGIS and GDAL open such a file directly
}
# The bytes before, between and after the records.
_AROUND = {
    "json": (b"[", b",", b"]"),
    "ndjson": (b"", b"\n", b"\n"),
    "geojson": (b'{"features":[', b",", b'],"type":"FeatureCollection"}'),
}
_CHUNK = 1 << 16
_encode = msgspec.json.encode


def table_as_csv(names: Sequence[str], stream: Iterable[Rows]) -> Iterator[bytes]:
    yield (line_of(names) + "\n").encode()
    for rows in stream:
        yield ("\n".join(rows.lines(len(names))) + "\n").encode()


def table_as_json(names: Sequence[str], types: Sequence[str], stream: Iterable[Rows], format_: str) -> Iterator[bytes]:
    """Yield JSON: texts as strings, and columns that were cast as numbers or booleans, with blanks as null."""
    order = sorted(range(len(names)), key=lambda i: names[i].encode("utf-16-be"))
    heads = [("," if n else "{") + _encode(names[i]).decode() + ":" for n, i in enumerate(order)]
    shown = [partial(map, _string if types[i] == "text" else _token) for i in order]

    def records() -> Iterator[bytes]:
        for rows in stream:
            fields = [show(rows.column(i)) for show, i in zip(shown, order, strict=True)]
            for row in zip(*fields, strict=True):
                yield ("".join(map("".join, zip(heads, row, strict=True))) + "}").encode()

    return _records(records(), format_)


def _string(text: str) -> str:
    return _encode(text).decode()


def _token(text: str) -> str:
    return text or "null"


def records_as_csv(names: Sequence[str], stream: Iterable[tuple[int, Row]]) -> Iterator[bytes]:
    def lines() -> Iterator[bytes]:
        yield (line_of(names) + "\n").encode()
        for _, row in stream:
            yield (line_of([text_of(row.get(name)) for name in names]) + "\n").encode()

    return _gathered(lines())


def records_as_json(stream: Iterable[tuple[int, Row]], format_: str) -> Iterator[bytes]:
    return _records((canonical(row) for _, row in stream), format_)


def records_as_features(
    stream: Iterable[tuple[int, Row]], properties: Properties, output: str, source: str
) -> Iterator[bytes]:
    return _records((canonical(_feature(row, number, properties, output, source)) for number, row in stream), "geojson")


def _feature(row: Row, number: int, properties: Properties, output: str, source: str) -> Row:
    feature: Row = {"type": "Feature", "properties": {}}
    for column, value in row.items():
        if column not in properties.own:
            feature["properties"][properties.property(column)] = value
        elif value is not None or column == "geometry":
            feature[column] = value
    if flaw := _flaw(feature):
        raise no_feature(output, source, number, flaw)
    return feature


def _flaw(feature: Row) -> str:
    if "geometry" not in feature:
        return "it has no geometry, not even null"
    if feature["geometry"] is not None and type(feature["geometry"]) is not dict:
        return "its geometry is not an object"
    if "id" in feature and type(feature["id"]) not in (str, int, float):
        return "its id is neither text nor a number"
    return ""


def _records(records: Iterable[bytes], format_: str) -> Iterator[bytes]:
    before, between, end = _AROUND[format_]

    def parts() -> Iterator[bytes]:
        yield before
        lead = b""
        for record in records:
            yield lead + record
            lead = between
        if lead or format_ != "ndjson":
            yield end

    return _gathered(parts())


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= _CHUNK:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def copied(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file unchanged."""
    with file:
        while chunk := file.read(1 << 20):
            yield chunk


def whole(chunks: Iterator[bytes], limit: int) -> bytes | Iterator[bytes]:
    """Return all bytes if they are at most `limit`, else a stream of them."""
    held: list[Any] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size > limit:
            return _chained(held, chunks)
    return b"".join(held)


def _chained(first: list[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from first
    yield from rest
