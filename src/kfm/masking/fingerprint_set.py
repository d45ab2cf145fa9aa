"""A compact set of fingerprints: eight bytes each, sorted, so that a lookup does not read the others."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable

SIZE = 8  # stored bytes of a fingerprint; two differ except by a chance of one in 2^64


class Marks:
    """A set of fingerprints, as sorted lists of 64-bit numbers. The union of two sets copies neither."""

    __slots__ = ("_lists",)

    def __init__(self, *lists: array[int]) -> None:
        self._lists = tuple(one for one in lists if one)

    def __contains__(self, mark: int) -> bool:
        for one in self._lists:
            at = bisect_left(one, mark)
            if at < len(one) and one[at] == mark:
                return True
        return False

    def __len__(self) -> int:
        return sum(map(len, self._lists))

    def __or__(self, other: Marks) -> Marks:
        return Marks(*self._lists, *other._lists)

    def packed(self) -> bytes:
        """Return the set as it is stored: little-endian numbers. It must consist of at most one list."""
        (only,) = self._lists or (array("Q"),)
        return _swapped(only).tobytes()


def unpacked(body: bytes | Iterable[str]) -> Marks:
    """Return a set from its stored form. The oldest states stored hexadecimal texts instead of numbers."""
    if not isinstance(body, bytes):
        return Marks(array("Q", sorted(int(text[: 2 * SIZE], 16) for text in body)))
    found = array("Q")
    found.frombytes(body)
    return Marks(_swapped(found))


def _swapped(numbers: array[int]) -> array[int]:
    if sys.byteorder == "little":
        return numbers
    out = numbers[:]
    out.byteswap()
    return out


class MarkCollector:
    """Collects fingerprints in any order, often repeated. It groups them by their first byte, so that it never sorts
    more than one of 256 groups at once."""

    __slots__ = ("_parts", "_room")

    def __init__(self) -> None:
        self._parts = [array("Q") for _ in range(256)]
        self._room = [4096] * 256

    def add(self, marks: bytes) -> None:
        """Add many fingerprints, given as concatenated big-endian numbers."""
        some = array("Q")
        some.frombytes(marks)
        if sys.byteorder == "little":
            some.byteswap()
        some = array("Q", sorted(set(some)))
        begin = 0
        for at, part in enumerate(self._parts):
            end = bisect_left(some, at + 1 << 56, begin) if at < 255 else len(some)
            part.extend(some[begin:end])
            begin = end
            if len(part) > self._room[at]:
                self._parts[at] = kept = array("Q", sorted(set(part)))
                self._room[at] = max(4096, 2 * len(kept))

    def sorted(self) -> Marks:
        out = array("Q")
        for part in self._parts:
            out.extend(array("Q", sorted(set(part))))
        return Marks(out)
