"""Computes the cells of many points at once with numpy: the same cells that H3 gives, in a fraction of the time.

Each face of H3's icosahedron is a plane with a hexagonal lattice, so a cell is a division, a rounding, and one more
rounding by seven per resolution. How the planes map to base cells and rotations is learned from H3 once, with sample
points. Every uncertain point goes to H3 itself: points near the edge of a cell, near the centre of a face, in
pentagons, and where the samples disagreed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kfm.errors import Refused
from kfm.masking.h3_library import library

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCK = 8192  # points at a time, so that the arrays stay in the cache
_SCALE = (3 + math.sqrt(5)) / 2  # scale of the plane: neighbouring cells of resolution 0 are 1 apart
_TURN = math.asin(math.sqrt(3 / 28))  # rotation of the lattice at odd resolutions
_INSIDE = 0.9343  # cosine: a point this near to the centre of a face belongs to that face
_SHORT = 10  # up to this resolution lattice numbers are exact in 32 bits
_NEAR = math.cos(1e-3)  # cosine of the distance to a face centre within which H3's arithmetic is inexact
# The H3 digit of a step on the lattice, by (di + 1) * 3 + dj + 1; 8 is no valid step.
_DIGITS = (1, 3, 8, 5, 0, 2, 8, 4, 6)
_ROTATED = (0, 5, 3, 1, 6, 4, 2, 7, 8)  # each digit rotated by 60 degrees counterclockwise


class _Faces(NamedTuple):
    centres: Floats  # 20 unit vectors
    along: Floats  # on each plane, towards a corner
    across: Floats  # on each plane, at a right angle counterclockwise


class _Bases(NamedTuple):
    cells: Ints  # by face and place on its plane: base cell and mode bits; 0: use H3
    turns: Ints  # by the same index: 9 times the count of rotations


def cells_of(latitudes: Sequence[float], longitudes: Sequence[float], resolution: int) -> list[int]:
    """Return the cell of every point. Raise Refused, without the values, if a point is not on the earth."""
    lats, lngs = np.asarray(latitudes, dtype=np.float64), np.asarray(longitudes, dtype=np.float64)
    if lats.shape != lngs.shape or lats.ndim != 1:
        raise Refused("latitudes and longitudes are not of one length", rule="mask.table")
    if not bool(np.all((np.abs(lats) <= 90.0) & (np.abs(lngs) <= 180.0))):
        raise Refused("a location is not on the earth", rule="mask.location-unreadable")
    out: list[int] = []
    for start in range(0, len(lats), _BLOCK):
        out += _block(lats[start : start + _BLOCK], lngs[start : start + _BLOCK], resolution)
    return out


def _block(lats: Floats, lngs: Floats, resolution: int) -> list[int]:
    bases = _bases()
    face, i, j, sure = _hexagons(_vectors(lats, lngs), resolution)
    steps: list[NDArray[np.intp]] = []
    i, j = _up(i, j, resolution, steps)
    place = _place(face, i, j)
    cells = bases.cells.take(place, mode="clip")
    turns = bases.turns.take(place, mode="clip")
    sure &= (cells != 0) & (np.abs(i) <= 2) & (np.abs(j) <= 2)
    cells |= resolution << 52 | (1 << 45 - 3 * resolution) - 1
    digits = _turned()
    for level, step in zip(range(resolution, 0, -1), steps, strict=True):
        step += turns
        cells |= digits.take(step, mode="clip") << (45 - 3 * level)
    found: list[int] = cells.tolist()
    if not sure.all():
        h3 = library()
        for row in np.flatnonzero(~sure).tolist():
            found[row] = int(h3.latlng_to_cell(float(lats[row]), float(lngs[row]), resolution))
    return found


def _place(face: Ints | int, i: Floats, j: Floats) -> Ints:
    flat: Ints = (i * 5 + j).astype(np.int64)
    flat += face * 25 + 12
    return flat


def _hexagons(points: Floats, resolution: int) -> tuple[Ints | int, Floats, Floats, NDArray[np.bool_]]:
    """Return the face of each point, the two lattice coordinates of its hexagon on that face, and whether the point is
    clearly inside the hexagon."""
    planes, centres = _planes(resolution), _faces().centres
    only = int((centres @ points[:, 0]).argmax())
    flat = planes[only] @ points
    face: Ints | int = only
    if float(flat[0].min()) < _INSIDE:
        face = np.asarray((centres @ points).argmax(axis=0))
        for one in np.flatnonzero(np.bincount(face, minlength=20)).tolist():
            of = np.flatnonzero(face == one)
            flat[:, of] = planes[one] @ points[:, of]
    deep = flat[0]
    # Every edge of a hexagon is on a line where one of these three numbers, which add up to 0, is an integer.
    lines = flat[1:]
    lines /= deep
    floors = np.floor(lines)
    lines -= floors
    edge = 1e-9 + 2e-11 * math.sqrt(7) ** resolution
    sure = (lines.min(axis=0) > edge) & (lines.max(axis=0) < 1 - edge) & (deep < _NEAR)
    u, v, w = floors.astype(np.float32 if resolution <= _SHORT else np.float64, copy=False)
    third = floors.dtype.type(1 / 3) if resolution > _SHORT else np.float32(1 / 3)
    q, r = np.rint((u - w) * third), np.rint((v - u) * third)
    return face, q + r, r, sure


def _up(i: Any, j: Any, resolution: int, steps: list[NDArray[np.intp]]) -> tuple[Any, Any]:
    """Go from the hexagon (i, j) of a resolution to its ancestor at resolution 0. Append the step of each level to
    `steps`, finest first."""
    seventh = i.dtype.type(1 / 7)
    for level in range(resolution, 0, -1):
        if level % 2:
            above_i, above_j = np.rint((3 * i - j) * seventh), np.rint((i + 2 * j) * seventh)
            # (i - centre_i) * 3 + (j - centre_j), where the centre is (2 i + j, 3 j - i) of the hexagon above
            step = 3 * i + j - (5 * above_i + 6 * above_j) + 4
        else:
            above_i, above_j = np.rint((2 * i + j) * seventh), np.rint((3 * j - i) * seventh)
            step = 3 * i + j - (10 * above_i - above_j) + 4
        steps.append(step.astype(np.intp))
        i, j = above_i, above_j
    return i, j


def _vectors(lats: Floats, lngs: Floats) -> Floats:
    """Return points as unit vectors, one per column."""
    lat, lng = np.radians(lats), np.radians(lngs)
    out = np.empty((3, len(lat)))
    flat = np.cos(lat)
    np.multiply(flat, np.cos(lng), out=out[0])
    np.multiply(flat, np.sin(lng), out=out[1])
    np.sin(lat, out=out[2])
    return out


# ---------------------------------------------------------------------------------------- learned from H3


@lru_cache(maxsize=1)
def _faces() -> _Faces:
    """Return the faces of H3's icosahedron, computed from its corners: these are the centres of the twelve
    pentagons."""
    h3 = library()
    centres = [h3.cell_to_latlng(cell) for cell in h3.get_pentagons(0)]
    corners = _vectors(np.array([lat for lat, _ in centres]), np.array([lng for _, lng in centres])).T
    near = corners @ corners.T > 0.4  # neighbours: the cosine is 1 / sqrt(5)
    found = [
        (a, b, c)
        for a in range(12)
        for b in range(a + 1, 12)
        for c in range(b + 1, 12)
        if near[a, b] and near[b, c] and near[a, c]
    ]
    middle = np.stack([_unit(corners[a] + corners[b] + corners[c]) for a, b, c in found])
    along = np.stack([_unit(corners[a] - (corners[a] @ m) * m) for (a, _, _), m in zip(found, middle, strict=True)])
    return _Faces(middle, along, np.cross(middle, along))


def _unit(vector: Floats) -> Floats:
    shortened: Floats = vector / np.sqrt(vector @ vector)
    return shortened


@lru_cache(maxsize=16)
def _planes(resolution: int) -> Floats:
    """Return one matrix for each face of the icosahedron. The matrix maps a point, as a unit vector, to its component
    along the axis of the face, and to three numbers. Each of these, divided by that component, says between which two
    parallel lines of the hexagonal lattice the point is."""
    size = math.sqrt(7) ** resolution * _SCALE
    turn = _TURN if resolution % 2 else 0.0
    faces = _faces()
    x = size * (math.cos(turn) * faces.along + math.sin(turn) * faces.across)
    y = size * (math.cos(turn) * faces.across - math.sin(turn) * faces.along)
    r = y / math.sin(math.pi / 3)
    a = x + r / 2
    return np.stack([faces.centres, a - 2 * r, r + a, r - 2 * a], axis=1)


@lru_cache(maxsize=1)
def _turned() -> Ints:
    """Return a table of H3 digits after 0 to 5 rotations. The index is 9 times the number of rotations plus the step
    from a hexagon to its parent."""
    rows = [list(_DIGITS)]
    for _ in range(5):
        rows.append([_ROTATED[digit] for digit in rows[-1]])
    return np.array([digit & 7 for row in rows for digit in row], dtype=np.int64)


@lru_cache(maxsize=1)
def _bases() -> _Bases:
    """Return the base cell and the rotation of each region of a face. They are learned from H3, with a few hundred
    sample points on every face; regions where the samples disagree are left out."""
    h3, resolution = library(), 3
    rng = [
        (n * 0.6180339887498949 % 1, n * 0.7548776662466927 % 1) for n in range(1, 12001)
    ]  # evenly spread, and always the same
    lats = np.degrees(np.arcsin(np.array([2 * a - 1 for a, _ in rng])))
    lngs = np.array([360 * b - 180 for _, b in rng])
    face, i, j, sure = _hexagons(_vectors(lats, lngs), resolution)
    steps: list[NDArray[np.intp]] = []
    i, j = _up(i, j, resolution, steps)
    place = _place(face, i, j).tolist()
    rows = np.stack(steps, axis=1).tolist()
    possible: dict[int, set[tuple[int, int]]] = {}
    turned = _turned().reshape(6, 9).tolist()
    for row in np.flatnonzero(sure & (np.abs(i) <= 2) & (np.abs(j) <= 2)).tolist():
        cell = int(h3.latlng_to_cell(float(lats[row]), float(lngs[row]), resolution))
        digits = [cell >> 45 - 3 * level & 7 for level in range(resolution, 0, -1)]
        fits = {(cell >> 45 & 127, turn) for turn in range(6) if [turned[turn][step] for step in rows[row]] == digits}
        possible[place[row]] = possible.get(place[row], fits) & fits
    cells, turns = np.zeros(500, dtype=np.int64), np.zeros(500, dtype=np.int64)
    pentagons = {int(cell) >> 45 & 127 for cell in h3.get_pentagons(0)}
    for at, found in possible.items():
        if len(found) == 1:
            base, turn = next(iter(found))
            if base not in pentagons:
                cells[at], turns[at] = 1 << 59 | base << 45, turn * 9
    return _Bases(cells, turns)
