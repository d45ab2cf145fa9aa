"""Geometries in well-known binary (WKB): their bounding box, their kind, and to and from their GeoJSON form.

Every count is compared with the bytes that are left before it is used.
"""

from __future__ import annotations

from math import isfinite, isnan, nan
from struct import Struct, pack, unpack_from
from typing import Any

_DEEPEST = 8
_POINT = Struct("<BIdd")
_PARTS = {4: 1, 5: 2, 6: 3, 7: 0}  # multi-geometries and collections: the kind of their parts; 0: any
KINDS = ("", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection")
Box = tuple[float, float, float, float]


class NoGeometry(ValueError):
    """The bytes are not a geometry. The text gives the reason and quotes none of the bytes."""


def box_of(body: bytes) -> Box | None:
    """Return west, south, east and north of all positions; None if there are none. Raise NoGeometry if the bytes are
    not a geometry."""
    if len(body) == 21 and body[0] == 1:
        _, kind, x, y = _POINT.unpack(body)
        if kind == 1 and isfinite(x) and isfinite(y):
            return x, y, x, y
    reader = _WkbReader(body)
    reader.geometry(0, 0)
    if reader.at != len(body):
        raise NoGeometry("bytes follow the geometry")
    return reader.box


def kind_of(body: bytes) -> str:
    """Return the kind as GeoParquet names it, such as `Polygon` or `Point Z`. `box_of` must have accepted the bytes."""
    (code,) = unpack_from("<I" if body[0] else ">I", body, 1)
    kind, high, _ = _meaning(code)
    return KINDS[kind] + (" Z" if high else "")


def _meaning(code: int) -> tuple[int, bool, int]:
    """Return what a WKB type code means: the kind, whether positions have a height, and the numbers per position."""
    thousand = (code & 0x0FFFFFFF) // 1000
    high, measured = bool(code >> 31) or thousand in (1, 3), bool(code >> 30 & 1) or thousand in (2, 3)
    return (code & 0x0FFFFFFF) % 1000, high, 2 + high + measured


def as_geojson(body: bytes) -> dict[str, Any]:
    """Return the GeoJSON geometry, with heights and without measures. Raise NoGeometry if GeoJSON has no such
    geometry."""
    box_of(body)  # checks every count
    return _built(body, 0)[0]


def _built(body: bytes, at: int) -> tuple[dict[str, Any], int]:
    order = "<" if body[at] else ">"
    (code,) = unpack_from(order + "I", body, at + 1)
    at += 9 if code & 0x20000000 else 5
    kind, high, size = _meaning(code)

    def count() -> int:
        nonlocal at
        (found,) = unpack_from(order + "I", body, at)
        at += 4
        return int(found)

    def positions(many: int) -> list[list[float]]:
        nonlocal at
        flat = unpack_from(f"{order}{many * size}d", body, at)
        at += 8 * many * size
        places = [[flat[n] + 0.0, flat[n + 1] + 0.0] for n in range(0, len(flat), size)]  # no -0.0
        if high and all(map(isfinite, flat[2::size])):
            places = [[*place, z + 0.0] for place, z in zip(places, flat[2::size], strict=True)]
        return places

    if kind == 1:
        place = positions(1)[0]
        return {"type": "Point", "coordinates": [] if isnan(place[0]) else place}, at
    if kind == 2:
        return {"type": "LineString", "coordinates": positions(count())}, at
    if kind == 3:
        return {"type": "Polygon", "coordinates": [positions(count()) for _ in range(count())]}, at
    parts = []
    for _ in range(count()):
        part, at = _built(body, at)
        parts.append(part)
    if kind == 7:
        return {"type": KINDS[7], "geometries": parts}, at
    return {"type": KINDS[kind], "coordinates": [part["coordinates"] for part in parts]}, at


def of_geojson(geometry: Any, *, heights: bool = False) -> bytes:
    """Return a GeoJSON geometry as WKB. With `heights` it keeps those of positions; else it leaves them out. Raise
    NoGeometry if it is none, lies too deep, or would keep heights of some positions only."""
    body = _written(geometry, 0, 3 if heights and _has_heights(geometry) else 2, exactly=heights)
    box_of(body)  # every coordinate is a finite number
    return body


def _has_heights(geometry: Any) -> bool:
    """Return whether the first position has a third number."""
    within = geometry
    while isinstance(within, dict) or (isinstance(within, list) and within and isinstance(within[0], list | dict)):
        within = (within.get("geometries") or within.get("coordinates")) if isinstance(within, dict) else within[0]
    return isinstance(within, list) and len(within) > 2


def _written(geometry: Any, depth: int, size: int, *, exactly: bool) -> bytes:
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind not in KINDS[1:] or depth > _DEEPEST:
        raise NoGeometry("the geometry is of an unknown kind, or nested too deep")
    code = KINDS.index(kind)
    head = pack("<BI", 1, code + (1000 if size == 3 else 0))
    within = geometry.get("geometries" if code == 7 else "coordinates")
    if not isinstance(within, list):
        raise NoGeometry("the geometry has no coordinates")

    def line(places: Any) -> bytes:
        if not isinstance(places, list):
            raise NoGeometry("the geometry has a line without positions")
        return pack("<I", len(places)) + b"".join(_place(each, size, exactly=exactly) for each in places)

    if code == 1:
        return head + (_place(within, size, exactly=exactly) if within else pack(f"<{size}d", *[nan] * size))
    if code == 2:
        return head + line(within)
    if code == 3:
        return head + pack("<I", len(within)) + b"".join(map(line, within))
    part = KINDS[_PARTS[code]]
    parts = within if code == 7 else [{"type": part, "coordinates": each} for each in within]
    return head + pack("<I", len(parts)) + b"".join(_written(each, depth + 1, size, exactly=exactly) for each in parts)


def _place(place: Any, size: int, *, exactly: bool) -> bytes:
    if not isinstance(place, list) or len(place) < size or any(type(part) not in (int, float) for part in place[:size]):
        raise NoGeometry("a position is not two numbers")
    if exactly and len(place) != size:
        raise NoGeometry("only some positions have heights")
    try:
        return pack(f"<{size}d", *place[:size])
    except OverflowError:
        raise NoGeometry("a coordinate is not a finite number") from None


class _WkbReader:
    def __init__(self, body: bytes) -> None:
        self.at = 0
        self.box: Box | None = None
        self._body = body

    def _need(self, size: int) -> None:
        if size > len(self._body) - self.at:
            raise NoGeometry("the geometry is cut off")

    def _count(self, order: str, least: int) -> int:
        """Read a count of items that take at least `least` bytes each. Raise NoGeometry if fewer bytes are left."""
        self._need(4)
        (count,) = unpack_from(order + "I", self._body, self.at)
        self.at += 4
        self._need(int(count) * least)
        return int(count)

    def geometry(self, wanted: int, depth: int) -> None:
        self._need(5)
        first = self._body[self.at]
        if first > 1 or depth > _DEEPEST:
            raise NoGeometry("the geometry is nested too deep, or has no byte order")
        order = "<" if first else ">"
        (code,) = unpack_from(order + "I", self._body, self.at + 1)
        self.at += 5
        if code & 0x20000000:  # the number of a coordinate system follows and is skipped
            self._need(4)
            self.at += 4
        flags = (code >> 31 & 1) + (code >> 30 & 1)
        code &= 0x0FFFFFFF
        kind, size = code % 1000, 2 + flags + (0, 1, 1, 2)[code // 1000] if code < 4000 else 0
        if not size or not 1 <= kind <= 7 or (wanted and kind != wanted):
            raise NoGeometry("the geometry is of an unknown kind")
        if kind == 1:
            self._positions(order, 1, size, point=True)
        elif kind == 2:
            self._positions(order, self._count(order, 8 * size), size)
        elif kind == 3:
            for _ in range(self._count(order, 4)):
                self._positions(order, self._count(order, 8 * size), size)
        else:
            for _ in range(self._count(order, 5)):
                self.geometry(_PARTS[kind], depth + 1)

    def _positions(self, order: str, count: int, size: int, *, point: bool = False) -> None:
        self._need(8 * count * size)
        if not count:
            return
        found = unpack_from(f"{order}{count * size}d", self._body, self.at)
        self.at += 8 * count * size
        xs, ys = found[0::size], found[1::size]
        if point and isnan(xs[0]) and isnan(ys[0]):
            return  # an empty point
        if not (all(map(isfinite, xs)) and all(map(isfinite, ys))):
            raise NoGeometry("a coordinate is not a finite number")
        box = min(xs), min(ys), max(xs), max(ys)
        self.box = box if self.box is None else joined(self.box, box)


def joined(one: Box, other: Box) -> Box:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])
