"""Cells of many points at once, with numpy: the same cells that H3 gives one by one, in a fraction of the time.

A face of H3's icosahedron is a plane with a lattice of hexagons, so a cell is a division, a rounding and a few more
roundings by seven. Which plane leads to which base cell, turned how far, is not written here: it is asked of H3 once,
with points whose answers are known. Whatever is not sure goes to H3 itself: points near the edge of a cell, near the
centre of a face, in pentagons and wherever H3's answers were not alike.
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

_BLOCK = 8192  # points at a time: what is at work stays in the cache
_SCALE = (3 + math.sqrt(5)) / 2  # of the plane: the distance of two cells of resolution 0 is 1
_TURN = math.asin(math.sqrt(3 / 28))  # how far the lattice of an odd resolution is turned
_INSIDE = 0.9343  # a point this near to the centre of a face, as a cosine, is nearest to that face
_SHORT = 10  # up to this resolution the numbers of a lattice are exact in 32 bits
_NEAR = math.cos(1e-3)  # to the centre of a face, as a cosine; H3's own arithmetic is rough there
# Directions of a step on the lattice, by (di + 1) * 3 + dj + 1, as digits of H3; 8 is no step.
_DIGITS = (1, 3, 8, 5, 0, 2, 8, 4, 6)
_ROTATED = (0, 5, 3, 1, 6, 4, 2, 7, 8)  # each digit turned by 60 degrees, counterclockwise


class _Faces(NamedTuple):
    centres: Floats  # 20 unit vectors
    along: Floats  # on the plane of each, towards a corner
    across: Floats  # on the plane of each, a right angle counterclockwise


class _Bases(NamedTuple):
    cells: Ints  # by face and place on its plane: base cell and mode, in the bits of a cell; 0: ask H3
    turns: Ints  # by the same, times 9: how often the digits are turned


def cells_of(latitudes: Sequence[float], longitudes: Sequence[float], resolution: int) -> list[int]:
    """The cell of every point at a resolution. A point that is none is refused, without saying which value it had."""
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
    """The face of each point, the hexagon of a resolution that it is in there, and whether it is clearly inside."""
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
    # Every edge of a hexagon lies on a line where one of these three, which add up to 0, is a whole number.
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
    """From the hexagon of a resolution to that of resolution 0, with the step taken at each, the finest first."""
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
    """Points as unit vectors, one in each column."""
    lat, lng = np.radians(lats), np.radians(lngs)
    out = np.empty((3, len(lat)))
    flat = np.cos(lat)
    np.multiply(flat, np.cos(lng), out=out[0])
    np.multiply(flat, np.sin(lng), out=out[1])
    np.sin(lat, out=out[2])
    return out


# ---------------------------------------------------------------------------------------- what H3 is asked


@lru_cache(maxsize=1)
def _faces() -> _Faces:
    """The icosahedron that H3 stands on: its corners are the centres of the twelve pentagons."""
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
    """For every face a matrix that takes a point to how deep it is under the face, and to three numbers that, divided
    by this, say between which lines of the lattice it is."""
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
    """Digits by 9 times the turns and the step."""
    rows = [list(_DIGITS)]
    for _ in range(5):
        rows.append([_ROTATED[digit] for digit in rows[-1]])
    return np.array([digit & 7 for row in rows for digit in row], dtype=np.int64)


@lru_cache(maxsize=1)
def _bases() -> _Bases:
    """Asks H3 for a few hundred points on every face, and keeps the answers that are alike wherever they were asked."""
    h3, resolution = library(), 3
    rng = [
        (n * 0.6180339887498949 % 1, n * 0.7548776662466927 % 1) for n in range(1, 12001)
    ]  # even, and always the same
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


def coverage() -> dict[str, Any]:
    """How much of the lattice is known: for those who measure."""
    return {"places": int(np.count_nonzero(_bases().cells))}
