"""A reader of vector tiles that shares no code with the product: protocol buffers, as the specification of MVT says."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from struct import unpack
from typing import Any

from pmtiles.reader import MemorySource, Reader, all_tiles


def fields(body: bytes) -> Iterator[tuple[int, Any]]:
    at = 0

    def varint() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte = body[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return found

    while at < len(body):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        elif kind == 2:
            size = varint()
            yield tag >> 3, body[at : at + size]
            at += size
        else:
            size = {1: 8, 5: 4}[kind]
            yield tag >> 3, body[at : at + size]
            at += size


def value_of(body: bytes) -> Any:
    ((kind, value),) = fields(body)
    if kind == 1:
        return value.decode()
    if kind in (2, 3):
        return unpack("<f" if kind == 2 else "<d", value)[0]
    return (value >> 1) ^ -(value & 1) if kind == 6 else bool(value) if kind == 7 else value


def features_of(tile: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every feature of a tile: its layer and its attributes."""
    for number, layer in fields(tile):
        assert number == 3
        parts = list(fields(layer))
        name = next(value.decode() for kind, value in parts if kind == 1)
        keys = [value.decode() for kind, value in parts if kind == 3]
        values = [value_of(value) for kind, value in parts if kind == 4]
        for feature in (value for kind, value in parts if kind == 2):
            tags = [n for kind, value in fields(feature) if kind == 2 for n in varints(value)]
            yield name, {keys[k]: values[v] for k, v in zip(tags[::2], tags[1::2], strict=True)}


def varints(body: bytes) -> Iterator[int]:
    found = shift = 0
    for byte in body:
        found |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield found
            found = shift = 0


class Map:
    """A PMTiles file, read by its reference implementation."""

    def __init__(self, body: bytes) -> None:
        self.header = Reader(MemorySource(body)).header()
        self.metadata = Reader(MemorySource(body)).metadata()
        self.tiles = {place: gzip.decompress(tile) for place, tile in all_tiles(MemorySource(body))}

    def features(self, zoom: int) -> list[tuple[str, dict[str, Any]]]:
        return [each for (z, _, _), tile in self.tiles.items() if z == zoom for each in features_of(tile)]

    def all_bytes(self) -> bytes:
        return b"".join(self.tiles.values()) + repr(self.metadata).encode()
