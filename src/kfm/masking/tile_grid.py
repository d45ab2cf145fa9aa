"""The grid of a map tile: from its units to degrees and back, and whether a shape in them is only an H3 cell.

A coordinate of a tile was moved to a grid, so it says that a place lies within one unit of it. `digits` of a grid are
the decimal places of degrees that one unit still holds: with them a coordinate is compared as one that was rounded to
so many places. From zoom 3 of the usual 4096 units these are two places or more, the fewest that are compared. A
coarser coordinate is in every table, and proves nothing.

What is masked shows whole cells and their centres, and these are near the protected places in them. So a polygon whose
corners are those of a cell, except where the tile cuts it, and a point in the middle of a cell show no more than the
cell. If one unit is larger than the cell, the tile says less than the cell does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import asinh, atan, cos, degrees, floor, log10, pi, radians, sinh, tan
from typing import NamedTuple

import msgspec

from kfm.masking import cells
from kfm.masking.fingerprints import FEWEST, MOST
from kfm.parsing.pmtiles import NoTiles

Position = tuple[float, float]
_METRES = 40_030_228.9  # once around the earth
_SLACK = 1.001  # units by which rounding to the grid, in either direction, moves a corner
_CUT = 1.5  # units between the outline of a cell and a corner where the tile cuts it
_SURE = 2  # units of a cell's edge from which the shape of a cell is none by chance


class Places(NamedTuple):
    """Points that are known to so many decimal places, each within one unit of the last."""

    digits: int
    points: list[Position]  # latitude, longitude


class Grid(NamedTuple):
    """The grid of one layer in one tile."""

    zoom: int
    column: int
    row: int
    extent: int

    @property
    def digits(self) -> int:
        """The decimal places of degrees that a unit holds; 0 if they are fewer than are compared. A unit may be a
        tenth larger than the last place."""
        places = floor(log10((self.extent << self.zoom) / 360) + 0.05)
        return min(places, MOST) if places >= FEWEST else 0

    def point(self, x: float, y: float) -> Position:
        """Return latitude and longitude. Raise NoTiles if they are far from the earth."""
        across = (self.column + x / self.extent) / (1 << self.zoom)
        down = (self.row + y / self.extent) / (1 << self.zoom)
        if not (-1 <= across <= 2 and -1 <= down <= 2):
            raise NoTiles("a geometry is far from its tile")
        longitude = 360 * (across % 1 if across != 1 else 1) - 180
        return degrees(atan(sinh(pi * (1 - 2 * down)))), longitude

    def units(self, latitude: float, longitude: float) -> Position:
        """Return how far across and down from the corner of the tile a point is."""
        latitude = max(-89.9, min(89.9, latitude))
        down = 0.5 - asinh(tan(radians(latitude))) / (2 * pi)
        size = 1 << self.zoom
        return (
            ((longitude + 180) / 360 * size - self.column) * self.extent,
            (down * size - self.row) * self.extent,
        )

    def metres(self, latitude: float) -> float:
        """Return the length of a unit."""
        return _METRES * cos(radians(latitude)) / (self.extent << self.zoom)

    def cell_of(self, positions: list[tuple[int, int]], said: int, finest: int | None, is_shown: bool) -> int:
        """Return the cell that is all that a feature shows; 0 if it shows anything else.

        `said` is the cell that it names, if it names one, `is_shown` tells whether a deeper zoom shows that cell, and
        `finest` is the resolution that the version may show. One of `said` and `finest` is known.
        """
        x, y = (sum(side) / len(positions) for side in zip(*positions, strict=True))
        latitude, longitude = self.point(x, y)
        if not -90 < latitude < 90:
            return 0
        if said:
            edge = cells.EDGES[cells.resolution_of(said)] / self.metres(latitude)
            may_be = is_shown or edge >= _SURE if finest is None else cells.resolution_of(said) <= finest
            return said if may_be and (edge <= 1 or self._shows(said, positions)) else 0
        for resolution in range(finest or 0, -1, -1):
            cell = cells.cell_of(latitude, longitude, resolution)
            if cells.EDGES[resolution] <= self.metres(latitude) or self._shows(cell, positions):
                return cell
        return 0

    def _shows(self, cell: int, positions: list[tuple[int, int]]) -> bool:
        """Return whether these are the corners of a cell, or its centre."""
        shape = cells.shape_of(cell)
        longitude, latitude = shape.centroid
        if _near(positions, self.units(latitude, longitude)) == positions:
            return True
        rings = [[self.units(lat, lng) for lng, lat in ring] for ring in rings_of(cell)]
        corners = [corner for ring in rings for corner in ring]
        for x, y in positions:
            if any(abs(x - a) <= _SLACK and abs(y - b) <= _SLACK for a, b in corners):
                continue
            if 0 < x < self.extent and 0 < y < self.extent:
                return False
            if not any(_is_in(ring, x, y) or _is_beside(ring, x, y) for ring in rings):
                return False
        return True


def rings_of(cell: int) -> Iterator[list[Position]]:
    """Yield the outlines of a cell, closed, as longitude and latitude."""
    shape = msgspec.json.decode(cells.shape_of(cell).geometry)
    parts = shape["coordinates"] if shape["type"] == "MultiPolygon" else [shape["coordinates"]]
    for part in parts:
        yield from part


def _near(positions: list[tuple[int, int]], centre: Position) -> list[tuple[int, int]]:
    return [(x, y) for x, y in positions if abs(x - centre[0]) <= _SLACK and abs(y - centre[1]) <= _SLACK]


def _is_in(ring: list[Position], x: float, y: float) -> bool:
    inside = False
    for (a, b), (c, d) in pairwise(ring):
        if (b > y) != (d > y) and x < a + (y - b) * (c - a) / (d - b):
            inside = not inside
    return inside


def _is_beside(ring: list[Position], x: float, y: float) -> bool:
    for (a, b), (c, d) in pairwise(ring):
        wide, high = c - a, d - b
        square = wide * wide + high * high
        share = max(0.0, min(1.0, ((x - a) * wide + (y - b) * high) / square)) if square else 0.0
        if (x - a - share * wide) ** 2 + (y - b - share * high) ** 2 <= _CUT * _CUT:
            return True
    return False
