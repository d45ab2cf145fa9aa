"""Puts rows in order within a bound of memory: more than fits is sorted in parts that lie aside meanwhile.

A row is a payload (a text or bytes, from which its keys can be read again) and its tags, whole numbers
that go with it. The order of rows that are alike stays.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import msgspec

ROW = 128  # bytes that a row and its key count for beside its characters
CARRIED = 64  # and each of its columns that is carried along
FRAME = 2048  # rows that are laid aside and handed on together

Payloads = list[Any]
Tags = Sequence[tuple[int, ...]]
_FRAME = tuple[list[Any], list[tuple[int, ...]]]
Keys = list[Sequence[Any]]  # a sequence for each column to sort by; None: blank


class Room(NamedTuple):
    """How much a step may hold, and where it lays aside what is more."""

    scratch: Callable[[], BinaryIO]
    budget: int = 256 << 20  # bytes of rows in memory, about
    keys: int = 1 << 20  # keys in memory


class Sorted(NamedTuple):
    payloads: Payloads
    tags: list[tuple[int, ...]]
    carried: list[list[Any]] = []  # what was given along with the rows, unless they were laid aside meanwhile


class Sorter:
    """`keys` reads the keys of rows; `descending` says of each whether the largest comes first."""

    def __init__(
        self,
        keys: Callable[[Payloads, Tags], Keys],
        descending: Sequence[bool],
        room: Room,
    ) -> None:
        self._keys_of = keys
        self._descending = list(descending)
        self._room = room
        self._payloads: Payloads = []
        self._tags: list[tuple[int, ...]] = []
        self._keys: list[list[Any]] = [[] for _ in descending]
        self._carried: list[list[Any]] = []
        self._held = 0
        self._file: BinaryIO | None = None
        self._parts: list[tuple[int, int]] = []

    def add(self, payloads: Payloads, tags: Tags, keys: Keys, carried: Sequence[Sequence[Any]] = ()) -> None:
        """`tags` may be empty: then no row has any. `carried` are columns that need not be read again."""
        if not self._payloads:
            self._carried = [[] for _ in carried]
        for kept, column in zip(self._carried, carried, strict=True):
            kept += column
        self._payloads += payloads
        self._tags += tags
        for held, more in zip(self._keys, keys, strict=True):
            held += more
        self._held += sum(map(len, payloads)) + (ROW + CARRIED * len(carried)) * len(payloads)
        if self._held > self._room.budget:
            self._lay_aside()

    def rows(self) -> Iterator[Sorted]:
        """All rows in order, some at a time."""
        if not self._parts:
            yield from self._in_memory()
            return
        self._lay_aside()
        yield from self._merged()

    def keys(self, some: Sorted) -> Sequence[Any]:
        """The first key of rows that were given back."""
        return self._keys_of(some.payloads, some.tags)[0]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _order(self) -> list[int]:
        order = list(range(len(self._payloads)))
        for column, descending in zip(reversed(self._keys), reversed(self._descending), strict=True):
            if None in column:
                blank = [at for at in order if column[at] is None]
                order = [at for at in order if column[at] is not None]
            else:
                blank = []
            order.sort(key=column.__getitem__, reverse=descending)
            order += blank
        return order

    def _in_memory(self) -> Iterator[Sorted]:
        order = self._order()
        self._keys = [[] for _ in self._descending]
        payloads, tags, carried = self._payloads, self._tags, self._carried
        self._payloads, self._tags, self._carried = [], [], []
        for start in range(0, len(order), FRAME):
            some = order[start : start + FRAME]
            yield Sorted(
                list(map(payloads.__getitem__, some)),
                [tags[at] for at in some] if tags else [],
                [list(map(column.__getitem__, some)) for column in carried],
            )

    def _lay_aside(self) -> None:
        if not self._payloads:
            return
        if self._file is None:
            self._file = self._room.scratch()
        begin = self._file.seek(0, 2)
        for frame in self._in_memory():
            body = msgspec.msgpack.encode((frame.payloads, frame.tags))
            self._file.write(len(body).to_bytes(8, "big") + body)
        self._parts.append((begin, self._file.tell()))
        self._held = 0

    def _merged(self) -> Iterator[Sorted]:
        held = Sorted([], [])
        rows = heapq.merge(*(self._part(begin, end) for begin, end in self._parts), key=_first)
        for _, payload, tag in rows:
            held.payloads.append(payload)
            if tag is not None:
                held.tags.append(tag)
            if len(held.payloads) >= FRAME:
                yield held
                held = Sorted([], [])
        if held.payloads:
            yield held

    def _part(self, begin: int, end: int) -> Iterator[tuple[Any, Any, Any]]:
        file = self._file
        assert file is not None
        while begin < end:
            file.seek(begin)
            size = int.from_bytes(file.read(8), "big")
            payloads, tags = msgspec.msgpack.decode(file.read(size), type=_FRAME)
            begin += 8 + size
            for n, key in enumerate(zip(*self._keys_of(payloads, tags), strict=True)):
                whole = tuple(map(_comparable, key, self._descending))
                yield whole, payloads[n], tags[n] if tags else None


def _first(row: tuple[Any, Any, Any]) -> Any:
    return row[0]


def _comparable(value: Any, descending: bool) -> tuple[int, Any]:
    if value is None:
        return 1, None
    return 0, _Turned(value) if descending else value


class _Turned:
    """A value that comes before those it is larger than."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turned) and self.value == other.value

    def __lt__(self, other: _Turned) -> bool:
        return bool(other.value < self.value)
