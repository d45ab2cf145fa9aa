"""Decodes one Mapbox vector tile (MVT): layers, features, attributes and geometry in units of the tile.

Every length is compared with the bytes that are left before it is used. A field that the format does not have is
refused: it could hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack
from typing import NamedTuple

from kfm.parsing.pmtiles import NoTiles

POINT, LINE, POLYGON = 1, 2, 3
Value = str | float | int | bool
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_KINDS = {1: _BYTES, 2: _FOUR, 3: _EIGHT, 4: _VARINT, 5: _VARINT, 6: _VARINT, 7: _VARINT}  # of a value, by field
_LARGEST = 1 << 31  # units of an extent, or from the corner of a tile


class Feature(NamedTuple):
    number: int | None
    values: list[tuple[str, Value]]
    kind: int
    positions: list[tuple[int, int]]  # of all its parts; across and down from the corner of the tile


class Layer(NamedTuple):
    name: str
    extent: int  # units of a side of the tile
    features: list[Feature]
    unused: list[Value]  # keys and values that no feature has


def layers_of(body: bytes) -> list[Layer]:
    """Return the layers of a tile. Raise NoTiles if the bytes are no vector tile."""
    found = []
    for field, layer in _fields(body):
        if field != 3 or not isinstance(layer, bytes):
            raise NoTiles("a tile has a part that vector tiles do not have")
        found.append(_layer(layer))
    return found


def _layer(body: bytes) -> Layer:
    name, extent, features = "", 4096, []
    keys: list[str] = []
    values: list[Value] = []
    for field, part in _fields(body):
        if field == 5 and isinstance(part, int):
            extent = part
        elif field == 15 and isinstance(part, int):
            pass  # the version: both are read alike
        elif not isinstance(part, bytes):
            raise NoTiles("a layer has a part that vector tiles do not have")
        elif field == 1:
            name = _text(part)
        elif field == 2:
            features.append(part)
        elif field == 3:
            keys.append(_text(part))
        elif field == 4:
            values.append(_value(part))
        else:
            raise NoTiles("a layer has a part that vector tiles do not have")
    if not 0 < extent <= _LARGEST:
        raise NoTiles("a layer has no extent")
    used: tuple[set[int], set[int]] = (set(), set())
    read = [_feature(feature, keys, values, used) for feature in features]
    unused: list[Value] = [key for n, key in enumerate(keys) if n not in used[0]]
    unused += [value for n, value in enumerate(values) if n not in used[1]]
    return Layer(name, extent, read, unused)


def _feature(body: bytes, keys: list[str], values: list[Value], used: tuple[set[int], set[int]]) -> Feature:
    number, kind = None, 0
    tags: list[int] = []
    commands: list[int] = []
    for field, part in _fields(body):
        if field == 1 and isinstance(part, int):
            number = part
        elif field == 3 and isinstance(part, int):
            kind = part
        elif field == 2 and isinstance(part, bytes) and not tags:
            tags = _varints(part)
        elif field == 4 and isinstance(part, bytes) and not commands:
            commands = _varints(part)
        else:
            raise NoTiles("a feature has a part that vector tiles do not have")
    try:
        said = [(keys[key], values[value]) for key, value in zip(tags[::2], tags[1::2], strict=True)]
    except (IndexError, ValueError):
        raise NoTiles("a feature names an attribute that its layer does not have") from None
    used[0].update(tags[::2])
    used[1].update(tags[1::2])
    return Feature(number, said, kind, _positions(commands))


def _positions(commands: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = x = y = 0
    while at < len(commands):
        command, count = commands[at] & 7, commands[at] >> 3
        at += 1
        if command == 7 and count == 1:
            continue
        if command not in (1, 2) or not 0 < count <= (len(commands) - at) // 2:
            raise NoTiles("a geometry has a command that vector tiles do not have")
        for n in range(at, at + 2 * count, 2):
            x, y = x + _signed(commands[n]), y + _signed(commands[n + 1])
            if abs(x) > _LARGEST or abs(y) > _LARGEST:
                raise NoTiles("a geometry is far from its tile")
            found.append((x, y))
        at += 2 * count
    return found


def _value(body: bytes) -> Value:
    parts = list(_fields(body))
    if len(parts) != 1:
        raise NoTiles("a value is not one value")
    field, part = parts[0]
    found: Value
    if isinstance(part, bytes) and _KINDS.get(field) == _BYTES:
        return _text(part)
    if isinstance(part, float) and field in (2, 3):
        return part
    if isinstance(part, int) and _KINDS.get(field) == _VARINT:
        found = part - (1 << 64) if field == 4 and part >> 63 else _signed(part) if field == 6 else part
        return bool(part) if field == 7 else found
    raise NoTiles("a value is of a kind that vector tiles do not have")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise NoTiles("a text of a tile is not UTF-8") from None


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _fields(body: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield the fields of a protocol buffer: number and content."""
    at, end = 0, len(body)
    while at < end:
        tag = body[at]  # numbers of one byte are read here: a call for each would take most of the time
        if tag < 0x80:
            at += 1
        else:
            tag, at = _varint(body, at)
        field, kind = tag >> 3, tag & 7
        if kind in (_VARINT, _BYTES):
            if at < end and (size := body[at]) < 0x80:
                at += 1
            else:
                size, at = _varint(body, at)
            if kind == _VARINT:
                yield field, size
                continue
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise NoTiles("a tile has a part of a kind that is not known here")
        if size > end - at:
            raise NoTiles("a part of a tile is cut off")
        part = body[at : at + size]
        at += size
        if kind == _BYTES:
            yield field, part
        elif kind == _EIGHT:
            yield field, unpack("<d", part)[0]
        else:  # no more digits than it has: then it is equal to the number that it was made of
            yield field, round(unpack("<f", part)[0], 5)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while shift < 70:
        if at >= len(body):
            raise NoTiles("a number of a tile is cut off")
        byte = body[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise NoTiles("a number of a tile has no end")


def _varints(body: bytes) -> list[int]:
    if body.isascii():  # each byte is a number
        return list(body)
    found = []
    at, end = 0, len(body)
    while at < end:
        byte = body[at]
        if byte < 0x80:
            at += 1
        else:
            byte, at = _varint(body, at)
        found.append(byte)
    return found
