"""Writes PMTiles and vector tiles as their specifications say, and as they forbid, without any code of the product."""

from __future__ import annotations

import gzip
import json
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Position = tuple[float, float]  # longitude, latitude


class Single(float):
    """A value that is written as a float of four bytes."""


class Signed(int):
    """A value that is written with its sign in the last bit."""


class Shape(NamedTuple):
    kind: int  # 1 points, 2 lines, 3 polygons
    parts: Sequence[Sequence[Position]]
    values: dict[str, Any]


def point(lng: float, lat: float, **values: Any) -> Shape:
    return Shape(1, [[(lng, lat)]], values)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, body: bytes | int) -> bytes:
    if isinstance(body, int):
        return varint(number << 3) + varint(body)
    return varint(number << 3 | 2) + varint(len(body)) + body


def zigzag(number: int) -> int:
    return number * 2 if number >= 0 else -number * 2 - 1


def value_of(value: Any) -> bytes:
    if isinstance(value, str):
        return field(1, value.encode())
    if isinstance(value, Single):
        return varint(2 << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, float):
        return varint(3 << 3 | 1) + struct.pack("<d", value)
    return field(6, zigzag(value)) if isinstance(value, Signed) else field(5, value)


def units(zoom: int, position: Position) -> Position:
    """How far across and down the world a position is, in tiles."""
    lng, lat = position
    down = 0.5 - math.asinh(math.tan(math.radians(lat))) / (2 * math.pi)
    return (lng + 180) / 360 * 2**zoom, down * 2**zoom


def tile_of(zoom: int, position: Position) -> tuple[int, int, int]:
    across, down = units(zoom, position)
    return zoom, int(across), int(down)


def tile(
    place: tuple[int, int, int],
    shapes: Iterable[Shape],
    *,
    layer: str = "l",
    extent: int = 4096,
    snap: Callable[[float], float] = round,
) -> bytes:
    """One layer of one tile. Nothing is clipped."""
    zoom, column, row = place
    keys: list[str] = []
    values: list[bytes] = []
    body = field(15, 2) + field(1, layer.encode()) + field(5, extent)
    for shape in shapes:
        tags = b""
        for name, value in shape.values.items():
            if name not in keys:
                keys.append(name)
            if value_of(value) not in values:
                values.append(value_of(value))
            tags += varint(keys.index(name)) + varint(values.index(value_of(value)))
        commands, x, y = b"", 0, 0
        for part in shape.parts:
            for n, position in enumerate(part):
                across, down = units(zoom, position)
                to = int(snap((across - column) * extent)), int(snap((down - row) * extent))
                commands += varint(1 << 3 | 1) if n == 0 else varint(1 << 3 | 2)
                commands += varint(zigzag(to[0] - x)) + varint(zigzag(to[1] - y))
                x, y = to
            commands += varint(1 << 3 | 7) if shape.kind == 3 else b""
        drawn = field(2, tags) + field(3, shape.kind) + (field(4, commands) if commands else b"")
        body += field(2, drawn)
    body += b"".join(field(3, key.encode()) for key in keys) + b"".join(field(4, value) for value in values)
    return field(3, body)


def number_of(place: tuple[int, int, int]) -> int:
    """The number of a tile along the Hilbert curve, all zooms after each other."""
    zoom, x, y = place
    number, side = sum(4**each for each in range(zoom)), 2**zoom >> 1
    while side:
        right, down = int(x & side > 0), int(y & side > 0)
        number += side * side * ((3 * right) ^ down)
        if not down:
            if right:
                x, y = side - 1 - (x & (side - 1)), side - 1 - (y & (side - 1))
            x, y = y, x
        x, y = x & (side - 1), y & (side - 1)
        side >>= 1
    return number


Entry = tuple[int, int, int, int]  # number, run, offset, length


def directory(entries: Sequence[Entry]) -> bytes:
    out, last = varint(len(entries)), 0
    for number, *_ in entries:
        out += varint(number - last)
        last = number
    for column in (1, 3):
        out += b"".join(varint(entry[column]) for entry in entries)
    return out + b"".join(varint(offset + 1) for *_, offset, _ in entries)


def archive(
    tiles: dict[tuple[int, int, int], bytes],
    *,
    metadata: Any = None,
    bounds: tuple[float, float, float, float] = (0, 0, 0, 0),
    centre: Position = (0, 0),
    packed: int = 2,
    kind: int = 1,
    run: int = 1,
    leaf: bool = False,
    **parts: bytes,
) -> bytes:
    """A PMTiles file. `parts` replaces parts of it: `root`, `leaves` or `data`."""
    pack = gzip.compress if packed == 2 else bytes
    data, entries = b"", list[Entry]()
    for place, body in sorted(tiles.items(), key=lambda each: number_of(each[0])):
        made = pack(body)
        entries.append((number_of(place), run, len(data), len(made)))
        data += made
    root, leaves = pack(directory(entries)), b""
    if leaf:
        leaves = root
        root = pack(directory([(entries[0][0], 0, 0, len(leaves))]))
    root, leaves, data = parts.get("root", root), parts.get("leaves", leaves), parts.get("data", data)
    said = pack(json.dumps({} if metadata is None else metadata).encode())
    at, sections = 127, list[int]()
    for part in (root, said, leaves, data):
        sections += [at, len(part)]
        at += len(part)
    zooms = [place[0] for place in tiles] or [0]
    header = b"PMTiles\x03" + struct.pack("<11Q", *sections, len(tiles), len(tiles), len(tiles))
    header += bytes([1, packed, packed, kind, min(zooms), max(zooms)])
    header += struct.pack("<4i", *(round(edge * 1e7) for edge in bounds))
    header += bytes([min(zooms)]) + struct.pack("<2i", *(round(edge * 1e7) for edge in centre))
    return header + root + said + leaves + data
