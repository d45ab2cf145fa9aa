"""Collects the distinct values of the column that a contract partitions by."""

from __future__ import annotations

from collections.abc import Iterable

from kfm.errors import BadInput
from kfm.model.records import Column, DataContract
from kfm.validation.column_rules import ColumnCheck
from kfm.validation.findings import Outcome

MAX_PARTITIONS = 100_000


class Partitions:
    """Collects the partitions of a source into `Outcome.partitions`. Blank values name no partition; values are kept as
    written."""

    def __init__(self, contract: DataContract, out: Outcome) -> None:
        named = [column for column in contract.columns if column.name == contract.partition_by]
        self._blank = ColumnCheck(named[0] if named else Column(name=contract.partition_by)).blank
        self._name = contract.partition_by
        self._found = out.partitions

    def add(self, values: Iterable[str]) -> None:
        fresh = set(values) - self._found
        if fresh:
            self._found.update(value for value in fresh if not self._blank(value))
            if len(self._found) > MAX_PARTITIONS:
                raise BadInput(
                    f"column {self._name} has more than {MAX_PARTITIONS:,} distinct values",
                    hint="partition by a column with fewer, or not at all",
                )
