"""The steps over JSON records, one by one. A missing member is null."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from kfm.model.canonical import canonical
from kfm.model.transform_config import StepConfig, sort_keys
from kfm.updaters.transforms.deduplication import Deduplicator
from kfm.updaters.transforms.external_sort import FRAME, Keys, Payloads, Room, Sorter, Tags
from kfm.updaters.transforms.filter_conditions import Test, test_of
from kfm.updaters.transforms.join import Lookup
from kfm.updaters.transforms.json_rows import Members, Row
from kfm.updaters.transforms.step_columns import follow
from kfm.updaters.transforms.step_values import UNFIT, cast, identity, place
from kfm.updaters.transforms.transform_errors import Place

Stream = Iterator[tuple[int, Row]]  # number in the source, and record
Op = Callable[[Stream], Stream]


class Pipeline:
    """The steps over JSON records. Their columns are known only when all records were read. So a step that names a
    column which no record has is refused at the end, before an output is stored."""

    def __init__(
        self,
        members: Members,
        steps: Sequence[tuple[StepConfig, Place]],
        lookup: Callable[[StepConfig, Place], Lookup],
        room: Room,
    ) -> None:
        self._members = members
        self._steps = steps
        self._room = room
        self._pointers: list[tuple[Place, list[str], Pointers]] = []
        self._ops = [self._compile(step, at, lookup) for step, at in steps]

    def run(self, stream: Stream) -> Stream:
        for op in self._ops:
            stream = op(stream)
        yield from stream
        if self._members.any:
            follow(sorted(self._members.names), self._steps, pointers=True)
            for at, columns, pointers in self._pointers:
                for column in columns:
                    if pointers.any and column not in pointers.found:
                        raise at.no_column(column)

    def _compile(self, step: StepConfig, at: Place, lookup: Callable[[StepConfig, Place], Lookup]) -> Op:
        if step.filter is not None:
            return partial(_filter, step.filter.column, test_of(step.filter))
        if step.cast:
            return partial(_cast, {name: step.cast[name] for name in sorted(step.cast)}, step.unfit or "refuse", at)
        if step.join is not None:
            join = step.join
            return partial(_join, sorted(join.on), join.add, lookup(step, at), join.missing, join.source, at)
        if step.select:
            pointers = Pointers()
            self._pointers.append((at, [name for name in step.select if name.startswith("/")], pointers))
            return partial(_select, step.select, pointers)
        if step.rename:
            return partial(_rename, step.rename, at)
        if step.deduplicate is not None:
            return partial(_deduplicate, step.deduplicate.by, step.deduplicate.keep, self._room)
        keys = sort_keys(step)
        return partial(_sort, [key.column for key in keys], [key.descending for key in keys], self._room)


class Pointers:
    """Records which JSON pointers of a select led to a value in any row."""

    __slots__ = ("any", "found")

    def __init__(self) -> None:
        self.any = False
        self.found: set[str] = set()


def _filter(column: str, test: Test, stream: Stream) -> Stream:
    return ((number, row) for number, row in stream if test(row.get(column)))


def _select(columns: Sequence[str], pointers: Pointers, stream: Stream) -> Stream:
    for number, row in stream:
        pointers.any = True
        yield number, {column: _picked(row, column, pointers) for column in columns}


def _picked(row: Row, column: str, pointers: Pointers) -> Any:
    if column in row:
        if column.startswith("/"):
            pointers.found.add(column)
        return row[column]
    if not column.startswith("/"):
        return None
    value: Any = row
    for part in column[1:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if type(value) is dict and part in value:
            value = value[part]
        elif type(value) is list and _is_index(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    pointers.found.add(column)
    return value


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) < 10 and (part == "0" or part[0] != "0")


def _rename(new: dict[str, str], at: Place, stream: Stream) -> Stream:
    targets = [new[name] for name in sorted(new) if new[name] not in new]
    for number, row in stream:
        _check_free(row, targets, at)
        yield number, {new.get(name, name): value for name, value in row.items()}


def _check_free(row: Row, names: Sequence[str], at: Place) -> None:
    """Raise at once if a name is taken, because otherwise it would be unclear which of two values was kept."""
    for name in names:
        if name in row:
            raise at.taken(name)


def _cast(wanted: Mapping[str, str], unfit: str, at: Place, stream: Stream) -> Stream:
    for number, row in stream:
        found = dict(row)
        drop = False
        for column, kind in wanted.items():
            if column not in row:
                continue
            value = cast(kind, row[column])
            if value is UNFIT:
                if unfit == "refuse":
                    raise at.unfit(number, column, kind)
                drop = unfit == "drop"
                value = None
            found[column] = value
            if drop:
                break
        if not drop:
            yield number, found


def _join(
    on: Sequence[str], add: Sequence[str], lookup: Lookup, missing: str, source: str, at: Place, stream: Stream
) -> Stream:
    nothing = (None,) * len(add)
    for number, row in stream:
        _check_free(row, add, at)
        found = lookup.get([row.get(column) for column in on])
        if found is None:
            if missing == "refuse":
                raise at.no_match(number, source)
            if missing == "drop":
                continue
            found = nothing
        yield number, {**row, **dict(zip(add, found, strict=True))}


# --------------------------------------------------------------------- where rows leave their order

_pack = msgspec.json.Encoder().encode
_unpack = msgspec.json.Decoder().decode


def _framed(stream: Stream) -> Iterator[tuple[Payloads, Tags, list[Row]]]:
    payloads: Payloads = []
    tags: list[tuple[int, ...]] = []
    rows: list[Row] = []
    for number, row in stream:
        payloads.append(_pack(row))
        tags.append((number,))
        rows.append(row)
        if len(rows) == FRAME:
            yield payloads, tags, rows
            payloads, tags, rows = [], [], []
    if rows:
        yield payloads, tags, rows


def _sort(by: list[str], descending: list[bool], room: Room, stream: Stream) -> Stream:
    def keys(rows: Sequence[Row]) -> Keys:
        return [[place(row.get(column)) for row in rows] for column in by]

    sorter = Sorter(lambda payloads, _tags: keys(list(map(_unpack, payloads))), descending, room)
    try:
        for payloads, tags, rows in _framed(stream):
            sorter.add(payloads, tags, keys(rows))
        for some in sorter.rows():
            for payload, (number,) in zip(some.payloads, some.tags, strict=True):
                yield number, _unpack(payload)
    finally:
        sorter.close()


def _deduplicate(by: Sequence[str], keep: str, room: Room, stream: Stream) -> Stream:
    found = Deduplicator(keep, lambda payloads: [_key(by, _unpack(payload)) for payload in payloads], room)
    try:
        waiting = found.full
        for number, row in stream:
            if waiting:
                break
            if found.fresh([_key(by, row)])[0]:
                yield number, row
                waiting = found.full
        else:
            return
        found.lay_aside([_pack(row)], [(number,)], [_key(by, row)])
        for payloads, tags, rows in _framed(stream):
            found.lay_aside(payloads, tags, [_key(by, row) for row in rows])
        for some in found.rows():
            for payload, (number,) in zip(some.payloads, some.tags, strict=True):
                yield number, _unpack(payload)
    finally:
        found.close()


def _key(by: Sequence[str], row: Row) -> str | None:
    """Return one text for all columns of a key; None if all are blank."""
    parts = [identity(row.get(column)) for column in by]
    return None if all(part is None for part in parts) else canonical(parts).decode()
