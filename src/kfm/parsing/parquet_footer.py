"""The footer of a Parquet file, as far as it says what the file is about. In Python: it may come from anyone.

Thrift's compact form: a struct is fields of a kind and a number until a stop; what nobody asks for is stepped over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MAGIC = b"PAR1"
ALL_OF = b"kfm:all_of"  # in the footer of what we made of another format: the digest of the file that it is all of
MOST_FOOTER = 1 << 20  # bytes that are read here; a longer one says nothing
_DEEPEST = 16
_ROWS, _PAIRS = 3, 5  # fields of FileMetaData
_KEY, _VALUE = 1, 2  # of a pair
_TRUE, _FALSE, _BYTE, _DOUBLE, _TEXT, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


class Unreadable(ValueError):
    """It is no such footer."""


class Footer(NamedTuple):
    rows: int
    said: dict[bytes, bytes]  # what the writer added: name, value


def footer_of(tail: bytes) -> Footer | None:
    """Of the last bytes of a file; None if they hold no whole footer that can be read."""
    if len(tail) < 8 or tail[-4:] != MAGIC:
        return None
    size = int.from_bytes(tail[-8:-4], "little")
    if size > min(len(tail) - 8, MOST_FOOTER):
        return None
    reader = _Reader(tail[len(tail) - 8 - size : len(tail) - 8])
    try:
        found = reader.struct({_ROWS: None, _PAIRS: {_KEY: None, _VALUE: None}})
    except (Unreadable, IndexError, RecursionError):
        return None
    rows, pairs = found.get(_ROWS), found.get(_PAIRS, [])
    if type(rows) is not int or type(pairs) is not list:
        return None
    said = {pair[_KEY]: pair[_VALUE] for pair in pairs if type(pair) is dict and {_KEY, _VALUE} <= pair.keys()}
    return Footer(rows, {key: value for key, value in said.items() if type(key) is bytes and type(value) is bytes})


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def _byte(self) -> int:
        self._at += 1
        return self._body[self._at - 1]

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise Unreadable

    def _integer(self) -> int:
        found = self._varint()
        return found >> 1 ^ -(found & 1)

    def _take(self, size: int) -> bytes:
        if size > len(self._body) - self._at:
            raise Unreadable
        self._at += size
        return self._body[self._at - size : self._at]

    def struct(self, wanted: dict[int, Any], depth: int = 0) -> dict[int, Any]:
        """The fields that are wanted; of a list of structs those that are wanted of each."""
        found: dict[int, Any] = {}
        number = 0
        if depth > _DEEPEST:
            raise Unreadable
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            value = self._value(head & 15, wanted.get(number), depth, field=True)
            if number in wanted:
                found[number] = value
        return found

    def _value(self, kind: int, wanted: dict[int, Any] | None, depth: int, *, field: bool = False) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE if field else self._byte() == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return self._integer()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _TEXT:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._varint()
            if size > len(self._body) - self._at:
                raise Unreadable
            items = (self._value(head & 15, wanted, depth + 1) for _ in range(size))
            if wanted is not None:
                return list(items)
            for _ in items:
                pass
            return None
        if kind == _STRUCT:
            return self.struct(wanted or {}, depth + 1)
        raise Unreadable
