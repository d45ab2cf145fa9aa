"""The rows of a source, grouped by partition in one pass, so that the step of a partition reads only its own rows.

The rows wait in a scratch file. Memory holds at most `BUDGET` bytes of rows and, for each partition, where its rows
are; it does not grow with the number of rows.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, BinaryIO

import msgspec

BUDGET = 32 << 20  # approximate bytes of rows in memory
ROW = 128  # bytes counted for a row, besides its own
FRAME = 2048  # rows that are written and returned together

Numbers = list[int]
Payloads = list[Any]
_Frame = tuple[str, Numbers, Payloads]
_decode = msgspec.msgpack.Decoder(tuple[str, list[int], list[Any]]).decode


class PartitionSpool:
    """Groups rows by partition. A row is its number in the source and a payload of texts, bytes or JSON values. The
    rows of a partition keep their order. `of` may be called from several threads once `close` was called."""

    def __init__(self, scratch: Callable[[], BinaryIO], budget: int = BUDGET) -> None:
        self._scratch = scratch
        self._file = scratch()
        self._budget = budget
        self._groups: dict[str, tuple[Numbers, Payloads]] = {}
        self._held = 0
        self._runs: list[tuple[int, int]] = []
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def add(self, partitions: Sequence[str], numbers: Sequence[int], payloads: Sequence[Any], size: int) -> None:
        """Add rows; `size` is about how many bytes they take."""
        groups = self._groups
        for partition, number, payload in zip(partitions, numbers, payloads, strict=True):
            found = groups.get(partition)
            if found is None:
                found = groups[partition] = [], []
            found[0].append(number)
            found[1].append(payload)
        self._held += size + ROW * len(partitions)
        if self._held > self._budget:
            self._lay_aside()

    def close(self) -> PartitionSpool:
        """Group what was added, and return this spool for reading."""
        self._lay_aside()
        if len(self._runs) > 1:
            merged = heapq.merge(*(self._frames(*run) for run in self._runs), key=_partition)
            into = self._scratch()
            self._write(into, merged)
            self._file.close()
            self._file = into
        return self

    def of(self, partition: str) -> Iterator[tuple[Numbers, Payloads]]:
        """Yield the rows of a partition in the order of the source, some at a time."""
        for _, numbers, payloads in self._frames(*self._places.get(partition, (0, 0))):
            yield numbers, payloads

    def _lay_aside(self) -> None:
        if not self._groups:
            return
        groups, self._groups, self._held = self._groups, {}, 0
        begin = self._file.seek(0, 2)
        self._write(self._file, (frame for partition in sorted(groups) for frame in _cut(partition, groups[partition])))
        self._runs.append((begin, self._file.tell()))

    def _write(self, file: BinaryIO, frames: Iterable[_Frame]) -> None:
        """Write frames that are sorted by partition, and keep where each partition is."""
        at = file.tell()
        for partition, some in groupby(frames, key=_partition):
            begin = at
            for frame in some:
                body = msgspec.msgpack.encode(frame)
                file.write(len(body).to_bytes(8, "big") + body)
                at += 8 + len(body)
            self._places[partition] = begin, at

    def _frames(self, at: int, end: int) -> Iterator[_Frame]:
        while at < end:
            with self._lock:
                self._file.seek(at)
                size = int.from_bytes(self._file.read(8), "big")
                body = self._file.read(size)
            at += 8 + size
            yield _decode(body)


def _partition(frame: _Frame) -> str:
    return frame[0]


def _cut(partition: str, group: tuple[Numbers, Payloads]) -> Iterator[_Frame]:
    numbers, payloads = group
    for start in range(0, len(numbers), FRAME):
        yield partition, numbers[start : start + FRAME], payloads[start : start + FRAME]
