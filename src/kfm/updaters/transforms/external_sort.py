"""Sorts rows within a memory limit: more rows are sorted in parts that are written to a scratch file.

A row is a payload (a text or bytes, from which its keys can be read again) and its tags, integers that go with it. Rows
with equal keys keep their order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, BinaryIO, NamedTuple

import msgspec

ROW = 128  # bytes counted for a row and its key, besides its characters
CARRIED = 64  # bytes counted for each carried column of a row
FRAME = 2048  # rows that are written and returned together

Payloads = list[Any]
Tags = Sequence[tuple[int, ...]]
_FRAME = tuple[list[Any], list[tuple[int, ...]]]
_Part = tuple[int, int]
Keys = list[Sequence[Any]]  # one sequence per sort column; None: blank


class Room(NamedTuple):
    """How much memory a step may use for rows and keys, and where it writes the rest."""

    scratch: Callable[[], BinaryIO]
    budget: int = 256 << 20  # approximate bytes of rows in memory
    keys: int = 1 << 20  # keys in memory


class Sorted(NamedTuple):
    payloads: Payloads
    tags: list[tuple[int, ...]]
    carried: list[list[Any]] = []  # columns passed with the rows, unless these went to the scratch file


class _Aside:
    """The scratch file of a sorter. It holds sorted parts, each made of frames that are written and read whole."""

    def __init__(self, room: Room) -> None:
        self.parts: list[_Part] = []
        self._scratch = room.scratch
        self._file: BinaryIO | None = None

    def write(self, frames: Iterable[bytes]) -> None:
        if self._file is None:
            self._file = self._scratch()
        begin = self._file.seek(0, 2)
        for frame in frames:
            self._file.write(len(frame).to_bytes(8, "big") + frame)
        self.parts.append((begin, self._file.tell()))

    def read(self, part: _Part) -> Iterator[bytes]:
        file = self._file
        assert file is not None
        at, end = part
        while at < end:
            file.seek(at)
            size = int.from_bytes(file.read(8), "big")
            at += 8 + size
            yield file.read(size)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Sorter:
    """Sorts rows within a memory limit. `keys` reads the keys of rows; `descending` says for each key whether the
    largest comes first."""

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
        self._aside = _Aside(room)

    def add(self, payloads: Payloads, tags: Tags, keys: Keys, carried: Sequence[Sequence[Any]] = ()) -> None:
        """Add rows. `tags` may be empty if no row has any. `carried` are columns that need not be read again."""
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
        """Yield all rows in order, some at a time."""
        if not self._aside.parts:
            yield from self._in_memory()
            return
        self._lay_aside()
        yield from self._merged()

    def keys(self, some: Sorted) -> Sequence[Any]:
        """Return the first sort key of rows that `rows` yielded."""
        return self._keys_of(some.payloads, some.tags)[0]

    def close(self) -> None:
        self._aside.close()

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
        self._aside.write(msgspec.msgpack.encode((frame.payloads, frame.tags)) for frame in self._in_memory())
        self._held = 0

    def _merged(self) -> Iterator[Sorted]:
        held = Sorted([], [])
        rows = heapq.merge(*(self._part(part) for part in self._aside.parts), key=_first)
        for _, payload, tag in rows:
            held.payloads.append(payload)
            if tag is not None:
                held.tags.append(tag)
            if len(held.payloads) >= FRAME:
                yield held
                held = Sorted([], [])
        if held.payloads:
            yield held

    def _part(self, part: _Part) -> Iterator[tuple[Any, Any, Any]]:
        for frame in self._aside.read(part):
            payloads, tags = msgspec.msgpack.decode(frame, type=_FRAME)
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
    """A value that compares in reversed order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turned) and self.value == other.value

    def __lt__(self, other: _Turned) -> bool:
        return bool(other.value < self.value)


# --------------------------------------------------------------------- rows of texts

_NUL = "\0"
_COUNT = 5 * 10**12  # the number of the first row; all numbers have as many digits


class TextSorter:
    """Sorts rows of texts without NUL: each row is one text that begins with its keys.

    Each field follows a NUL, which sorts before everything, and a sign that puts blank keys last. The number of the row
    follows the keys, so rows with equal keys keep their order.
    """

    def __init__(self, keys: int, descending: bool, room: Room) -> None:
        self._keys = keys
        self._descending = descending
        self._filled, self._blank = (_NUL + "1", _NUL + "0") if descending else (_NUL + "0", _NUL + "1")
        self._room = room
        self._next = _COUNT
        self._width = 0
        self._texts: list[str] = []
        self._held = 0
        self._aside = _Aside(room)

    def add(self, columns: Sequence[Sequence[str]]) -> None:
        """Add rows by columns; the keys are the first columns."""
        filled, blank = self._filled, self._blank
        keys, rest = columns[: self._keys], columns[self._keys :]
        size = len(columns[0])
        self._width = len(columns)
        step = -1 if self._descending else 1
        counts = map(str, range(self._next, self._next + step * size, step))
        self._next += step * size
        heads: list[Iterable[str]] = [repeat("", size), *keys]
        if any(map(has_blank, keys)):
            shown = [[blank if not text or text.isspace() else filled + text for text in key] for key in keys]
            heads = [map("".join, zip(*shown, strict=True))]
        texts = list(map(filled.join, zip(*heads, counts, *rest, strict=True)))
        self._texts += texts
        self._held += sum(map(len, texts)) + CARRIED * size
        if self._held > self._room.budget:
            self._lay_aside()

    def rows(self) -> Iterator[tuple[list[list[str]], bool]]:
        """Yield the columns of all rows in order, some at a time, and whether no key is blank; a blank key is empty."""
        for texts in self._sorted():
            joined = "".join(texts)
            blank = self._blank in joined
            if blank:
                joined = joined.replace(self._blank, self._filled)
            flat = joined.split(self._filled)
            places = [*range(1, self._keys + 1), *range(self._keys + 2, self._width + 2)]
            yield [flat[i :: self._width + 1] for i in places], not blank

    def close(self) -> None:
        self._aside.close()

    def _sorted(self) -> Iterator[list[str]]:
        if not self._aside.parts:
            yield from self._in_memory()
            return
        self._lay_aside()
        rows = heapq.merge(*map(self._part, self._aside.parts), reverse=self._descending)
        while some := list(islice(rows, FRAME)):
            yield some

    def _in_memory(self) -> Iterator[list[str]]:
        texts, self._texts = self._texts, []
        texts.sort(reverse=not self._descending)  # all differ; taken from the end, so that memory is freed
        while texts:
            some = texts[: -FRAME - 1 : -1]
            del texts[-FRAME:]
            yield some

    def _lay_aside(self) -> None:
        if self._texts:
            self._aside.write(map(msgspec.msgpack.encode, self._in_memory()))
            self._held = 0

    def _part(self, part: _Part) -> Iterator[str]:
        for frame in self._aside.read(part):
            yield from msgspec.msgpack.decode(frame, type=list[str])


def has_blank(column: Sequence[str]) -> bool:
    """Return whether any text is empty or white space."""
    return not all(column) or any(map(str.isspace, column))
