"""GeoJSON geometries in the plane of longitude and latitude: parsed within bounds, and whether two share a point.

Heights are ignored. A geometry that crosses the antimeridian is cut there, as RFC 7946 requires; a box may have its
west east of its east instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

Position = tuple[float, float]
Box = tuple[float, float, float, float]  # west, south, east, north
_DEEPEST = 4  # collections inside collections
_ROUNDING = 3.3306690738754716e-16  # a determinant that is larger than this part of its terms has the right sign
_MOST_BOXES = 4
KINDS = ("Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection")


class NoShape(ValueError):
    """A value is not a geometry. It holds the JSON pointer to the mistake and what belongs there, and no coordinate."""

    def __init__(self, pointer: str, what: str, hint: str) -> None:
        super().__init__(what)
        self.pointer = pointer
        self.what = what
        self.hint = hint


class Part(NamedTuple):
    """A point, a line or a polygon. A point is a path of one position."""

    box: Box
    paths: tuple[tuple[Position, ...], ...]
    has_area: bool


class Shape(NamedTuple):
    parts: tuple[Part, ...]

    def boxes(self) -> list[Box]:
        """Return at most four boxes that hold all parts: one for each part, or one for all of them."""
        boxes = [part.box for part in self.parts]
        if len(boxes) <= _MOST_BOXES:
            return boxes
        west, south, east, north = zip(*boxes, strict=True)
        return [(min(west), min(south), max(east), max(north))]

    def points(self) -> int:
        return sum(len(path) for part in self.parts for path in part.paths)


def halves(box: Box) -> list[Box]:
    """Return a box as one box, or as two if it crosses the antimeridian."""
    west, south, east, north = box
    if west <= east:
        return [box]
    return [(west, south, 180.0, north), (-180.0, south, east, north)]


def shape_of_box(box: Box) -> Shape:
    return Shape(tuple(_rectangle(half) for half in halves(box)))


def _rectangle(box: Box) -> Part:
    west, south, east, north = box
    ring = ((west, south), (east, south), (east, north), (west, north), (west, south))
    return Part(box, (ring,), True)


def is_box(shape: Shape, box: Box) -> bool:
    """Return whether a shape covers just its bounding box: a box, the two halves of one, or a point."""
    wanted = sorted(halves(box))
    if sorted(part.box for part in shape.parts) != wanted:
        return False
    for part in shape.parts:
        (path, *holes) = part.paths
        west, south, east, north = part.box
        if (west, south) == (east, north) and len(path) == 1:
            continue
        corners = {(west, south), (east, south), (east, north), (west, north)}
        straight = all((a[0] == b[0]) != (a[1] == b[1]) for a, b in pairwise(path))
        if holes or not part.has_area or len(path) != 5 or len(corners) != 4 or set(path) != corners or not straight:
            return False
    return True


def shape_of(geometry: Any, most_points: int, *, on_earth: bool = True) -> Shape:
    """Return a GeoJSON geometry as a shape. Raise NoShape if it is none, or has more positions than allowed."""
    reader = _GeometryReader(most_points, on_earth)
    return Shape(tuple(reader.parts(geometry, "", 0)))


class _GeometryReader:
    def __init__(self, most_points: int, on_earth: bool) -> None:
        self._most = most_points
        self._left = most_points
        self._on_earth = on_earth

    def parts(self, geometry: Any, at: str, depth: int) -> Iterator[Part]:
        if not isinstance(geometry, dict):
            raise NoShape(at, "is not a geometry", "write a GeoJSON geometry")
        kind = geometry.get("type")
        if kind not in KINDS:
            raise NoShape(f"{at}/type", "is not a type of geometry", f"write one of {', '.join(KINDS)}")
        if kind == "GeometryCollection":
            if depth == _DEEPEST:
                raise NoShape(at, "has too many collections inside each other", f"{_DEEPEST} are the most")
            for n, each in self._items(geometry.get("geometries"), f"{at}/geometries", 1):
                yield from self.parts(each, f"{at}/geometries/{n}", depth + 1)
            return
        single = kind.removeprefix("Multi")
        make = {"Point": self._point, "LineString": self._line, "Polygon": self._polygon}[single]
        place = f"{at}/coordinates"
        if kind == single:
            yield make(geometry.get("coordinates"), place)
            return
        for n, each in self._items(geometry.get("coordinates"), place, 1):
            yield make(each, f"{place}/{n}")

    def _point(self, value: Any, at: str) -> Part:
        return _part(((self._position(value, at),),), has_area=False)

    def _line(self, value: Any, at: str) -> Part:
        return _part((self._path(value, at, 2),), has_area=False)

    def _polygon(self, value: Any, at: str) -> Part:
        rings = []
        for n, each in self._items(value, at, 1):
            ring = self._path(each, f"{at}/{n}", 4)
            if ring[0] != ring[-1]:
                raise NoShape(f"{at}/{n}", "is not closed", "end the ring with its first position")
            rings.append(ring)
        return _part(tuple(rings), has_area=True)

    def _path(self, value: Any, at: str, least: int) -> tuple[Position, ...]:
        return tuple(self._position(each, f"{at}/{n}") for n, each in self._items(value, at, least))

    def _items(self, value: Any, at: str, least: int) -> Iterator[tuple[int, Any]]:
        if not isinstance(value, list) or len(value) < least:
            raise NoShape(at, "is not a list with enough in it", f"write a list of at least {least}")
        if len(value) > self._most:
            raise NoShape(at, "is too long", f"a geometry has at most {self._most} positions")
        yield from enumerate(value)

    def _position(self, value: Any, at: str) -> Position:
        self._left -= 1
        if self._left < 0:
            raise NoShape(at, "is one position too many", f"a geometry has at most {self._most} positions")
        if not isinstance(value, list) or not 2 <= len(value) <= 4 or not all(map(_is_number, value)):
            raise NoShape(at, "is not a position", "write [longitude, latitude]")
        x, y = float(value[0]), float(value[1])
        if self._on_earth and not (-180 <= x <= 180 and -90 <= y <= 90):
            raise NoShape(at, "is not on the earth", "longitudes are from -180 to 180, latitudes from -90 to 90")
        return x, y


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) if isinstance(value, float) else abs(value) <= 2**53


def _part(paths: tuple[tuple[Position, ...], ...], *, has_area: bool) -> Part:
    xs = [x for path in paths for x, _ in path]
    ys = [y for path in paths for _, y in path]
    return Part((min(xs), min(ys), max(xs), max(ys)), paths, has_area)


def overlap(a: Box, b: Box) -> bool:
    """Return whether two boxes that do not cross the antimeridian share a point."""
    return a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]


def intersect(a: Shape, b: Shape, spend: Callable[[int], object] = lambda _: None) -> bool:
    """Return whether two shapes share a point; to touch is enough. `spend` is told how much is compared, before."""
    spend(len(a.parts) * len(b.parts))
    return any(overlap(one.box, other.box) and _meet(one, other, spend) for one in a.parts for other in b.parts)


def _meet(a: Part, b: Part, spend: Callable[[int], object]) -> bool:
    spend(sum(map(len, a.paths)) + sum(map(len, b.paths)))
    ours = [each for each in _segments(a) if _near(each, b.box)]
    theirs = [each for each in _segments(b) if _near(each, a.box)]
    spend(len(ours) * len(theirs))
    if any(_touch(one, other) for one in ours for other in theirs):
        return True
    # No boundary meets the other one: each part is wholly inside or wholly outside the other.
    return (b.has_area and _is_inside(a.paths[0][0], b)) or (a.has_area and _is_inside(b.paths[0][0], a))


Segment = tuple[Position, Position]


def _segments(part: Part) -> Iterator[Segment]:
    for path in part.paths:
        if len(path) == 1:
            yield path[0], path[0]
        else:
            yield from pairwise(path)


def _near(segment: Segment, box: Box) -> bool:
    (x1, y1), (x2, y2) = segment
    west, south, east, north = box
    return (
        (x1 >= west or x2 >= west)
        and (x1 <= east or x2 <= east)
        and (y1 >= south or y2 >= south)
        and (y1 <= north or y2 <= north)
    )


def _touch(one: Segment, other: Segment) -> bool:
    (a, b), (c, d) = one, other
    if max(a[0], b[0]) < min(c[0], d[0]) or max(c[0], d[0]) < min(a[0], b[0]):
        return False
    if max(a[1], b[1]) < min(c[1], d[1]) or max(c[1], d[1]) < min(a[1], b[1]):
        return False
    return _side(c, d, a) * _side(c, d, b) <= 0 and _side(a, b, c) * _side(a, b, d) <= 0


def _side(a: Position, b: Position, c: Position) -> int:
    """Return on which side of the line from a to b the position c is: 1 left, -1 right, 0 on it. Exact."""
    left = (a[0] - c[0]) * (b[1] - c[1])
    right = (a[1] - c[1]) * (b[0] - c[0])
    sure = left - right
    if abs(sure) > _ROUNDING * (abs(left) + abs(right)):
        return 1 if sure > 0 else -1
    ax, ay, bx, by, cx, cy = map(Fraction, (*a, *b, *c))
    exact = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
    return (exact > 0) - (exact < 0)


def _is_inside(point: Position, polygon: Part) -> bool:
    """Return whether a position that is not on the boundary is inside: a ray from it crosses an odd number of edges."""
    inside = False
    y = point[1]
    for start, end in _segments(polygon):
        if (start[1] > y) != (end[1] > y) and (_side(start, end, point) > 0) == (end[1] > start[1]):
            inside = not inside
    return inside
