"""Describes a public file from its own bytes, for catalogs: columns, rows, units, extent, time and variables.

A file of more than `LARGEST` bytes is not read for this, except Parquet, whose footer says enough.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import msgspec

from kfm.clock import rfc3339
from kfm.delivery.masked_tables import Box
from kfm.errors import BadInput, Corrupt
from kfm.model.ports import Objects
from kfm.model.public_run import PublicArtifact, PublicColumn
from kfm.parsing.characters import is_printable
from kfm.parsing.strict_json import decode
from kfm.validation.findings import Unreadable
from kfm.validation.geojson import feature_flaw, place_flaw, positions
from kfm.validation.json_records import ListInJson
from kfm.validation.stac_rules import moment
from kfm.validation.text_rows import allow_long_fields

LARGEST = 64 << 20
MOST_COLUMNS = 2000
# Properties that say when a feature was, the first that all features have; whole numbers are milliseconds since 1970.
TIMES = ("datetime", "time", "timestamp", "date")
_GRIDS = {
    "image/tiff": "geotiff", "application/wmo-grib2": "grib2", "application/netcdf": "netcdf",
    "application/x-netcdf": "netcdf", "application/vnd.zarr+zip": "zarr",
}  # fmt: skip
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


class FileFacts(NamedTuple):
    """What a catalog says about one public file."""

    table: tuple[PublicColumn, ...] = ()
    rows: int | None = None
    bands: tuple[PublicColumn, ...] = ()  # of a grid
    geometry: str = ""  # the types of its geometries
    bbox: Box = ()
    datetime: str = ""  # a moment, or two with / between them


NOTHING = FileFacts()


def file_facts(objects: Objects, artifact: PublicArtifact) -> FileFacts:
    """Return the facts of a published file. A file of another format, or one that cannot be read, has none."""
    kind = artifact.media_type.partition(";")[0].strip().lower()
    read = _READERS.get(kind)
    if kind in _GRIDS:
        read = partial(_of_grid, partial(objects.open, artifact.digest), _GRIDS[kind])
    if read is None or (artifact.size > LARGEST and read is not _of_parquet):
        return NOTHING
    try:
        with objects.open(artifact.digest) as file:
            found = read(file)
    except (Corrupt, BadInput, Unreadable, ValueError, csv.Error, ImportError):  # msgspec's errors are ValueErrors
        return NOTHING
    names = [each.name for each in (*found.table, *found.bands)]
    fits = len(names) <= MOST_COLUMNS and all(is_printable(name) and len(name) <= 200 for name in names)
    return found if fits else NOTHING


def with_facts(artifact: PublicArtifact, facts: FileFacts) -> PublicArtifact:
    """Return the artifact with these facts; its own extent and time are kept."""
    return msgspec.structs.replace(
        artifact,
        table=facts.table,
        rows=facts.rows,
        bands=facts.bands,
        geometry=facts.geometry,
        bbox=artifact.bbox or facts.bbox,
        datetime=artifact.datetime or facts.datetime,
    )


def _of_csv(file: BinaryIO) -> FileFacts:
    """Read a table in UTF-8 with commas, as KFM writes it. Another table is not described, rather than wrongly."""
    allow_long_fields()
    with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        rows = csv.reader(text, strict=True)
        names = next(rows, [])
        if not names or len(set(names)) < len(names) or (len(names) == 1 and any(sign in names[0] for sign in ";\t|")):
            return NOTHING
        return FileFacts(tuple(map(PublicColumn, names)), sum(1 for row in rows if row))


def _of_records(records: Iterable[bytes]) -> FileFacts:
    seen = _Columns()
    for record in records:
        found = decode(record, "a record")
        if not isinstance(found, dict):
            return NOTHING
        seen.add(found)
    return FileFacts(seen.columns(), seen.rows)


def _of_features(file: BinaryIO) -> FileFacts:
    seen, kinds, times = _Columns(), dict[str, None](), {name: list[str]() for name in TIMES}
    west, south, east, north = 181.0, 91.0, -181.0, -91.0
    for record in ListInJson(file, "features").records():
        feature = decode(record, "a feature")
        if feature_flaw(feature) or place_flaw(feature):
            return NOTHING
        own = feature["properties"] or {}
        seen.add(own)
        for name in list(times):
            when = _moment(own.get(name))
            if when is None:  # this feature does not say it
                del times[name]
            else:
                times[name].append(when)
        if feature["geometry"] is not None:
            kinds[feature["geometry"]["type"]] = None
            for x, y in positions(feature["geometry"]):
                west, south, east, north = min(west, x), min(south, y), max(east, x), max(north, y)
    span = next((_span(said) for said in times.values() if said), "")
    box = (west, south, east, north) if west <= east else ()
    return FileFacts(seen.columns(), seen.rows, geometry=", ".join(kinds), bbox=box, datetime=span)


def _moment(value: object) -> str | None:
    """Return a moment in UTC that this value of a property names; None if it names none."""
    if type(value) is int and 10**11 < value < 10**13:
        return rfc3339(value)
    if isinstance(value, str):
        for text in (value, f"{value}T00:00:00Z"):
            if moment(text) is not None:
                return text
    return None


def _span(moments: list[str]) -> str:
    first, last = min(moments, key=lambda text: moment(text) or ""), max(moments, key=lambda text: moment(text) or "")
    return first if first == last else f"{first}/{last}"


class _Columns:
    """The names and types of the values of records, in the order of their first appearance."""

    def __init__(self) -> None:
        self._types: dict[str, dict[str, None]] = {}
        self.rows = 0

    def add(self, record: dict[str, Any]) -> None:
        self.rows += 1
        for name, value in record.items():
            types = self._types.setdefault(name, {})
            if value is not None:
                types[_KINDS[type(value)]] = None

    def columns(self) -> tuple[PublicColumn, ...]:
        return tuple(PublicColumn(name, _common(types)) for name, types in self._types.items())


def _common(types: dict[str, None]) -> str:
    """Return the one type of all values, number for whole numbers and others together; empty if there are several."""
    if types.keys() == {"integer", "number"}:
        return "number"
    return next(iter(types)) if len(types) == 1 else ""


def _of_parquet(file: BinaryIO) -> FileFacts:
    from pyarrow.lib import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        found = ParquetFile(file)
        columns = [PublicColumn(one.name, str(one.type), _unit(one.metadata or {})) for one in found.schema_arrow]
        return FileFacts(tuple(columns), found.metadata.num_rows)
    except ArrowException as problem:
        raise msgspec.ValidationError("no Parquet") from problem


def _unit(metadata: dict[bytes, bytes]) -> str:
    """Return the unit that a column of Parquet names in its metadata."""
    text = (metadata.get(b"units") or metadata.get(b"unit") or b"").decode("utf-8", "replace")
    return text if is_printable(text) and len(text) <= 100 else ""


def _of_grid(opened: Callable[[], BinaryIO], form: str, _file: BinaryIO) -> FileFacts:
    """Read the variables of a grid in a process of its own, because a foreign library reads it."""
    from kfm.engine.isolation.sandbox import facts_apart

    said = facts_apart(tempfile.TemporaryFile, opened, form)
    bands = [PublicColumn(**each) for each in said.get("variables", ())]
    return FileFacts(bands=tuple(bands), bbox=tuple(said.get("bbox", ())), datetime=said.get("datetime", ""))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    return (line for line in file if line.strip())


_READERS: dict[str, Callable[[BinaryIO], FileFacts]] = {
    "text/csv": _of_csv,
    "application/x-ndjson": lambda file: _of_records(_lines(file)),
    "application/json": lambda file: _of_records(ListInJson(file, "").records()),
    "application/geo+json": _of_features,
    "application/vnd.apache.parquet": _of_parquet,
}
