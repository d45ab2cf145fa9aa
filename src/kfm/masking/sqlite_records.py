"""Reads the rows of a SQLite file from its bytes, without the database engine: a file of a stranger is only data here.

It reads every table leaf page, those of deleted tables included, and follows overflow pages. GeoPackage is SQLite.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = b"SQLite format 3\0"
_LEAF = 0x0D
Value = int | float | str | bytes | None


def rows(body: bytes) -> Iterator[list[Value]]:
    """Yield the values of each row. Raise ValueError if the file is damaged."""
    if len(body) < 100:
        raise ValueError("cut off")
    size = int.from_bytes(body[16:18], "big")
    size = 65536 if size == 1 else size
    usable, encoding = size - body[20], int.from_bytes(body[56:60], "big")
    if size < 512 or size & (size - 1) or usable < 480:
        raise ValueError("page size")
    text = {0: "utf-8", 1: "utf-8", 2: "utf-16-le", 3: "utf-16-be"}.get(encoding)
    if text is None:
        raise ValueError("encoding")
    for start in range(0, len(body) - size + 1, size):
        head = start + 100 if start == 0 else start
        if body[head] != _LEAF:
            continue
        count = int.from_bytes(body[head + 3 : head + 5], "big")
        for at in range(count):
            place = head + 8 + 2 * at
            cell = start + int.from_bytes(body[place : place + 2], "big")
            if place + 2 > start + size or cell >= start + size:
                raise ValueError("cell")
            yield _values(_payload(body, cell, size, usable), text)


def _payload(body: bytes, cell: int, size: int, usable: int) -> bytes:
    length, cell = _varint(body, cell)
    _, cell = _varint(body, cell)  # the row id
    if length > len(body):
        raise ValueError("length")
    most, least = usable - 35, (usable - 12) * 32 // 255 - 23
    if length <= most:
        return body[cell : cell + length]
    own = least + (length - least) % (usable - 4)
    own = own if own <= most else least
    out = bytearray(body[cell : cell + own])
    page = int.from_bytes(body[cell + own : cell + own + 4], "big")
    while page and len(out) < length:
        start = (page - 1) * size
        if start + size > len(body):
            raise ValueError("overflow")
        out += body[start + 4 : start + usable]
        page = int.from_bytes(body[start : start + 4], "big")
    if len(out) < length:
        raise ValueError("overflow")
    return bytes(out[:length])


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(9):
        if at >= len(body):
            raise ValueError("varint")
        byte = body[at]
        at += 1
        if n == 8:
            return (value << 8) | byte, at
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value, at


_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


def _values(payload: bytes, encoding: str) -> list[Value]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    out: list[Value] = []
    at = end
    for kind in kinds:
        size = _SIZES[kind] if kind < 10 else (kind - 12) // 2
        piece = payload[at : at + size]
        if kind in (10, 11) or len(piece) < size:
            raise ValueError("record")
        at += size
        if kind == 0:
            out.append(None)
        elif kind == 7:
            out.append(struct.unpack(">d", piece)[0])
        elif kind < 10:
            out.append(int.from_bytes(piece, "big", signed=True) if kind < 7 else kind - 8)
        elif kind % 2:
            out.append(piece.decode(encoding, "replace"))
        else:
            out.append(piece)
    return out
