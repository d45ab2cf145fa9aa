"""Reads the directories of a TIFF file without decoding pixels, in Python because the file is not trusted.

It reads TIFF 6.0 and BigTIFF. A file is cloud-optimized by OGC 21-026 if every image is tiled (or small), the
directories come before the pixels, and each overview is smaller than the image before it with its pixels earlier in the
file.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, NamedTuple

MOST_DIRECTORIES = 1000
MOST_ENTRIES = 4096
MOST_TILES = 1 << 22
SMALL = 512  # pixels: an image no wider and no higher needs no tiles

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_INTEGERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
WIDTH, HEIGHT, SUBFILE, STRIP_OFFSETS, TILE_WIDTH, TILE_OFFSETS, TILE_SIZES = 256, 257, 254, 273, 322, 324, 325


class NoTiff(Exception):
    """The bytes are not a valid TIFF file."""


class Image(NamedTuple):
    """The entries of one directory that describe its image."""

    at: int
    width: int
    height: int
    is_mask: bool
    is_tiled: bool
    first: int  # offset of its first pixels; 0 if it has none


def images(file: BinaryIO) -> list[Image]:
    """Return the images of all directories, in file order. Raise NoTiff if the file is not a valid TIFF."""
    head = _read(file, 0, 16)
    order = {b"II": "<", b"MM": ">"}.get(head[:2])
    if order is None:
        raise NoTiff
    (version,) = struct.unpack_from(order + "H", head, 2)
    if version == 43 and struct.unpack_from(order + "HH", head, 4) == (8, 0):
        big = True
        (at,) = struct.unpack_from(order + "Q", head, 8)
    elif version == 42:
        big = False
        (at,) = struct.unpack_from(order + "I", head, 4)
    else:
        raise NoTiff
    found: list[Image] = []
    seen: set[int] = set()
    while at:
        if at in seen or len(found) == MOST_DIRECTORIES:
            raise NoTiff
        seen.add(at)
        image, at = _directory(file, at, order, big)
        found.append(image)
    if not found:
        raise NoTiff
    return found


def is_cloud_optimized(file: BinaryIO) -> bool:
    try:
        found = images(file)
    except NoTiff:
        return False
    layers = [image for image in found if not image.is_mask]
    if any(not image.is_tiled and max(image.width, image.height) > SMALL for image in found):
        return False
    if not layers or (len(layers) == 1 and max(layers[0].width, layers[0].height) > SMALL):
        return False  # a large image without overviews
    places = [image.at for image in found]
    pixels = [image.first for image in found if image.first]
    if places != sorted(places) or (pixels and places[-1] > min(pixels)):
        return False
    sizes = [image.width for image in layers]
    firsts = [image.first for image in layers if image.first]
    return sizes == sorted(sizes, reverse=True) and firsts == sorted(firsts, reverse=True)


def _directory(file: BinaryIO, at: int, order: str, big: bool) -> tuple[Image, int]:
    (count,) = struct.unpack(order + ("Q" if big else "H"), _read(file, at, 8 if big else 2))
    if count > MOST_ENTRIES:
        raise NoTiff
    start, size = at + (8 if big else 2), 20 if big else 12
    body = _read(file, start, count * size)
    after = _read(file, start + count * size, 8 if big else 4)
    known: dict[int, tuple[int, int, bytes]] = {}
    for n in range(count):
        tag, kind, number = struct.unpack_from(order + ("HHQ" if big else "HHI"), body, n * size)
        known[tag] = entry = (kind, number, body[n * size + (12 if big else 8) : (n + 1) * size])
        _check_end(file, entry, order)

    def first(tag: int) -> int:
        values = _values(file, known.get(tag), order, 1)
        return values[0] if values else 0

    tiled = TILE_WIDTH in known
    offsets = _values(file, known.get(TILE_OFFSETS if tiled else STRIP_OFFSETS), order, MOST_TILES)
    sub = first(SUBFILE)
    image = Image(
        at, first(WIDTH), first(HEIGHT), bool(sub & 4), tiled, min((each for each in offsets if each), default=0)
    )
    if image.width < 1 or image.height < 1:
        raise NoTiff
    return image, struct.unpack(order + ("Q" if big else "I"), after)[0]


def _check_end(file: BinaryIO, entry: tuple[int, int, bytes], order: str) -> None:
    """Raise NoTiff if the values of an entry lie beyond the end of the file: other readers silently ignore such an
    entry, and with it for example the position of the image."""
    kind, count, inline = entry
    size = _SIZES.get(kind, 1) * count
    if size > len(inline):
        (place,) = struct.unpack(order + ("Q" if len(inline) == 8 else "I"), inline)
        if place + size > file.seek(0, 2):
            raise NoTiff


def _values(file: BinaryIO, entry: tuple[int, int, bytes] | None, order: str, most: int) -> tuple[int, ...]:
    if entry is None:
        return ()
    kind, count, inline = entry
    letter = _INTEGERS.get(kind)
    if letter is None or count < 1:
        raise NoTiff
    count = min(count, most)
    size = _SIZES[kind] * count
    if _SIZES[kind] * entry[1] <= len(inline):
        return struct.unpack(f"{order}{count}{letter}", inline[:size])
    (place,) = struct.unpack(order + ("Q" if len(inline) == 8 else "I"), inline)
    return struct.unpack(f"{order}{count}{letter}", _read(file, place, size))


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    try:
        file.seek(at)
        body = file.read(size)
    except (OSError, OverflowError, ValueError) as problem:
        raise NoTiff from problem
    if len(body) < size:
        raise NoTiff
    return body
