"""The results of all steps. Those of a large plan are in flat arrays, about 40 bytes a step."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

Done = tuple[int, str, int, str]  # position, digest, size, media type
SMALL = 1 << 16


class Results:
    """The results of steps by their positions in the plan. A small plan keeps plain tuples."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.described: dict[int, dict[str, Any]] = {}  # descriptions of outputs, by position; most have none
        self.done = 0
        self.retries = 0  # failed attempts that were repeated
        self._rows: list[Done | None] | None = None
        if steps <= SMALL:
            self._rows = [None] * steps
            return
        self._seen = bytearray(steps)
        self._digests = bytearray(32 * steps)
        self._sizes = array("Q", bytes(8 * steps))
        self._media = array("H", bytes(2 * steps))
        self._media_index: dict[str, int] = {}
        self._media_names: list[str] = []

    def add(self, entries: Sequence[Done]) -> None:
        """Add the results of these steps. A run adds each position once; the journal may have added it before."""
        rows = self._rows
        if rows is not None:
            for entry in entries:
                if rows[entry[0]] is None:
                    self.done += 1
                rows[entry[0]] = entry
            return
        if entries and not self._add_at_once(entries):
            for run in _runs(entries):
                self._add_at_once(run)

    def _add_at_once(self, entries: Sequence[Done]) -> bool:
        """Add consecutive results of one media type in one go, which is fast; return False if they are not that."""
        first, count = entries[0][0], len(entries)
        positions, digests, sizes, media_types = zip(*entries, strict=True)
        if count > 1 and (positions != tuple(range(first, first + count)) or len(set(media_types)) > 1):
            return False
        media_type = media_types[0]
        index = self._media_index.get(media_type)
        if index is None:
            index = self._media_index[media_type] = len(self._media_names)
            self._media_names.append(media_type)
        end = first + count
        self._digests[32 * first : 32 * end] = bytes.fromhex("".join(digests).replace("sha256:", ""))
        self._sizes[first:end] = array("Q", sizes)
        self._media[first:end] = array("H", [index]) * count
        self.done += self._seen.count(0, first, end)
        self._seen[first:end] = b"\1" * count
        return True

    def is_done(self, position: int) -> bool:
        if self._rows is not None:
            return self._rows[position] is not None
        return bool(self._seen[position])

    def all_done(self, start: int, end: int) -> bool:
        if self._rows is not None:
            return None not in self._rows[start:end]
        return self._seen.find(0, start, end) < 0

    def get(self, position: int) -> Done:
        if self._rows is not None:
            entry = self._rows[position]
            assert entry is not None
            return entry
        start = 32 * position
        digest = "sha256:" + self._digests[start : start + 32].hex()
        return position, digest, self._sizes[position], self._media_names[self._media[position]]

    def total_size(self) -> int:
        if self._rows is not None:
            return sum(entry[2] for entry in self._rows if entry is not None)
        return sum(self._sizes)


def _runs(entries: Sequence[Done]) -> Iterator[list[Done]]:
    """Yield the entries sorted by position, in groups of consecutive positions with one media type. Threads finish
    steps in any order."""
    run: list[Done] = []
    for entry in sorted(entries, key=itemgetter(0)):
        if run and (entry[0] != run[-1][0] + 1 or entry[3] != run[-1][3]):
            yield run
            run = []
        run.append(entry)
    yield run
