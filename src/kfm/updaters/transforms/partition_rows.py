"""The rows of one partition for each engine. A source is read once in a run, whatever the number of its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.model.csv_format import Block
from kfm.model.records import DataContract
from kfm.model.updater import Reader
from kfm.updaters.transforms.json_rows import Members, Row, rows_of
from kfm.updaters.transforms.partition_spool import PartitionSpool
from kfm.updaters.transforms.step_values import text_of
from kfm.updaters.transforms.table_steps import Rows, table_rows

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS = 256  # records that are added together


class PartedTable:
    """The rows of a table, as lines in their canonical form."""

    def __init__(self, names: list[str], spool: PartitionSpool) -> None:
        self.names = names
        self._spool = spool

    def rows(self, partition: str) -> Iterator[Rows]:
        for numbers, lines in self._spool.of(partition):
            yield Rows.of(Block.of_lines(lines, len(self.names)), numbers)


def of_table(read: Reader, source: str, column: str) -> PartedTable:
    """Read a CSV source, and return its rows by the texts of `column`."""
    table = read.table(source)
    names = list(table.names)
    at, spool = names.index(column), PartitionSpool(read.scratch)
    for rows in table_rows(table):
        lines = rows.lines(len(names))
        spool.add(rows.column(at), rows.numbers, lines, sum(map(len, lines)))
    return PartedTable(names, spool.close())


class PartedRecords:
    """The rows of a source of records. `members` are the columns that occurred in any row of the source."""

    def __init__(self, members: Members, spool: PartitionSpool) -> None:
        self.members = members
        self._spool = spool

    def rows(self, partition: str) -> Iterator[tuple[int, Row]]:
        for numbers, bodies in self._spool.of(partition):
            for number, body in zip(numbers, bodies, strict=True):
                yield number, msgspec.msgpack.decode(body)


def of_records(
    read: Reader, output: str, source: str, contract: DataContract, column: str, *, shapes: bool
) -> PartedRecords:
    """Read a source of records, and return its rows by the text of `column`."""
    members, spool = Members(), PartitionSpool(read.scratch)
    held: list[tuple[str, int, bytes]] = []

    def add() -> None:
        if held:
            partitions, numbers, bodies = zip(*held, strict=True)
            spool.add(partitions, numbers, bodies, sum(map(len, bodies)))
            held.clear()

    for number, row in rows_of(read, output, source, contract, members, shapes=shapes):
        held.append((text_of(row.get(column)), number, msgspec.msgpack.encode(row)))
        if len(held) >= RECORDS:
            add()
    add()
    return PartedRecords(members, spool.close())


class PartedColumns:
    """The batches of a Parquet source, each cut by partition."""

    def __init__(self, schema: pa.Schema, inner: pa.Schema | None, spool: PartitionSpool) -> None:
        self.schema = schema
        self._inner = inner  # the schema of a batch, with the number of each row
        self._spool = spool

    def batches(self, partition: str) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _, bodies in self._spool.of(partition):
            for body in bodies:
                yield pa.ipc.read_record_batch(pa.py_buffer(body), self._inner)


def of_columns(read: Reader, source: str, column: str) -> PartedColumns:
    """Read a Parquet source, and return its batches by the texts of `column`."""
    from kfm.updaters.transforms import arrow_steps, parquet_input

    opened, spool = parquet_input.Opened(read, source), PartitionSpool(read.scratch)
    inner: Any = None
    for number, batch in enumerate(opened.batches()):
        inner = batch.schema
        found = arrow_steps.each(batch.column(column), text_of, "string").to_pylist()
        groups: dict[str, list[int]] = {}
        for at, text in enumerate(found):
            groups.setdefault(text, []).append(at)
        for text, places in groups.items():
            body = arrow_steps.picked(batch, places).serialize().to_pybytes()
            spool.add([text], [number], [body], len(body))
    return PartedColumns(opened.schema, inner, spool.close())
