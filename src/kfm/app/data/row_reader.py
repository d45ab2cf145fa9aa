"""The rows of an entry of a version, one after the other, whatever they are written in."""

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
MOST_PARQUET = 1 << 30  # bytes of a file that is read whole, as its end says where everything is


class Unknown(KfmError):
    """Its rows cannot be told: what it is written in is not known here, or it is not what it says."""

    code = "refused.rows"
    exit_code = BadInput.exit_code


class Row(NamedTuple):
    """What it says, by name; and of a feature the id it has itself."""

    values: dict[str, Any]
    id: Any = None


Rows = Callable[[], Iterator[Row]]  # each call reads them anew


def kind_of(entry: ManifestEntry) -> str:
    """What its rows are written in; empty: it has none that are known."""
    return KINDS.get(entry.media_type.partition(";")[0].strip().lower(), "")


def rows_of(objects: Objects, entry: ManifestEntry) -> Rows:
    readers = {"csv": _csv, "ndjson": _ndjson, "geojson": _geojson, "parquet": _parquet}
    kind = kind_of(entry)
    if not kind:
        raise Unknown(f"rows are not told of {entry.media_type or 'what has no media type'}")

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
                elif row:  # what stands behind the last column has no name
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
    """The properties by their names, and the geometry beside them."""
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
    around = {f"({name})": value for name, value in feature.items()}  # no name of a property is lost to a member
    return Row({**(said if isinstance(said, dict) else {}), **around}, own)


def _record(body: bytes) -> Row:
    try:
        value = decode(body, "a record")
    except KfmError:  # it would quote what it read
        raise Unknown("a record of it is not JSON") from None
    return Row(value if isinstance(value, dict) else {"": value})


def _parquet(file: BinaryIO) -> Iterator[Row]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Unknown(
            "rows of Parquet are told where pyarrow is installed: pip install 'kansas-frontier-matrix[export]'"
        ) from None
    body = file.read(MOST_PARQUET + 1)
    if len(body) > MOST_PARQUET:
        raise Unknown(f"rows are not told of Parquet of more than {MOST_PARQUET >> 30} GiB")
    try:
        opened = parquet.ParquetFile(pyarrow.BufferReader(body))
        for batch in opened.iter_batches(batch_size=2000):
            for values in batch.to_pylist():
                yield Row(values)
    except (pyarrow.ArrowException, OSError):
        raise Unknown("it is not the Parquet that it says it is") from None
