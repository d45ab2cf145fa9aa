"""A Parquet source as columns, or as records like those of JSON; both engines see the same values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kfm.contract.updater import Reader
from kfm.documents import arrow
from kfm.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

HIDDEN = "\0row"  # the last column: where a row stood in its source, counted from 1


class Opened:
    """A Parquet source: what passed its contract can be read."""

    def __init__(self, read: Reader, source: str) -> None:
        pa = arrow.library("Parquet")
        import pyarrow.parquet as pq

        self._scratch = read.scratch()
        with read.open(source) as body:
            while piece := body.read(1 << 20):
                self._scratch.write(piece)
        self._scratch.seek(0)
        self._file = pq.ParquetFile(pa.PythonFile(self._scratch, mode="r"), buffer_size=1 << 20, pre_buffer=False)
        schema = self._file.schema_arrow
        self.schema = pa.schema([(field.name, _plain_type(field.type)) for field in schema], schema.metadata)

    def close(self) -> None:
        self._scratch.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        first = 1
        try:
            for batch in self._file.iter_batches(batch_size=arrow.BATCH, use_threads=False):
                arrays = [_alike(arrow.plain(column)) for column in batch.columns]
                numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
                first += batch.num_rows
                yield pa.RecordBatch.from_arrays([*arrays, numbers], [*batch.schema.names, HIDDEN])
        finally:
            self._scratch.close()

    def rows(self) -> Iterator[dict[str, Any]]:
        """As records of JSON. What has no plain value is null; nobody may write it so, see `check_plain`."""
        for batch in self.batches():
            names = batch.schema.names[:-1]
            found = [values(column) for column in batch.columns[:-1]]
            for row in zip(*found, strict=True) if names else iter([()] * batch.num_rows):
                yield dict(zip(names, row, strict=True))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _alike(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return column
    finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return pc.add(finite, pa.scalar(0.0, pa.float64()).cast(column.type))  # -0.0 and 0.0 make 0.0


def values(column: pa.Array) -> list[Any]:
    try:
        return arrow.values(column)
    except arrow.OutOfRange:
        raise BadInput(
            "a date lies before the year 1 or after 9999, and no step can look at it",
            hint="a contract with a column of the type date or datetime holds such rows back",
        ) from None
