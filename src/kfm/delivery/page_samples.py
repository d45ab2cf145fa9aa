"""What a page shows of public files: the first rows of one file, and the places in the first files. Only public files
are read, and only so many of them that a page of 100,000 files costs no more than one of 50.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import msgspec

from kfm.delivery.masked_tables import CELL, cell_named
from kfm.errors import BadInput, Corrupt
from kfm.masking.cells import shape_of
from kfm.model.ports import Objects
from kfm.model.public_run import PublicArtifact, PublicColumn
from kfm.parsing.strict_json import decode
from kfm.projections.dataset_pages import PageSample
from kfm.projections.pages.page_map import Drawing, Position, Ring
from kfm.validation.findings import Unreadable
from kfm.validation.geojson import feature_flaw, place_flaw
from kfm.validation.json_records import ListInJson
from kfm.validation.text_rows import allow_long_fields

ROWS = 10  # shown
LOOKED_AT = 1000  # rows that the types of a table are taken from
FILES, BYTES = 50, 16 << 20  # read for the map of one page
CORNERS = 60_000  # of all lines and areas of one map
LONGEST = 60  # characters of a value
_LATITUDES = {"latitude": ("longitude",), "lat": ("lon", "lng", "long", "longitude")}
_READ = (Corrupt, BadInput, Unreadable, ValueError, csv.Error, ImportError)  # msgspec's errors are ValueErrors


class FoundPlaces(NamedTuple):
    """The places in the first files of a version."""

    drawing: Drawing
    files: int  # how many were read
    boxed: bool = False  # some lines and areas are the boxes around them: they had too many corners


class _Row(NamedTuple):
    values: dict[str, Any]
    geometry: dict[str, Any] | None = None


def first_rows(objects: Objects, file: PublicArtifact) -> PageSample | None:
    """Return the first rows of a public file; None if it is no table or cannot be read."""
    try:
        with objects.open(file.digest) as opened:
            rows = [row.values for row in islice(_rows(opened, file.media_type), LOOKED_AT)]
    except _READ:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return None
    columns = tuple(PublicColumn(name, _type_of([row.get(name) for row in rows])) for name in names)
    shown = tuple(tuple(_shown(row.get(name)) for name in names) for row in rows[:ROWS])
    return PageSample(columns, shown)


def places_in(
    objects: Objects, files: Iterable[PublicArtifact], *, masked: bool, corners: int = CORNERS
) -> FoundPlaces:
    """Return the places in public files. Of masked data these are the cells that the files name, and nothing else."""
    found, read, left = _Found(masked, corners), 0, BYTES
    for file in files:
        if read >= FILES or file.size > left:
            break
        read, left = read + 1, left - file.size
        try:
            with objects.open(file.digest) as opened:
                for row in _rows(opened, file.media_type):
                    found.add(row)
        except _READ:
            if file.bbox and not masked:
                found.add_box(file.bbox)
            continue
        if not masked and file.bbox and not found.count():
            found.add_box(file.bbox)
    return FoundPlaces(found.drawing(), read, found.boxed)


class _Found:
    """The places of rows, each in the form that its row gives."""

    def __init__(self, masked: bool, corners: int) -> None:
        self.boxed = False
        self._masked = masked
        self._points: list[Position] = []
        self._ways: list[Ring] = []
        self._areas: list[list[Ring]] = []
        self._cells: dict[int, None] = {}
        self._boxes: list[list[Ring]] = []
        self._corners, self._most_corners = 0, corners
        self._names: tuple[str, str] | None = None
        self._columns: frozenset[str] = frozenset()

    def count(self) -> int:
        return len(self._points) + len(self._ways) + len(self._areas) + len(self._cells)

    def add(self, row: _Row) -> None:
        if cell := cell_named(row.values.get(CELL)):
            self._cells[cell] = None
        elif self._masked:  # whatever else a row may say, only its cell is drawn
            return
        elif row.geometry is not None:
            self._add_geometry(row.geometry)
        elif (place := self._place(row.values)) is not None:
            self._points.append(place)

    def add_box(self, box: Sequence[float]) -> None:
        half = len(box) // 2
        west, south, east, north = box[0], box[1], box[half], box[half + 1]
        parts = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]  # the second is over the date line
        self._boxes.append([[(w, south), (e, south), (e, north), (w, north)] for w, e in parts])

    def drawing(self) -> Drawing:
        cells = [_rings_of(cell) for cell in self._cells]
        if self.count() or not self._boxes:
            return Drawing(self._points, self._ways, self._areas, cells)
        return Drawing(areas=self._boxes, is_extent=True)

    def _place(self, values: dict[str, Any]) -> Position | None:
        if values.keys() != self._columns:
            self._columns, self._names = frozenset(values), coordinate_columns(values)
        if self._names is None:
            return None
        latitude, longitude = (_number(values.get(name)) for name in self._names)
        if latitude is None or longitude is None or not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            return None
        return None if latitude == longitude == 0 else (longitude, latitude)  # zero stands for unknown

    def _add_geometry(self, geometry: dict[str, Any]) -> None:
        kind = geometry.get("type")
        own: Any = geometry.get("coordinates") or ()
        if kind == "GeometryCollection":
            for each in geometry.get("geometries") or ():
                self._add_geometry(each)
        elif kind == "Point":
            self._points.append((own[0], own[1]))
        elif kind == "MultiPoint":
            self._points += [(each[0], each[1]) for each in own]
        elif kind in ("LineString", "MultiLineString"):
            for line in [own] if kind == "LineString" else own:
                self._ways.append(self._ring(line))
        elif kind in ("Polygon", "MultiPolygon"):
            for rings in [own] if kind == "Polygon" else own:
                self._areas.append([self._ring(ring) for ring in rings])

    def _ring(self, positions: Any) -> Ring:
        """Return a line or ring. Above the limit of corners, only its box is kept."""
        ring = [(each[0], each[1]) for each in positions]
        self._corners += len(ring)
        if self._corners <= self._most_corners or len(ring) < 5:
            return ring
        self.boxed = True
        xs, ys = [x for x, _ in ring], [y for _, y in ring]
        return [(min(xs), min(ys)), (max(xs), min(ys)), (max(xs), max(ys)), (min(xs), max(ys)), (min(xs), min(ys))]


def _rings_of(cell: int) -> list[Ring]:
    shape = msgspec.json.decode(shape_of(cell).geometry)
    parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
    return [[(x, y) for x, y in ring] for rings in parts for ring in rings]


def coordinate_columns(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the names of the columns of latitude and longitude; None if there are not exactly two such names alike."""
    known = {name.strip().casefold(): name for name in names}
    for folded, name in known.items():
        for ending, others in _LATITUDES.items():
            if folded.endswith(ending):
                start = folded.removesuffix(ending)
                for other in others:
                    if start + other in known:
                        return name, known[start + other]
    return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _type_of(values: Sequence[Any]) -> str:
    """Return the type of the values that are there: integer, number, date, time, true or false, or text."""
    there = [value for value in values if value not in (None, "")]
    if not there:
        return ""
    if all(isinstance(value, bool) for value in there):
        return "true or false"
    if any(isinstance(value, (dict, list)) for value in there):
        return "nested"
    texts = [str(value).strip() for value in there]
    if all(_number(text) is not None for text in texts):
        whole = all(text.lstrip("+-").isdigit() for text in texts)
        coded = any(len(text) > 1 and text.startswith("0") and text.isdigit() for text in texts)
        return "text" if coded else "integer" if whole else "number"
    if all(len(text) >= 10 and text[4] == text[7] == "-" and text[:4].isdigit() for text in texts):
        return "date" if all(len(text) == 10 for text in texts) else "time"
    return "text"


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = msgspec.json.encode(value).decode() if isinstance(value, (dict, list)) else str(value)
    text = "".join(sign if sign.isprintable() else " " for sign in text[: LONGEST + 1])
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _rows(file: BinaryIO, media_type: str) -> Iterator[_Row]:
    kind = media_type.partition(";")[0].strip().lower()
    if kind == "text/csv":
        yield from _csv_rows(file)
    elif kind == "application/geo+json":
        for feature in _records(ListInJson(file, "features").records()):
            if feature_flaw(feature) or place_flaw(feature):
                raise ValueError("not a feature")
            yield _Row(dict(feature["properties"] or {}), feature["geometry"])
    elif kind == "application/x-ndjson":
        yield from map(_of_record, _records(line for line in file if line.strip()))
    elif kind == "application/json":
        yield from map(_of_record, _records(ListInJson(file, "").records()))
    elif kind == "application/vnd.apache.parquet":
        yield from _parquet_rows(file)
    else:
        raise ValueError("no table")


def _records(bodies: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for body in bodies:
        record = decode(body, "a record")
        if not isinstance(record, dict):
            raise ValueError("not a record")
        yield record


def _of_record(record: dict[str, Any]) -> _Row:
    """Return a record; one that is a feature, as a STAC item is, with its properties and its geometry."""
    if record.get("type") != "Feature" or feature_flaw(record) or place_flaw(record):
        return _Row(record)
    return _Row({"id": record.get("id"), **(record["properties"] or {})}, record["geometry"])


def _csv_rows(file: BinaryIO) -> Iterator[_Row]:
    allow_long_fields()
    with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        rows = csv.reader(text, strict=True)
        names = next(rows, [])
        if not names or len(set(names)) < len(names):
            return
        for row in rows:
            if len(row) == len(names):
                yield _Row(dict(zip(names, row, strict=True)))


def _parquet_rows(file: BinaryIO) -> Iterator[_Row]:
    from pyarrow.lib import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        found = ParquetFile(file)
        plain = [each.name for each in found.schema_arrow if str(each.type) not in ("binary", "large_binary")]
        for batch in found.iter_batches(batch_size=LOOKED_AT, columns=plain):
            yield from map(_Row, batch.to_pylist())
    except ArrowException as problem:
        raise ValueError("no Parquet") from problem
