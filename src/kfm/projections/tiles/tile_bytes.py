"""Writes a map tile as a Mapbox vector tile (MVT 2.1): layers of points, lines and areas in units of the tile. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MEDIA_TYPE = "application/vnd.mapbox-vector-tile"
EXTENT = 4096  # units of a side of a tile
POINTS, LINES, AREAS = 1, 2, 3
Corner = tuple[int, int]  # across and down from the corner of the tile


class TileFeature(NamedTuple):
    """A feature of a tile. The parts of an area are its rings, which do not repeat their first corner."""

    kind: int
    parts: Sequence[Sequence[Corner]]
    values: Mapping[str, int] = {}


class TileLayer(NamedTuple):
    name: str
    features: Sequence[TileFeature]


def tile_bytes(layers: Iterable[TileLayer]) -> bytes:
    """Return the tile with these layers, one without features too. Equal layers give equal bytes."""
    return b"".join(_field(3, _layer(each)) for each in layers)


def _layer(layer: TileLayer) -> bytes:
    keys: dict[str, int] = {}
    values: dict[int, int] = {}
    features = []
    for each in layer.features:
        tags = []
        for name, value in each.values.items():
            tags += [keys.setdefault(name, len(keys)), values.setdefault(value, len(values))]
        body = _field(2, _numbers(tags)) if tags else b""
        body += _number(3 << 3) + _number(each.kind) + _field(4, _numbers(_commands(each)))
        features.append(_field(2, body))
    head = _number(15 << 3) + _number(2) + _field(1, layer.name.encode())
    tail = b"".join(_field(3, name.encode()) for name in keys)
    tail += b"".join(_field(4, _number(5 << 3) + _number(value)) for value in values)
    return head + b"".join(features) + tail + _number(5 << 3) + _number(EXTENT)


def _commands(feature: TileFeature) -> list[int]:
    """Return the geometry as commands: 1 moves, 2 draws lines, 7 closes a ring; each place counts from the last."""
    found: list[int] = []
    x = y = 0
    if feature.kind == POINTS:
        corners = [corner for part in feature.parts for corner in part]
        found.append(len(corners) << 3 | 1)
        for to in corners:
            found += [_zigzag(to[0] - x), _zigzag(to[1] - y)]
            x, y = to
        return found
    for part in feature.parts:
        for number, to in enumerate(part):
            if number < 2:
                found.append(1 << 3 | 1 if number == 0 else (len(part) - 1) << 3 | 2)
            found += [_zigzag(to[0] - x), _zigzag(to[1] - y)]
            x, y = to
        if feature.kind == AREAS:
            found.append(1 << 3 | 7)
    return found


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _field(number: int, body: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(body)) + body


def _number(value: int) -> bytes:
    return _numbers((value,))


def _numbers(values: Iterable[int]) -> bytes:
    found = bytearray()
    for value in values:
        while value > 0x7F:
            found.append(value & 0x7F | 0x80)
            value >>= 7
        found.append(value)
    return bytes(found)
