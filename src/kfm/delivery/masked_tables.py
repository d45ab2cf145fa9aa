"""Describes a published file of masked data from its own bytes: its columns, the extent of its cells, its row count.

Readers get these bytes anyway. The extent is computed from the cells that the file names and from no other number, so
it never follows the exact places more closely than the cells do.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import msgspec

from kfm.errors import BadInput, Corrupt
from kfm.masking.cells import shape_of
from kfm.masking.h3_library import library
from kfm.model.masks import SMALLEST_K
from kfm.model.ports import Objects
from kfm.parsing.lazy_regex import pattern
from kfm.parsing.strict_json import decode
from kfm.validation.findings import Unreadable
from kfm.validation.json_records import ListInJson
from kfm.validation.text_rows import allow_long_fields

_CELL = pattern("8[0-9a-f]{14}")
CELL = "cell"  # the column that masking adds
Box = tuple[float, ...]


class TableFacts(NamedTuple):
    """What a catalog says about one published file."""

    bbox: Box = ()  # around its cells; empty: it names none
    columns: tuple[str, ...] = ()
    rows: int | None = None  # None: fewer than the smallest k, or the file is no table


NOTHING = TableFacts()


def table_facts(objects: Objects, digest: str, media_type: str) -> TableFacts:
    """Return the facts of a published file. A file that is no table, or cannot be read, has none."""
    kind = media_type.partition(";")[0].strip()
    read = _READERS.get(kind)
    if read is None:
        return NOTHING
    try:
        with objects.open(digest) as file:
            return _counted(read(file))
    except (Corrupt, BadInput, Unreadable, ValueError, csv.Error, ImportError):  # msgspec's errors are ValueErrors
        return NOTHING


def box_around(boxes: Sequence[Box]) -> Box:
    """Return one box around several; all longitudes if one of them crosses the antimeridian."""
    if not boxes:
        return ()
    halves = [len(box) // 2 for box in boxes]
    west, south = [box[0] for box in boxes], [box[1] for box in boxes]
    east = [box[half] for box, half in zip(boxes, halves, strict=True)]
    north = [box[half + 1] for box, half in zip(boxes, halves, strict=True)]
    over = any(w > e for w, e in zip(west, east, strict=True))
    return (-180.0 if over else min(west), min(south), 180.0 if over else max(east), max(north))


def _counted(rows: Iterable[dict[str, Any]]) -> TableFacts:
    names: dict[str, None] = {}
    cells: set[int] = set()
    count = 0
    for row in rows:
        count += 1
        if row.keys() - names.keys():
            names.update(dict.fromkeys(row))
        if cell := cell_named(row.get(CELL)):
            cells.add(cell)
    box = box_around([shape_of(cell).bbox for cell in cells])
    return TableFacts(box, tuple(names), count if count >= SMALLEST_K else None)


def cell_named(value: object) -> int:
    """Return the cell that a text names; 0 if it names none."""
    if not isinstance(value, str) or not _CELL.fullmatch(value):
        return 0
    cell = int(value, 16)
    return cell if library().is_valid_cell(cell) else 0


def _of_csv(file: BinaryIO) -> Iterator[dict[str, Any]]:
    allow_long_fields()
    with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        rows = csv.reader(text)
        names = next(rows, [])
        for row in rows:
            if len(row) == len(names):
                yield dict(zip(names, row, strict=True))


def _of_lines(file: BinaryIO) -> Iterator[dict[str, Any]]:
    return _objects(line for line in file if line.strip())


def _of_features(file: BinaryIO) -> Iterator[dict[str, Any]]:
    for feature in _objects(ListInJson(file, "features").records()):
        own = feature.get("properties")
        yield {"id": feature.get("id"), **(own if isinstance(own, dict) else {})}


def _of_list(file: BinaryIO) -> Iterator[dict[str, Any]]:
    return _objects(ListInJson(file, "").records())


def _objects(records: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for record in records:
        found = decode(record, "a record")
        if not isinstance(found, dict):
            raise msgspec.ValidationError("a record is an object")
        yield found


def _of_parquet(file: BinaryIO) -> Iterator[dict[str, Any]]:
    from pyarrow.lib import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        for batch in ParquetFile(file).iter_batches():
            yield from batch.to_pylist()
    except ArrowException as problem:
        raise msgspec.ValidationError("no Parquet") from problem


_READERS = {
    "text/csv": _of_csv,
    "application/x-ndjson": _of_lines,
    "application/geo+json": _of_features,
    "application/json": _of_list,
    "application/vnd.apache.parquet": _of_parquet,
}
