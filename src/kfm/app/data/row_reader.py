"""Reads the rows of an entry of a version one after another: CSV, NDJSON, GeoJSON and Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kfm.errors import BadInput, KfmError
from kfm.parsing.strict_json import decode
from kfm.validation.findings import Unreadable
from kfm.validation.json_records import ListInJson, lines
from kfm.validation.text_rows import allow_long_fields

if TYPE_CHECKING:
    from kfm.model.ports import Objects
    from kfm.model.records import ManifestEntry

KINDS = {
    "text/csv": "csv",
    "application/x-ndjson": "ndjson",
    "application/geo+json": "geojson",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
MOST_PARQUET = 1 << 30  # bytes of a file that is read whole, because Parquet has its index at the end


class Unknown(KfmError):
    """The rows of an entry cannot be read: its format is unknown, or its bytes do not match it."""

    code = "refused.rows"
    exit_code = BadInput.exit_code


class Row(NamedTuple):
    """The values of a row by column; for a feature also its own id."""

    values: dict[str, Any]
    id: Any = None


Rows = Callable[[], Iterator[Row]]  # each call reads them again


def kind_of(entry: ManifestEntry) -> str:
    """Return the format of an entry's rows; empty if it is unknown."""
    return KINDS.get(entry.media_type.partition(";")[0].strip().lower(), "")


def rows_of(objects: Objects, entry: ManifestEntry) -> Rows:
    """Return a function that reads the rows of an entry. Raises Unknown if the format is unknown."""
    readers = {"csv": _csv, "ndjson": _ndjson, "geojson": _geojson, "parquet": _parquet}
    kind = kind_of(entry)
    if not kind:
        raise Unknown(f"rows of {entry.media_type or 'data without a media type'} cannot be compared")

    def read() -> Iterator[Row]:
        with closing(objects.open(entry.digest)) as file:
            yield from readers[kind](file)

    return read


def _csv(file: BinaryIO) -> Iterator[Row]:
    import csv

    allow_long_fields()
    try:
        with io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="") as text:
            reader = csv.reader(text)
            names = next(reader, [])
            for row in reader:
                if len(row) == len(names):
                    yield Row(dict(zip(names, row, strict=True)))
                elif row:  # values after the last column have no name
                    yield Row({**dict(zip(names, row, strict=False)), "": row[len(names) :]})
    except csv.Error:
        raise Unknown("it is not the CSV that it says it is") from None


def _ndjson(file: BinaryIO) -> Iterator[Row]:
    try:
        for line in lines(file):
            yield _record(line)
    except Unreadable:
        raise Unknown("it is not the NDJSON that it says it is") from None


def _geojson(file: BinaryIO) -> Iterator[Row]:
    """Yield the properties of each feature, with its geometry."""
    found = ListInJson(file, "features", alone=True)
    try:
        for record in found.records():
            yield _feature(record)
        if found.alone is not None:
            yield _feature(found.alone)
    except Unreadable:
        raise Unknown("it is not the GeoJSON that it says it is") from None


def _feature(body: bytes) -> Row:
    feature = _record(body).values
    said = feature.pop("properties", None)
    own = feature.pop("id", None)
    feature.pop("type", None)
    around = {f"({name})": value for name, value in feature.items()}  # a property of the same name is not lost
    return Row({**(said if isinstance(said, dict) else {}), **around}, own)


def _record(body: bytes) -> Row:
    try:
        value = decode(body, "a record")
    except KfmError:  # the library's message would quote the data
        raise Unknown("a record of it is not JSON") from None
    return Row(value if isinstance(value, dict) else {"": value})


def _parquet(file: BinaryIO) -> Iterator[Row]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Unknown("comparing rows of Parquet needs pyarrow: pip install 'kansas-frontier-matrix[export]'") from None
    body = file.read(MOST_PARQUET + 1)
    if len(body) > MOST_PARQUET:
        raise Unknown(f"rows of Parquet files are not compared above {MOST_PARQUET >> 30} GiB")
    try:
        opened = parquet.ParquetFile(pyarrow.BufferReader(body))
        for batch in opened.iter_batches(batch_size=2000):
            for values in batch.to_pylist():
                yield Row(values)
    except (pyarrow.ArrowException, OSError):
        raise Unknown("it is not the Parquet that it says it is") from None
