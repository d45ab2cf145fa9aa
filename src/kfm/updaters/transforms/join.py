"""The other source of a join, by key, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kfm.model.records import DataContract
from kfm.model.transform_config import JoinConfig
from kfm.model.updater import Reader
from kfm.updaters.transforms.json_rows import Members, rows_of
from kfm.updaters.transforms.step_values import is_blank, text_of
from kfm.updaters.transforms.transform_errors import Place

MAX_ROWS = 1_000_000
Key = str | tuple[str, ...]


class Lookup:
    """The columns that a join adds to a row, by key. Keys are texts that must be exactly equal."""

    def __init__(self, read: Reader, join: JoinConfig, contract: DataContract, place: Place) -> None:
        self._found: dict[Key, tuple[Any, ...]] = {}
        wanted = [*(join.on[name] for name in sorted(join.on)), *join.add]
        numbers: dict[Key, int] = {}
        for number, values in _values(read, join.source, contract, wanted, place):
            if number > MAX_ROWS:
                raise place.too_many(join.source, MAX_ROWS)
            key = key_of(values[: len(join.on)])
            if key is None:
                continue
            if key in numbers:
                raise place.ambiguous(join.source, numbers[key], number)
            numbers[key] = number
            self._found[key] = tuple(values[len(join.on) :])

    def get(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        key = key_of(values)
        return None if key is None else self._found.get(key)

    def texts(self) -> dict[Key, tuple[str, ...]]:
        """Return the columns that the join adds, as texts, by key."""
        return {key: tuple(map(text_of, added)) for key, added in self._found.items()}


def key_of(values: Sequence[Any]) -> Key | None:
    """Return the key of a join from its values; None if one of them is blank."""
    if any(map(is_blank, values)):
        return None
    return text_of(values[0]) if len(values) == 1 else tuple(map(text_of, values))


def _values(
    read: Reader, source: str, contract: DataContract, wanted: list[str], place: Place
) -> Iterator[tuple[int, list[Any]]]:
    if contract.format == "csv":
        table = read.table(source)
        for column in wanted:
            if column not in table.names:
                raise place.lookup_lacks(source, column)
        at = [list(table.names).index(column) for column in wanted]
        number = 0
        for block in table.blocks:
            for values in zip(*(block.columns[i] for i in at), strict=True):
                number += 1
                yield number, list(values)
        return
    members = Members()
    for number, row in rows_of(read, place.output, source, contract, members):
        yield number, [row.get(column) for column in wanted]
    for column in wanted:
        if members.any and column not in members.names:
            raise place.lookup_lacks(source, column)
