"""Keeps one row per key within a memory limit.

As long as the keys fit, they are in a set, and the first row of each key passes at once. After that, and for `last`
from the beginning, rows are sorted by key, one per key is chosen, and the chosen rows are put back in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import compress

from kfm.updaters.transforms.external_sort import Keys, Payloads, Room, Sorted, Sorter, Tags

_SHORT = 32

KeyTexts = Sequence[str | None]  # the key of each row; None: no key, so the row stays


class Deduplicator:
    """Chooses one row for each key. The caller calls `fresh` until `full` is set, then `lay_aside` for the other rows,
    and at the end takes those that stay from `rows`."""

    def __init__(
        self,
        keep: str,
        keys: Callable[[Payloads], KeyTexts],
        room: Room,
    ) -> None:
        self._last = keep == "last"
        self._limit = room.keys
        self._seen: set[str | bytes] = set()
        self._count = 0
        self._by_key = Sorter(lambda payloads, _tags: [keys(payloads)], (False,), room)
        self._by_count = Sorter(_counted, (False,), room)

    @property
    def full(self) -> bool:
        return self._last or len(self._seen) > self._limit

    def fresh(self, keys: KeyTexts) -> list[bool]:
        """Return, for each row, whether it stays: whether its key was not seen before."""
        seen, add = self._seen, self._seen.add
        return [key is None or (key not in seen and not add(key)) for key in _compact(keys)]

    def lay_aside(self, payloads: Payloads, tags: Tags, keys: KeyTexts) -> None:
        """Store rows about which nothing is decided yet. The first tag of each row is its number."""
        counts = range(self._count, self._count + len(payloads))
        self._count += len(payloads)
        tagged: Tags = [(count, *tag) for count, tag in zip(counts, tags or [()] * len(payloads), strict=True)]
        if self._seen:
            mask = [key is None or key not in self._seen for key in _compact(keys)]
            payloads, tagged = list(compress(payloads, mask)), list(compress(tagged, mask))
            keys = list(compress(keys, mask))
        self._by_key.add(payloads, tagged, [keys])

    def rows(self) -> Iterator[Sorted]:
        """Yield the stored rows that stay, in order."""
        try:
            for chosen in self._chosen():
                self._by_count.add(chosen.payloads, chosen.tags, _counted(chosen.payloads, chosen.tags))
            for some in self._by_count.rows():
                yield Sorted(some.payloads, [tag[1:] for tag in some.tags if len(tag) > 1])
        finally:
            self.close()

    def close(self) -> None:
        self._by_key.close()
        self._by_count.close()

    def _chosen(self) -> Iterator[Sorted]:
        """Yield, sorted by key and arrival, the first or last row of each key, and all rows without one."""
        before: tuple[str | None, object, tuple[int, ...]] | None = None
        for some in self._by_key.rows():
            chosen = Sorted([], [])
            for key, payload, tag in zip(self._by_key.keys(some), some.payloads, some.tags, strict=True):
                ends = before is not None and (key is None or before[0] != key)
                if self._last and ends and before is not None:
                    chosen.payloads.append(before[1])
                    chosen.tags.append(before[2])
                if not self._last and (ends or before is None):
                    chosen.payloads.append(payload)
                    chosen.tags.append(tag)
                before = key, payload, tag
            yield chosen
        if self._last and before is not None:
            yield Sorted([before[1]], [before[2]])


def _counted(_payloads: Payloads, tags: Tags) -> Keys:
    return [[tag[0] for tag in tags]]


def _compact(keys: KeyTexts) -> Sequence[str | bytes | None]:
    """Return the keys with long ones replaced by 128-bit digests."""
    if max(map(len, filter(None, keys) if None in keys else keys), default=0) <= _SHORT:  # type: ignore[arg-type]
        return keys
    return [key if key is None or len(key) <= _SHORT else _digest(key) for key in keys]


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=16).digest()
