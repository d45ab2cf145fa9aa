"""Reads the row count and the metadata from the footer of a Parquet file, in Python because the file is not trusted.

The footer is in Thrift's compact form: a struct is a sequence of fields, each with a type and a number, up to a stop
byte. Fields that the caller does not want are skipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MAGIC = b"PAR1"
ALL_OF = b"kfm:all_of"  # metadata key in a file that KFM converted: the digest of the original
MOST_FOOTER = 1 << 20  # bytes; a longer footer is ignored
_DEEPEST = 16
_ROWS, _PAIRS = 3, 5  # fields of FileMetaData
_KEY, _VALUE = 1, 2  # fields of a pair
_TRUE, _FALSE, _BYTE, _DOUBLE, _TEXT, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


class NoFooter(ValueError):
    """The bytes are not a Parquet footer."""


class Footer(NamedTuple):
    rows: int
    metadata: dict[bytes, bytes]  # names and values that the writer of the file added


def footer_of(tail: bytes) -> Footer | None:
    """Return the footer in the last bytes of a file; None if they hold no complete footer that can be read."""
    if len(tail) < 8 or tail[-4:] != MAGIC:
        return None
    size = int.from_bytes(tail[-8:-4], "little")
    if size > min(len(tail) - 8, MOST_FOOTER):
        return None
    reader = _ThriftReader(tail[len(tail) - 8 - size : len(tail) - 8])
    try:
        found = reader.struct({_ROWS: None, _PAIRS: {_KEY: None, _VALUE: None}})
    except (NoFooter, IndexError, RecursionError):
        return None
    rows, pairs = found.get(_ROWS), found.get(_PAIRS, [])
    if type(rows) is not int or type(pairs) is not list:
        return None
    said = {pair[_KEY]: pair[_VALUE] for pair in pairs if type(pair) is dict and {_KEY, _VALUE} <= pair.keys()}
    return Footer(rows, {key: value for key, value in said.items() if type(key) is bytes and type(value) is bytes})


class _ThriftReader:
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
                raise NoFooter

    def _integer(self) -> int:
        found = self._varint()
        return found >> 1 ^ -(found & 1)

    def _take(self, size: int) -> bytes:
        if size > len(self._body) - self._at:
            raise NoFooter
        self._at += size
        return self._body[self._at - size : self._at]

    def struct(self, wanted: dict[int, Any], depth: int = 0) -> dict[int, Any]:
        """Return the wanted fields of a struct; for a list of structs, the wanted fields of each."""
        found: dict[int, Any] = {}
        number = 0
        if depth > _DEEPEST:
            raise NoFooter
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
                raise NoFooter
            items = (self._value(head & 15, wanted, depth + 1) for _ in range(size))
            if wanted is not None:
                return list(items)
            for _ in items:
                pass
            return None
        if kind == _STRUCT:
            return self.struct(wanted or {}, depth + 1)
        raise NoFooter
