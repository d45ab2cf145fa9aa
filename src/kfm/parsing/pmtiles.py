"""Reads PMTiles, version 3: one file of map tiles with an index of them. Every offset is checked before it is used."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import unpack_from
from typing import Any, NamedTuple

from kfm.parsing.strict_json import decode

MAGIC = b"PMTiles\x03"
MEDIA_TYPE = "application/vnd.pmtiles"
_HEADER = 127
_GZIP = 2
VECTOR = 1  # the type of tile: Mapbox vector tiles
_MOST = 1 << 28  # bytes of a directory, of the metadata or of a tile after decompression
_ALL = 1 << 40  # bytes of them all
_DEEPEST = 4
_LAST = ((1 << 2 * 32) - 1) // 3  # tiles of the zooms 0 to 31


class NoTiles(ValueError):
    """The bytes are not a PMTiles file that can be read here. The text gives the reason and quotes none of them."""


class Tile(NamedTuple):
    """One entry of the index: where its bytes lie, and for how many tiles in a row they stand."""

    number: int  # along the Hilbert curve, all zooms after each other
    run: int
    offset: int
    length: int


class Tiles:
    """An opened PMTiles file."""

    def __init__(self, body: bytes, room: int = _ALL) -> None:
        """Open a file, of which all parts together may have `room` bytes after decompression."""
        if len(body) < _HEADER or not body.startswith(MAGIC):
            raise NoTiles("it does not begin as PMTiles does")
        self._body = body
        fields = unpack_from("<11Q", body, 8)
        self._root, self._metadata, self._leaves, self._data = (fields[n : n + 2] for n in (0, 2, 4, 6))  # start, size
        self.addressed = fields[8]
        self._packed, self._packed_tiles = body[97], body[98]
        self.kind = body[99]
        self.min_zoom, self.max_zoom = body[100], body[101]
        self.room, self.used = room, 0  # bytes after decompression
        self._read = {(0, _HEADER)}
        west, south, east, north = unpack_from("<4i", body, 102)
        self.bounds = (west / 1e7, south / 1e7, east / 1e7, north / 1e7)
        east, north = unpack_from("<2i", body, 119)
        self.centre = (east / 1e7, north / 1e7)

    def metadata(self) -> dict[str, Any]:
        found = decode(self.metadata_text().encode(), "the metadata")
        if not isinstance(found, dict):
            raise NoTiles("its metadata are not an object")
        return found

    def metadata_text(self) -> str:
        try:
            return self._unpacked(self._part(self._metadata, *self._metadata), self._packed).decode("utf-8")
        except UnicodeDecodeError:
            raise NoTiles("its metadata are not UTF-8") from None

    def entries(self) -> Iterator[Tile]:
        """Yield the entries of the index in its order."""
        yield from self._directory(self._root, self._root[0], self._root[1], 0, set())

    def tile(self, entry: Tile) -> bytes:
        """Return the bytes of a tile, decompressed."""
        start = self._data[0] + entry.offset
        return self._unpacked(self._part(self._data, start, entry.length), self._packed_tiles)

    def has_unread(self) -> bool:
        """Return whether the file has bytes, other than zeros, that no part of it names which was read."""
        end = 0
        for start, length in sorted(self._read):
            if start > end and self._body.count(0, end, start) < start - end:
                return True
            end = max(end, start + length)
        return self._body.count(0, end) < len(self._body) - end

    def _directory(
        self, section: tuple[int, ...], offset: int, length: int, depth: int, seen: set[int]
    ) -> Iterator[Tile]:
        if depth > _DEEPEST or offset in seen:
            raise NoTiles("its index is nested too deep, or in itself")
        seen.add(offset)
        numbers = _varints(self._unpacked(self._part(section, offset, length), self._packed))
        count = next(numbers)
        if count > len(self._body):
            raise NoTiles("its index counts more tiles than there are bytes")
        steps, runs, lengths = ([next(numbers) for _ in range(count)] for _ in range(3))
        number = at = 0
        for n in range(count):
            number += steps[n]
            if number + runs[n] > _LAST:
                raise NoTiles("its index has a tile of a zoom that there is not")
            said = next(numbers)
            at = at + lengths[n - 1] if said == 0 and n else said - 1
            if runs[n]:
                yield Tile(number, runs[n], at, lengths[n])
            else:
                yield from self._directory(self._leaves, self._leaves[0] + at, lengths[n], depth + 1, seen)

    def _part(self, section: tuple[int, ...], offset: int, length: int) -> bytes:
        start, size = section
        if offset < start or offset + length > start + size or start + size > len(self._body):
            raise NoTiles("an offset points outside of its section")
        self._read.add((offset, length))
        return self._body[offset : offset + length]

    def _unpacked(self, body: bytes, how: int) -> bytes:
        if how != _GZIP:
            if how != 1:
                raise NoTiles("it is compressed in a way that is not known here")
            return self._fitting(body)
        reader = zlib.decompressobj(31)
        try:
            found = reader.decompress(body, min(_MOST, self.room) + 1)
        except zlib.error:
            raise NoTiles("a compressed part is damaged") from None
        if len(found) <= min(_MOST, self.room) and (not reader.eof or reader.unused_data):
            raise NoTiles("a compressed part is cut off, or something follows it")
        return self._fitting(found)

    def _fitting(self, body: bytes) -> bytes:
        self.room, self.used = self.room - len(body), self.used + len(body)
        if self.room < 0 or len(body) > _MOST:
            raise NoTiles("its parts are too large")
        return body


def _varints(body: bytes) -> Iterator[int]:
    found = shift = 0
    for byte in body:
        found |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            if shift > 63:
                raise NoTiles("its index holds a number that is too large")
        else:
            yield found
            found = shift = 0
    raise NoTiles("its index is cut off")


def place_of(number: int) -> tuple[int, int, int]:
    """Return zoom, column and row of a tile by its number along the Hilbert curve."""
    zoom, before = 0, 0
    while number >= before + (1 << (2 * zoom)):
        before += 1 << (2 * zoom)
        zoom += 1
    rest, x, y, step = number - before, 0, 0, 1
    while step < 1 << zoom:
        right = 1 & (rest // 2)
        up = 1 & (rest ^ right)
        if not up:
            if right:
                x, y = step - 1 - x, step - 1 - y
            x, y = y, x
        x, y, rest, step = x + step * right, y + step * up, rest // 4, step * 2
    return zoom, x, y
