"""What every step gave. A large plan is kept in flat arrays, forty-odd bytes a step."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

Done = tuple[int, str, int, str]  # position, digest, size, media type
SMALL = 1 << 16


class Results:
    """Positions to what was made there. Small plans keep the tuples as they are."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done = 0
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

    def add(self, entries: Iterable[Done]) -> None:
        """Each position is added once in a run; a journal replayed before it may have had it too."""
        rows = self._rows
        if rows is not None:
            for entry in entries:
                if rows[entry[0]] is None:
                    self.done += 1
                rows[entry[0]] = entry
            return
        for position, digest, size, media_type in entries:
            self._digests[32 * position : 32 * position + 32] = bytes.fromhex(digest[7:])
            self._sizes[position] = size
            index = self._media_index.get(media_type)
            if index is None:
                index = self._media_index[media_type] = len(self._media_names)
                self._media_names.append(media_type)
            self._media[position] = index
            if not self._seen[position]:
                self._seen[position] = 1
                self.done += 1

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
