"""The places of a version as vector tiles of the web: Web Mercator, zooms 0 to 14. Pure.

A tile holds what the drawing of the page holds and nothing finer: places are moved to the grid of the deepest zoom, and
the corners of a tile are corners of the drawing, or lie on an edge that the border of the tile cuts. Each tile is
bounded. Where many places share a pixel they are one dot that counts them; if that is not enough, dots merge further,
and then the smallest shapes are left out. Features of such a tile say `limited`.

A map of this kind ends near latitude 85. Places beyond are counted and not drawn. A shape that its file cuts at the
date line, as GeoJSON asks, has no seam there.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kfm.projections.pages.page_map import Drawing, Position, Ring
from kfm.projections.tiles.tile_bytes import AREAS, EXTENT, LINES, POINTS, Corner, TileFeature, TileLayer, tile_bytes

DEEPEST = 14
NORTHERNMOST = 85.05112878  # where the square map ends
MOST_DOTS = 3000  # of a tile
MOST_CORNERS = 8000  # of the lines and areas of a tile
_BITS = DEEPEST + 12  # of a coordinate of the world: a unit of the deepest zoom
WORLD = 1 << _BITS
_BUFFER = 64  # units around a tile, so that no border of a shape is seen where the tile cuts it
_PIXEL = 3  # bits of a tile's units that share a pixel
_WIDE_GAP = 90  # degrees without a place, from which on a map may cross the date line
_COARSEST = 6  # bits of a tile's units up to which corners of a shape are merged
Box = tuple[float, float, float, float]
Flat = list[tuple[float, float]]


class _Shape(NamedTuple):
    """A line, an area or a cell in units of the world."""

    layer: str
    rings: tuple[Flat, ...]
    box: Box
    holes: bool  # rings after the first one are holes


class PlaceTiles:
    """The tiles of one drawing."""

    def __init__(self, drawing: Drawing) -> None:
        self.beyond = 0  # places and shapes that are nearer to a pole than the map reaches
        self._dots = array("Q", sorted(self._numbers(drawing.points)))
        self._shapes = [*self._kept("lines", ((way,) for way in drawing.ways), holes=False)]
        self._shapes += self._kept("areas", drawing.areas, holes=not drawing.is_extent)
        self._shapes += self._kept("cells", drawing.cells, holes=False)

    @property
    def weight(self) -> int:
        """Roughly how many numbers the tiles keep."""
        return len(self._dots) + 2 * sum(len(ring) for shape in self._shapes for ring in shape.rings)

    def tile(self, zoom: int, column: int, row: int) -> bytes:
        """Return a tile; one without features where there is nothing."""
        shapes, small, limited = self._shapes_in(zoom, column, row)
        dots, merged = self._dots_in(zoom, column, row, small)
        extra = {"limited": 1} if limited or merged else {}
        layers = [TileLayer("points", list(_dot_features(dots, extra)))]
        for name, kind in (("lines", LINES), ("areas", AREAS), ("cells", AREAS)):
            own = [TileFeature(kind, parts, extra) for layer, parts in shapes if layer == name]
            if own:
                layers.append(TileLayer(name, own))
        return tile_bytes(layers)

    # -- points

    def _numbers(self, points: Iterable[Position]) -> Iterator[int]:
        for longitude, latitude in points:
            if abs(latitude) > NORTHERNMOST:
                self.beyond += 1
                continue
            x, y = _flat((longitude, latitude))
            yield _spread(int(x) % WORLD) | _spread(min(int(y), WORLD - 1)) << 1

    def _dots_in(self, zoom: int, column: int, row: int, small: Iterable[Corner]) -> tuple[Counter[Corner], bool]:
        """Return the dots of a tile, each with how many places it stands for, and whether dots were merged that do not
        share a pixel."""
        below = 2 * (_BITS - zoom)
        tile = _spread(column) | _spread(row) << 1
        start, end = bisect_left(self._dots, tile << below), bisect_left(self._dots, (tile + 1) << below)
        own = self._dots[start:end]
        bits = least = DEEPEST - zoom + (_PIXEL if zoom < DEEPEST else 0)
        firsts, counts = _merged(own, [1] * len(own), bits)
        while len(firsts) > MOST_DOTS:
            bits += 1
            firsts, counts = _merged(firsts, counts, bits)
        found: Counter[Corner] = Counter()
        fine = DEEPEST - zoom
        for number, count in zip(firsts, counts, strict=True):
            x, y = _gathered(number) - (column << (_BITS - zoom)), _gathered(number >> 1) - (row << (_BITS - zoom))
            found[x >> fine, y >> fine] += count
        left = MOST_DOTS
        for corner in small:
            if corner in found or left > 0:
                left -= corner not in found
                found[corner] += 1
        return found, bits > least or left <= 0

    # -- lines and areas

    def _kept(self, layer: str, shapes: Iterable[Sequence[Ring]], *, holes: bool) -> Iterator[_Shape]:
        for rings in shapes:
            flat = tuple([_flat(corner) for corner in ring] for ring in rings if ring)
            if not flat:
                continue
            xs, ys = [x for ring in flat for x, _ in ring], [y for ring in flat for _, y in ring]
            box = min(xs), min(ys), max(xs), max(ys)
            if box[3] < 0 or box[1] > WORLD:
                self.beyond += 1
            else:
                yield _Shape(layer, flat, box, holes)

    def _shapes_in(
        self, zoom: int, column: int, row: int
    ) -> tuple[list[tuple[str, list[list[Corner]]]], list[Corner], bool]:
        """Return the lines and areas of a tile, the places of those that are smaller than a pixel, and whether any were
        left out."""
        side = 1 << (_BITS - zoom)
        edge = _BUFFER << (DEEPEST - zoom)
        window = (column * side - edge, row * side - edge, (column + 1) * side + edge, (row + 1) * side + edge)
        near = [shape for shape in self._shapes if _meet(shape.box, window)]
        bits = 0 if zoom == DEEPEST else _PIXEL - 1
        while True:
            near = [each._replace(rings=_coarser(each.rings, DEEPEST - zoom + bits)) for each in near]
            found = [(shape, *_drawn(shape, window, zoom, column, row)) for shape in near]
            corners = sum(len(part) for _, parts, _ in found for part in parts)
            if corners <= MOST_CORNERS or bits >= _COARSEST:
                break
            bits += 1
        small = [place for _, _, places in found for place in places]
        if corners <= MOST_CORNERS:
            return [(shape.layer, parts) for shape, parts, _ in found if parts], small, False
        found.sort(key=lambda each: _size(each[0].box), reverse=True)
        kept, left = [], MOST_CORNERS
        for shape, parts, _ in found:
            count = sum(map(len, parts))
            if parts and count <= left:
                kept.append((shape.layer, parts))
                left -= count
        return kept, small, True


def _drawn(shape: _Shape, window: Box, zoom: int, column: int, row: int) -> tuple[list[list[Corner]], list[Corner]]:
    """Return the parts of a shape in units of the tile, or its first corner if all of it is one dot."""
    fine = DEEPEST - zoom
    left, top = column << (_BITS - zoom), row << (_BITS - zoom)
    is_line = shape.layer == "lines"
    parts: list[list[Corner]] = []
    small: list[Corner] = []
    for number, ring in enumerate(shape.rings):
        is_hole = number > 0 and shape.holes
        if is_hole and not parts:
            break
        if len({*ring}) < (2 if is_line else 3):
            x, y = int(ring[0][0] - left) >> fine, int(ring[0][1] - top) >> fine
            if not is_hole and 0 <= x < EXTENT and 0 <= y < EXTENT:
                small.append((x, y))
            continue
        if _is_within(shape.box, window):
            cut = [ring if is_line else _beyond_the_date_line(ring, window)]
        else:
            cut = [*_cut_line(ring, window)] if is_line else [_cut_area(_beyond_the_date_line(ring, window), window)]
        for part in cut:
            own = _units(part, left, top, fine)
            if is_line and len(own) > 1:
                parts.append(own)
            elif not is_line and len(own := own[:-1] if own and own[0] == own[-1] else own) > 2:
                parts.append(own if (_area(own) < 0) is is_hole else own[::-1])
    return parts, small


def bounds_of(drawing: Drawing) -> Box | None:
    """Return the narrowest box around all places that the map can show: west, south, east and north. East is above 180
    where the box crosses the date line. None if there are none."""
    points = [place for place in drawing.points if abs(place[1]) <= NORTHERNMOST]
    rings = [*drawing.ways, *(ring for shape in (*drawing.areas, *drawing.cells) for ring in shape)]
    spans = [(x, x) for x, _ in points] + [_span(ring) for ring in rings if ring]
    if not spans:
        return None
    norths = [max(-NORTHERNMOST, min(NORTHERNMOST, y)) for ring in (points, *rings) for _, y in ring]
    west, east = _narrowest(sorted(spans))
    return west, min(norths), east, max(norths)


def _span(ring: Ring) -> tuple[float, float]:
    xs = [x for x, _ in ring]
    return min(xs), max(xs)


def _narrowest(spans: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the ends of the widest gap between spans of longitude, the other way round. Without a wide gap the map
    begins at the date line, as maps of the world do."""
    widest, west, east = -math.inf, spans[0][0], spans[0][1]
    reached = spans[0][1]
    for start, end in spans[1:]:
        if start - reached > widest:
            widest, west, east = start - reached, start, reached
        reached = max(reached, end)
    if widest < _WIDE_GAP or spans[0][0] + 360 - reached >= widest:
        return spans[0][0], reached
    return west, east + 360


def _flat(place: Position) -> tuple[float, float]:
    """Return a place in units of the world, across and down. The poles are far above and below it."""
    latitude = max(-89.99, min(89.99, place[1]))
    down = 0.5 - math.asinh(math.tan(math.radians(latitude))) / (2 * math.pi)
    return (place[0] + 180) / 360 * WORLD, down * WORLD


def _spread(number: int) -> int:
    """Return a number with a zero before each of its 32 bits. Two of them make a number along the Z curve, on which the
    places of each tile are neighbours."""
    number = (number | number << 16) & 0x0000FFFF0000FFFF
    number = (number | number << 8) & 0x00FF00FF00FF00FF
    number = (number | number << 4) & 0x0F0F0F0F0F0F0F0F
    number = (number | number << 2) & 0x3333333333333333
    return (number | number << 1) & 0x5555555555555555


def _gathered(number: int) -> int:
    """Return every second bit of a number."""
    number &= 0x5555555555555555
    number = (number | number >> 1) & 0x3333333333333333
    number = (number | number >> 2) & 0x0F0F0F0F0F0F0F0F
    number = (number | number >> 4) & 0x00FF00FF00FF00FF
    number = (number | number >> 8) & 0x0000FFFF0000FFFF
    return (number | number >> 16) & 0x00000000FFFFFFFF


def _merged(numbers: Sequence[int], counted: Sequence[int], bits: int) -> tuple[list[int], list[int]]:
    """Return the first place of each square of the grid, and how many places each square has."""
    firsts: list[int] = []
    counts: list[int] = []
    square = -1
    for number, count in zip(numbers, counted, strict=True):
        if number >> (2 * bits) == square:
            counts[-1] += count
        else:
            square = number >> (2 * bits)
            firsts.append(number)
            counts.append(count)
    return firsts, counts


def _dot_features(dots: Counter[Corner], extra: dict[str, int]) -> Iterator[TileFeature]:
    """Yield a feature for all dots that count the same."""
    alike: dict[int, list[Corner]] = {}
    for corner, count in sorted(dots.items()):
        alike.setdefault(count, []).append(corner)
    for count, corners in sorted(alike.items()):
        yield TileFeature(POINTS, [corners], {"n": count, **extra})


def _meet(one: Box, other: Box) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def _is_within(one: Box, other: Box) -> bool:
    return other[0] <= one[0] and one[2] <= other[2] and other[1] <= one[1] and one[3] <= other[3]


def _size(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1]) + (box[2] - box[0]) + (box[3] - box[1])


def _coarser(rings: tuple[Flat, ...], bits: int) -> tuple[Flat, ...]:
    """Return lines without corners that share a square of the grid with the one before. The last one stays. They are
    the same in every tile of a zoom, so that nothing breaks at the border of a tile."""
    if bits == 0:
        return rings
    size = 1 << bits
    coarse = []
    for ring in rings:
        found: Flat = []
        square: tuple[float, float] | None = None
        for corner in ring:
            own = corner[0] // size, corner[1] // size
            if own != square:
                found.append(corner)
                square = own
        if len(found) > 1:
            found[-1] = ring[-1]  # it shares the square of the last one that was kept
        coarse.append(found)
    return tuple(coarse)


def _units(part: Flat, left: int, top: int, fine: int) -> list[Corner]:
    """Return a line in units of a tile, without corners that are the same there."""
    size = 1 << fine
    found: list[Corner] = []
    for x, y in part:
        corner = round((x - left) / size), round((y - top) / size)
        if not found or corner != found[-1]:
            found.append(corner)
    return found


def _area(ring: Sequence[Corner]) -> int:
    """Return twice the area of a ring: above zero if it runs clockwise on the screen, as outer rings of tiles do."""
    return sum(x * down - across * y for (x, y), (across, down) in zip(ring, [*ring[1:], ring[0]], strict=True))


def _beyond_the_date_line(ring: Flat, window: Box) -> Flat:
    """Return a ring whose edges along the date line are moved out of the tile. The file cut the shape there, and an
    outline of it would be a seam that the shape does not have."""
    found: Flat = []
    closed = [*ring, ring[0]]
    for (x, y), (to, down) in pairwise(closed):
        found.append((x, y))
        if x == to and x in (0, WORLD):
            out = min(window[0], 0) if x == 0 else max(window[2], WORLD)
            found += [(out, y), (out, down)]
    return found


def _cut_area(ring: Flat, window: Box) -> Flat:
    """Return the part of a ring inside of a box, by the four sides of the box one after another."""
    left, top, right, bottom = window
    for axis, limit, sign in ((0, left, 1), (0, right, -1), (1, top, 1), (1, bottom, -1)):
        if not ring:
            return ring
        found: Flat = []
        last = ring[-1]
        was_in = (last[axis] - limit) * sign >= 0
        for corner in ring:
            is_in = (corner[axis] - limit) * sign >= 0
            if is_in != was_in:
                share = (limit - last[axis]) / (corner[axis] - last[axis])
                other = last[1 - axis] + share * (corner[1 - axis] - last[1 - axis])
                found.append((limit, other) if axis == 0 else (other, limit))
            if is_in:
                found.append(corner)
            last, was_in = corner, is_in
        ring = found
    return ring


def _cut_line(line: Flat, window: Box) -> Iterator[Flat]:
    """Yield the parts of a line inside of a box."""
    part: Flat = []
    for start, end in pairwise(line):
        shares = _inside(start, end, window)
        if shares is None:
            if part:
                yield part
            part = []
            continue
        first, last = (_between(start, end, share) for share in shares)
        if shares[0] > 0 and part:
            yield part
            part = []
        part = part or [first]
        part.append(last)
        if shares[1] < 1:
            yield part
            part = []
    if part:
        yield part


def _between(start: tuple[float, float], end: tuple[float, float], share: float) -> tuple[float, float]:
    if share in (0, 1):
        return end if share else start
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _inside(start: tuple[float, float], end: tuple[float, float], window: Box) -> tuple[float, float] | None:
    """Return from which share of an edge to which it is inside of a box (Liang and Barsky); None if nowhere."""
    low, high = 0.0, 1.0
    for axis in (0, 1):
        step = end[axis] - start[axis]
        for limit, sign in ((window[axis], 1), (window[axis + 2], -1)):
            along, room = step * sign, (limit - start[axis]) * sign
            if along == 0:
                if room > 0:
                    return None
            elif along > 0:
                low = max(low, room / along)
            else:
                high = min(high, room / along)
    return (low, high) if low <= high else None
