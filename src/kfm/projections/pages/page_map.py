"""The map of a page as SVG without any map data from elsewhere: points, lines, areas or cells over an outline, or their
density where there are too many to be told apart. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

MOST_DRAWN = 5000  # above this, places are drawn as density
WIDE, LEAST_HIGH, MOST_HIGH = 760, 260, 520
HEXAGON = 7.0  # radius of a cell of the density map, in units of the picture
CLASSES = 5
THUMB_WIDE, THUMB_HIGH, THUMB_PLACES, INSET_WIDE = 320, 150, 250, 150
FEWEST = 100  # points from which on outliers are left out
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
_KILOMETRES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
Position = tuple[float, float]  # longitude, latitude
Ring = Sequence[Position]


class Drawing(NamedTuple):
    """What a map shows, in degrees."""

    points: Sequence[Position] = ()
    ways: Sequence[Ring] = ()
    areas: Sequence[Sequence[Ring]] = ()  # each with its outer ring first
    cells: Sequence[Sequence[Ring]] = ()  # of masked data
    is_extent: bool = False  # the areas are boxes around files, not the shapes in them

    def places(self) -> int:
        return len(self.points) + len(self.ways) + len(self.areas) + len(self.cells)


class Picture(NamedTuple):
    """A drawn map: its SVG, and the keys of its colours, each with its class in the style."""

    svg: str
    keys: tuple[tuple[str, str], ...] = ()
    outside: int = 0  # points that are too far from the others to be drawn


def draw(drawing: Drawing, outline: Sequence[Ring], title: str) -> Picture:
    """Return the map. `title` is read to those who do not see it."""
    drawing, outside = without_outliers(drawing)
    inset = _is_small(drawing, outline)
    view = _View.around(drawing, () if inset else outline)
    body = [
        f'<svg class="map" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {WIDE} {view.high:.0f}">',
    ]
    if outline:
        body.append(f'<path class="land" d="{"".join(view.path(ring, closed=True) for ring in outline)}"/>')
    body += view.graticule()
    keys: tuple[tuple[str, str], ...] = ()
    if drawing.places() > MOST_DRAWN and not drawing.cells:
        layers, keys = _density(view, list(_middles(drawing)))
        body += layers
    else:
        body += _layers(view, drawing)
    body += [*(_locator(view, drawing, outline) if inset else ()), *view.scale_bar(), "</svg>"]
    return Picture("".join(body), keys, outside)


def thumbnail(drawing: Drawing, outline: Sequence[Ring]) -> str:
    """Return a small map without words, for a page that names what it shows. It has at most some hundred places."""
    drawing = without_outliers(drawing)[0]
    step = max(1, drawing.places() // THUMB_PLACES)
    drawing = Drawing(drawing.points[::step], drawing.ways[::step], drawing.areas[::step], drawing.cells[::step])
    view = _View.around(drawing, outline, THUMB_WIDE, THUMB_HIGH, THUMB_HIGH)
    land = "".join(view.path(ring, closed=True, digits=0) for ring in outline)
    found = [f'<path class="land" d="{land}"/>'] if land else []
    found += _layers(view, drawing, digits=0, wide=4)
    return (
        '<svg class="map thumb" xmlns="http://www.w3.org/2000/svg" aria-hidden="true" '
        f'viewBox="0 0 {THUMB_WIDE} {THUMB_HIGH}">{"".join(found)}</svg>'
    )


def _is_small(drawing: Drawing, outline: Sequence[Ring]) -> bool:
    """Return whether the places fill so little of the outline that a map of it would show one dot."""
    if not outline:
        return False
    west, south, east, north = _box(_positions(drawing, ()))
    left, low, right, high = _box(_positions(Drawing(), outline))
    inside = left <= west and east <= right and low <= south and north <= high
    return inside and max((east - west) / (right - left), (north - south) / (high - low)) < 1 / 6


def _locator(view: _View, drawing: Drawing, outline: Sequence[Ring]) -> Iterator[str]:
    """Yield a small map of the outline in the corner, with the part that the map shows."""
    small = _View.around(Drawing(), outline, INSET_WIDE, 0, MOST_HIGH)
    down = view.high - small.high - 10
    yield f'<g transform="translate(10 {down:.0f})">'
    yield f'<rect class="inset" width="{INSET_WIDE}" height="{small.high:.0f}"/>'
    yield f'<path class="land" d="{"".join(small.path(ring, closed=True) for ring in outline)}"/>'
    west, south, east, north = _box(_positions(drawing, ()))
    (x, y), (right, bottom) = small.at((west, north)), small.at((east, south))
    wide, high = max(right - x, 5), max(bottom - y, 5)
    yield f'<rect class="here" x="{x - 2:.1f}" y="{y - 2:.1f}" width="{wide + 4:.1f}" height="{high + 4:.1f}"/></g>'


def without_outliers(drawing: Drawing) -> tuple[Drawing, int]:
    """Leave out points that are far from nearly all others, often slips of a sign or a zero, and count them. A map that
    shows them would show nothing else."""
    if len(drawing.points) < FEWEST or drawing.ways or drawing.areas or drawing.cells:
        return drawing, 0
    ranges = []
    for axis in (0, 1):
        ordered = sorted(point[axis] for point in drawing.points)
        low, high = ordered[len(ordered) // 100], ordered[-1 - len(ordered) // 100]
        ranges.append((low - max(high - low, 0.1), high + max(high - low, 0.1)))
    (west, east), (south, north) = ranges
    near = [(x, y) for x, y in drawing.points if west <= x <= east and south <= y <= north]
    return drawing._replace(points=near), len(drawing.points) - len(near)


def _layers(view: _View, drawing: Drawing, digits: int = 1, wide: float = 0) -> Iterator[str]:
    for name, shapes in (("areas", drawing.areas), ("cells", drawing.cells)):
        if shapes:
            found = "".join(view.path(ring, closed=True, digits=digits) for rings in shapes for ring in rings)
            yield f'<path class="{name}" fill-rule="evenodd" d="{found}"/>'
    if drawing.ways:
        yield f'<path class="ways" d="{"".join(view.path(way, digits=digits) for way in drawing.ways)}"/>'
    if drawing.points:
        seen = dict.fromkeys(f"{x:.{digits}f} {y:.{digits}f}" for x, y in map(view.at, drawing.points))
        wide = wide or (7 if len(seen) <= 200 else 5 if len(seen) <= 1500 else 3.5)
        yield f'<path class="dots" stroke-width="{wide:g}" d="{"".join(f"M{place}h0" for place in seen)}"/>'


def _middles(drawing: Drawing) -> Iterator[Position]:
    yield from drawing.points
    for ring in (*drawing.ways, *(rings[0] for rings in drawing.areas if rings)):
        xs, ys = [x for x, _ in ring], [y for _, y in ring]
        if xs:
            yield (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def _density(view: _View, places: Sequence[Position]) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Return hexagons in at most five classes of equal ratio, and what each class counts."""
    across, down = HEXAGON * math.sqrt(3), HEXAGON * 1.5
    found: Counter[tuple[int, int]] = Counter()
    for x, y in map(view.at, places):
        row = round(y / down)
        found[round(x / across - (row % 2) / 2), row] += 1
    most = max(found.values())
    limits = sorted({max(1, round(most ** (n / CLASSES))) for n in range(1, CLASSES + 1)})
    body, keys, low = [], [], 1
    half = across / 2
    for n, high in enumerate(limits):
        name = f"d{n + 1 + CLASSES - len(limits)}"
        some = [place for place, count in sorted(found.items()) if low <= count <= high]
        if some:
            up = HEXAGON / 2
            shape = f"l{half:.1f} {up:g}v{HEXAGON:g}l-{half:.1f} {up:g}l-{half:.1f}-{up:g}v-{HEXAGON:g}z"
            path = "".join(
                f"M{(column + (row % 2) / 2) * across:.1f} {row * down - HEXAGON:.1f}{shape}" for column, row in some
            )
            body.append(f'<path class="{name}" d="{path}"/>')
            keys.append((name, f"{low:,}" if low == high else f"{low:,} to {high:,}"))
        low = high + 1
    return body, tuple(keys)


class _View(NamedTuple):
    """The part of the world that is drawn: longitudes are narrowed as at its middle latitude."""

    west: float
    south: float
    east: float
    north: float
    scale: float  # units of the picture for a degree of latitude
    narrow: float
    left: float
    top: float
    high: float

    @classmethod
    def around(
        cls,
        drawing: Drawing,
        outline: Sequence[Ring],
        width: float = WIDE,
        least: float = LEAST_HIGH,
        most: float = MOST_HIGH,
    ) -> _View:
        west, south, east, north = _box(_positions(drawing, outline))
        middle = math.radians((south + north) / 2)
        narrow = max(0.15, math.cos(middle))
        spread = max((east - west) * narrow, north - south, 0.02)
        edge = spread * 0.07
        wide, high = (east - west) * narrow + 2 * edge, north - south + 2 * edge
        scale = min(width / wide, most / high)
        tall = min(most, max(least, high * scale))
        return cls(
            west, south, east, north, scale, narrow, (width - (east - west) * narrow * scale) / 2,
            (tall - (north - south) * scale) / 2, tall,
        )  # fmt: skip

    def at(self, place: Position) -> tuple[float, float]:
        return (
            self.left + (place[0] - self.west) * self.narrow * self.scale,
            self.top + (self.north - place[1]) * self.scale,
        )

    def path(self, ring: Iterable[Position], *, closed: bool = False, digits: int = 1) -> str:
        """Return a line with the corners that differ at a tenth of a unit; one that is smaller is a dot."""
        corners = list(dict.fromkeys(f"{x:.{digits}f} {y:.{digits}f}" for x, y in map(self.at, ring)))
        if not corners:
            return ""
        if len(corners) == 1:
            return f"M{corners[0]}h.6v.6h-.6z"
        return f"M{corners[0]}L{' '.join(corners[1:])}{'z' * closed}"

    def graticule(self) -> Iterator[str]:
        west, east = self.west - self.left / self.narrow / self.scale, 0.0
        east = west + WIDE / self.narrow / self.scale
        north = self.north + self.top / self.scale
        south = north - self.high / self.scale
        step = next((one for one in _STEPS if max(east - west, north - south) / one <= 9), _STEPS[-1])
        lines, labels = [], []
        for number in range(math.ceil(west / step), math.floor(east / step) + 1):
            x = self.at((number * step, 0))[0]
            lines.append(f"M{x:.1f} 0V{self.high:.0f}")
            if 24 < x < WIDE - 24:
                east_of = (number * step + 180) % 360 - 180
                labels.append(f'<text text-anchor="middle" x="{x:.1f}" y="14">{degrees(east_of, "E", "W")}</text>')
        for number in range(math.ceil(max(south, -90) / step), math.floor(min(north, 90) / step) + 1):
            y = self.at((0, number * step))[1]
            lines.append(f"M0 {y:.1f}H{WIDE}")
            if 26 < y < self.high - 30:
                labels.append(f'<text x="6" y="{y - 4:.1f}">{degrees(number * step, "N", "S")}</text>')
        yield f'<path class="grid" d="{"".join(lines)}"/>'
        yield from labels

    def scale_bar(self) -> Iterator[str]:
        """Yield a bar of a round number of kilometres, as long as they are at the middle of the map."""
        unit = self.scale / 111.195  # units of the picture for a kilometre
        long = next((one for one in reversed(_KILOMETRES) if one * unit <= WIDE / 5), _KILOMETRES[0])
        end, y = WIDE - 16, self.high - 14
        start = end - long * unit
        text = f"{long:,g} km" if long >= 1 else f"{long * 1000:g} m"
        yield f'<path class="bar-line" d="M{start:.1f} {y - 4:.0f}v4H{end}v-4"/>'
        yield f'<text text-anchor="end" x="{end}" y="{y - 8:.0f}">{text}</text>'


def degrees(number: float, plus: str, minus: str) -> str:
    """Return a longitude or latitude with the letter of its side."""
    return f"{abs(number):.5g}°{plus if number > 0 else minus if number < 0 else ''}"


def _positions(drawing: Drawing, outline: Sequence[Ring]) -> Iterator[Position]:
    yield from drawing.points
    for ring in (*drawing.ways, *outline):
        yield from ring
    for rings in (*drawing.areas, *drawing.cells):
        for ring in rings:
            yield from ring


def _box(places: Iterable[Position]) -> tuple[float, float, float, float]:
    west, south, east, north = math.inf, math.inf, -math.inf, -math.inf
    for x, y in places:
        west, south, east, north = min(west, x), min(south, y), max(east, x), max(north, y)
    return west, south, east, north
