"""Converts Arrow columns to the plain values that data contracts and steps use, and writes tables as Parquet.

    integer, number, boolean, text      themselves; a decimal is the nearest double
    date                                2026-01-31
    timestamp                           2026-01-31T12:00:00, with as many digits of a second as its unit has, and
                                        Z if it has a zone: it is then in UTC, so that text order is time order
    any other type                      has no value: rows keep it, but no rule or step can read it

The same rows of the same types give the same Parquet bytes, however they arrive: this module sets every option of the
writer and starts a new row group after a fixed number of rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kfm.errors import Unavailable

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPE = "application/vnd.apache.parquet"
BATCH = 1 << 16  # rows that are checked together
GROUP = 1 << 16  # rows of one row group
MOST_SAFE = 2**53
_OPTIONS: dict[str, Any] = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": True,
    "dictionary_pagesize_limit": 1 << 20,
    "data_page_size": 1 << 20,
    "write_batch_size": 1024,
    "write_statistics": True,
    "write_page_index": False,
    "store_schema": True,
}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, from 1970-01-01
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def library(what: str, extra: str = "parquet") -> Any:
    """Return pyarrow with its submodules. Raise Unavailable if it is not installed: the message says that `what` needs
    it, and which `extra` of this package installs it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ModuleNotFoundError as problem:
        raise Unavailable(
            f"{what} needs a library that is not installed",
            hint=f"pip install 'kansas-frontier-matrix[{extra}]'",
        ) from problem
    return pyarrow


def family(kind: pa.DataType) -> str:
    """Return the kind of the values of an Arrow type, as data contracts name it: integer, number, boolean, text, date,
    timestamp, `null`, or `other`."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return family(kind.value_type)
    for name, fits in (
        ("null", types.is_null),
        ("boolean", types.is_boolean),
        ("integer", types.is_integer),
        ("number", types.is_floating),
        ("decimal", types.is_decimal),
        ("text", types.is_string),
        ("text", types.is_large_string),
        ("date", types.is_date),
        ("timestamp", types.is_timestamp),
    ):
        if fits(kind):
            return name
    return "other"


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, with dictionary encoding undone."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # no chunk, or more text than one array can hold
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


class OutOfRange(ValueError):
    """Raised for a date before the year 1 or after 9999, which has no text form."""


def texts(column: pa.Array) -> pa.Array:
    """Return a column of dates or timestamps as texts. Raise OutOfRange if one has no text form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if not in_range(column):
        raise OutOfRange
    if pa.types.is_timestamp(kind):
        bare = column.cast(pa.int64()).cast(pa.timestamp(kind.unit))
        found = pc.strftime(bare, "%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(found, "Z", "") if kind.tz else found
    return pc.strftime(column.cast(pa.date32()), "%Y-%m-%d")


def in_range(column: pa.Array) -> bool:
    """Return whether every date or timestamp of the column has a text form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind):
        whole, day = column.cast(pa.int64()), 86_400 * _PER_SECOND[kind.unit]
    elif kind.bit_width == 64:
        whole, day = column.cast(pa.int64()), 86_400_000
    else:
        whole, day = column.cast(pa.int32()), 1
    found = pc.min_max(whole).as_py()
    if found["min"] is None:
        return True
    return bool(_FIRST_DAY * day <= found["min"] and found["max"] < (_LAST_DAY + 1) * day)


def values(column: pa.Array) -> list[Any]:
    """Return a column as plain Python values. Floats that are not finite stay; a value of a type without a plain form
    is None."""
    kind = family(column.type)
    if kind in ("date", "timestamp"):
        column = texts(column)
    elif kind == "decimal":
        return [None if value is None else float(value) for value in column.to_pylist()]
    elif kind == "other":
        return [None] * len(column)
    found: list[Any] = column.to_pylist()
    return found


# Not with pa.array or pa.scalar: they import pandas where it is installed, to recognize its types.


def numbers(count: int, first: int = 0) -> pa.Array:
    """Return an Arrow array of `count` consecutive integers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ones = array("q", [1]) * count
    if count:
        ones[0] = first
    return pc.cumulative_sum(pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(ones)]))


def number(value: float) -> pa.Scalar:
    """Return the value as an Arrow scalar."""
    import pyarrow as pa

    sign, kind = ("d", pa.float64()) if isinstance(value, float) else ("q", pa.int64())
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(array(sign, [value]))])[0]


def truths(found: list[bool]) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.uint8(), len(found), [None, pa.py_buffer(bytes(found))]).cast(pa.bool_())


def text(value: str) -> pa.Scalar:
    import pyarrow as pa

    body = value.encode()
    ends = pa.py_buffer(array("i", [0, len(body)]))
    return pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(body)])[0]


class ParquetWriter:
    """Writes rows as Parquet, one row group at a time. The function `write` receives the bytes in order."""

    def __init__(self, write: Callable[[bytes], object], schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        self._writer = pq.ParquetWriter(_CallbackFile(write), schema, **_OPTIONS)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            room = GROUP - self._rows
            self._waiting.append(batch.slice(0, room))
            self._rows += min(room, batch.num_rows)
            batch = batch.slice(room)
            if self._rows == GROUP:
                self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        # As one chunk: the pages must not depend on how the rows arrived.
        table = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        self._writer.write_table(table, row_group_size=GROUP)
        self._waiting, self._rows = [], 0

    def close(self, metadata: dict[bytes, bytes] | None = None) -> None:
        """Write the footer of the file, with `metadata` added to the metadata of the schema."""
        if self._rows:
            self._flush()
        if metadata:
            self._writer.add_key_value_metadata(metadata)
        self._writer.close()


class _CallbackFile:
    """The file object that Arrow writes to; Arrow requires more methods than it calls."""

    closed = False
    mode = "wb"

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._at = 0

    def write(self, body: Any) -> int:
        data = bytes(body)
        self._write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def parquet_pieces(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield these batches as the bytes of a Parquet file, one piece at a time."""
    held: list[bytes] = []
    writer = ParquetWriter(held.append, schema)
    for batch in batches:
        writer.add(batch)
        if held:
            yield b"".join(held)
            held.clear()
    writer.close()
    yield b"".join(held)
