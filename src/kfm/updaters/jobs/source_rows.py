"""Reads the rows of a dataset version, whatever its outputs are: GeoJSON, JSON, JSON lines, Parquet or CSV.

The format is read from the bytes: a job reads every key of a version, and each may be in another format.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

from kfm.errors import BadInput, Refused
from kfm.model.format_rules import DEGREES
from kfm.model.records import SourceRef
from kfm.model.updater import Read, Reader
from kfm.parsing.strict_json import decode
from kfm.parsing.wkb import NoGeometry, of_geojson

_HEAD = 1 << 16
_GEO = b"geo"


class Row(NamedTuple):
    """One row or feature: its values by column, and its geometry as WKB in degrees."""

    values: dict[str, Any]
    geometry: bytes | None
    id: Any = None  # of a feature


class Places(NamedTuple):
    """The columns of a table that hold its places."""

    longitude: str
    latitude: str


NO_PLACES = Places("", "")


def entries_of(read: Reader, ref: SourceRef) -> list[Read]:
    """Return what to pass to the reader for each entry of a version: its only one, or the one that kfm.yml names, or
    all of them in the order of their keys."""
    if ref.accepted_hash not in ("", ref.content_hash):
        return [ref.name]
    return [(ref.name, *key) for key in read.keys(ref.name)]


def rows_of(read: Reader, ref: SourceRef, places: Places = NO_PLACES) -> Iterator[Row]:
    """Yield all rows of a version. Raise Refused if an entry has none that can be read."""
    for entry in entries_of(read, ref):
        yield from _rows(read, entry, ref.name, places)


def _rows(read: Reader, entry: Read, name: str, places: Places) -> Iterator[Row]:
    with read.open(entry) as file:
        head = file.read(_HEAD)
    if head.startswith(b"PAR1"):
        return _of_parquet(read, entry, name)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return _of_json(read, entry, name, text, places)
    if b"\0" in head:
        raise Refused(f"source {name} has an entry without rows", hint="read a dataset of features, records or a table")
    return _of_table(read, entry, name, places)


def _of_json(read: Reader, entry: Read, name: str, head: bytes, places: Places) -> Iterator[Row]:
    first, line_end, rest = head.partition(b"\n")
    if line_end and rest.lstrip()[:1] == b"{" and first.rstrip().endswith(b"}"):
        records: Iterator[Any] = read.ndjson(entry)
    else:
        document = read.json(entry)
        if isinstance(document, dict) and document.get("type") == "FeatureCollection":
            found = document.get("features")
            records = iter(found if isinstance(found, list) else [])
        else:
            records = iter(document if isinstance(document, list) else [document])
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise Refused(f"source {name}, record {number}: it is not an object", hint="read a list of objects")
        if record.get("type") == "Feature":
            shape = _shape(record.get("geometry"), name, number)
            yield Row(dict(record.get("properties") or {}), shape, record.get("id"))
        else:
            values = {key: value for key, value in record.items() if key != "geometry"}
            shape = _shape(record.get("geometry"), name, number) or _point(record, places, name, number)
            yield Row(values, shape)


def _shape(geometry: Any, name: str, number: int) -> bytes | None:
    if geometry is None:
        return None
    try:
        return of_geojson(geometry)
    except NoGeometry as flaw:
        raise BadInput(f"source {name}, record {number}: {flaw}", hint="correct the dataset that is read") from None


def _of_table(read: Reader, entry: Read, name: str, places: Places) -> Iterator[Row]:
    for number, record in enumerate(read.csv(entry), 1):
        if None in record or None in record.values():
            raise Refused(f"source {name}, row {number}: it has more or fewer fields than columns", hint="read a CSV")
        yield Row({key: value or None for key, value in record.items()}, _point(record, places, name, number))


def _point(record: dict[str, Any], places: Places, name: str, number: int) -> bytes | None:
    """Return the place of a row as WKB; None if the table has no such columns, or the row no values in them."""
    degrees = [record.get(column) for column in places]
    if any(each is None or each == "" for each in degrees):
        return None
    try:
        east, north = (float(each) for each in degrees if each is not None)
    except (TypeError, ValueError):
        east = north = float("nan")
    if not (isfinite(east) and isfinite(north) and -180 <= east <= 180 and -90 <= north <= 90):
        raise BadInput(
            f"source {name}, row {number}: {places.longitude} and {places.latitude} are not degrees",
            hint="name the columns of degrees in parameters, as longitude and latitude",
        )
    return of_geojson({"type": "Point", "coordinates": [east, north]})


def _of_parquet(read: Reader, entry: Read, name: str) -> Iterator[Row]:
    from kfm.parsing import arrow

    pa = arrow.library("Parquet")
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.PythonFile(io.BytesIO(read.bytes(entry)), mode="r")) as file:
        geometry = _geometry_column(dict(file.schema_arrow.metadata or {}), name)
        for batch in file.iter_batches(batch_size=arrow.BATCH):
            names = batch.schema.names
            columns = [arrow.values(arrow.plain(column)) for column in batch.columns]
            shapes = batch.column(names.index(geometry)).to_pylist() if geometry in names else [None] * batch.num_rows
            for at, row in enumerate(zip(*columns, strict=True)):
                values = {key: value for key, value in zip(names, row, strict=True) if key not in (geometry, "bbox")}
                yield Row(values, shapes[at])


def _geometry_column(said: dict[bytes, bytes], name: str) -> str:
    """Return the column of geometries of GeoParquet; empty if there is none. Refused unless they are in degrees."""
    if _GEO not in said:
        return ""
    about = decode(said[_GEO], "geo")
    column = str(about.get("primary_column", "geometry"))
    crs = about.get("columns", {}).get(column, {}).get("crs", {"id": {"authority": "OGC", "code": "CRS84"}})
    known = (crs or {}).get("id", {}) if isinstance(crs, dict) else {}
    code = f"{known.get('authority', '')}:{known.get('code', '')}".upper()
    if code not in DEGREES:
        raise Refused(
            f"source {name}: the coordinate system of its places is not in degrees",
            hint=f"publish it in one of {', '.join(DEGREES)}",
        )
    return column
