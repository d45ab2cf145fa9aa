"""Cells of H3, their parts, and guesses about these."""

from __future__ import annotations

import math
from functools import cache

import h3

from tests.attacker.score import Guess, Key, Point, apart

AXES = ((1.0, 0.0), (0.0, 1.0))  # north, east


@cache
def centre(cell: str) -> Point:
    return h3.cell_to_latlng(cell)


@cache
def corners(cell: str) -> tuple[Point, ...]:
    return tuple(h3.cell_to_boundary(cell))


@cache
def children(cell: str) -> tuple[Point, ...]:
    return tuple(centre(child) for child in sorted(h3.cell_to_children(cell)))


@cache
def sample(cell: str) -> tuple[Point, ...]:
    """Some two hundred places in a cell, evenly spread."""
    lats, lons = zip(*corners(cell), strict=True)
    sides = [[min(side) + (max(side) - min(side)) * (step + 0.5) / 16 for step in range(16)] for side in (lats, lons)]
    return tuple((lat, lon) for lat in sides[0] for lon in sides[1] if holds(cell, (lat, lon)))


def holds(cell: str, point: Point) -> bool:
    return h3.latlng_to_cell(*point, h3.get_resolution(cell)) == cell


@cache
def grid(cell: str, digits: int) -> tuple[Point, ...]:
    """All places in a cell with so many decimals."""
    lats, lons = zip(*corners(cell), strict=True)
    unit, resolution = 10**digits, h3.get_resolution(cell)
    return tuple(
        (lat / unit, lon / unit)
        for lat in range(math.floor(min(lats) * unit), math.ceil(max(lats) * unit) + 1)
        for lon in range(math.floor(min(lons) * unit), math.ceil(max(lons) * unit) + 1)
        if h3.latlng_to_cell(lat / unit, lon / unit, resolution) == cell
    )


def toward(key: Key, cell: str, target: Point) -> Guess:
    """The half of the cell on the side of a place."""
    lat, lon = centre(cell)
    size = apart((lat, lon), target) or 1.0
    step = (target[0] - lat) / size * 1e-3, (target[1] - lon) / size * 1e-3
    return Guess(key, ((lat + step[0], lon + step[1]), (lat - step[0], lon - step[1])), 0)


def half(key: Key, cell: str, axis: int, sign: float) -> Guess:
    lat, lon = centre(cell)
    north, east = AXES[axis]
    return toward(key, cell, (lat + sign * north, lon + sign * east))


def part(key: Key, cell: str, place: Point) -> Guess:
    """The part of the cell that holds a place."""
    parts = children(cell)
    return Guess(key, parts, min(range(len(parts)), key=lambda at: apart(parts[at], place)))
