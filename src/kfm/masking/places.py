"""Places: a protected place has one public cell, whichever source, namespace or masking policy shows it.

Public ids differ between namespaces, so the first cell of an id does not cover a second mask. The state therefore also
remembers the first cell of each place, under a keyed digest of its point. Points within 1e-4 degrees, some ten metres,
count as one place, so a copy with fewer digits is recognised.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from math import floor
from typing import NamedTuple

from kfm.masking import cells
from kfm.masking.hmac_batch import Keyed
from kfm.model.secret import Secret

NEAR = 1e-4  # degrees
_WIDTH = 2 * NEAR  # of a square
_Square = tuple[int, int]
Point = tuple[float, float]  # latitude, longitude


class PlaceKeys:
    """Makes the keyed digests of places under one custodian's key."""

    __slots__ = ("_places", "_records")

    def __init__(self, key: Secret) -> None:
        self._places = Keyed(key, b"kfm:place:1\0")
        self._records = Keyed(key, b"kfm:record-at-place:1\0")

    def of(self, square: _Square) -> str:
        return self._places.digest(b"%d:%d" % square)[:16].hex()

    def of_record(self, record_id: object, point: Point) -> str:
        """Return the digest of a record at its place, in which no namespace takes part."""
        said = str(record_id).strip().encode("utf-8", "surrogatepass")
        return self._records.digest(b"%d:%d:%b" % (*square_of(point), said))[:16].hex()

    def of_count(self, column: str, cell: str, value: str) -> str:
        """Return the digest of one count: of the records of a cell that have this value."""
        said = "\0".join(("count", column, cell, value)).encode("utf-8", "surrogatepass")
        return self._records.digest(said)[:16].hex()


class KnownPlaces(NamedTuple):
    """The first cells of places under one custodian's key."""

    keys: PlaceKeys
    cells: Mapping[str, str]  # by the digest of the place


def square_of(point: Point) -> _Square:
    """Return the square of a grid, twice as wide as near points are apart, in which a point lies."""
    return floor(point[0] / _WIDTH), floor(point[1] / _WIDTH)


def squares_near(point: Point) -> tuple[_Square, ...]:
    """Return the four squares that hold every point near this one; its own is the first."""
    down, across = point[0] / _WIDTH, point[1] / _WIDTH
    row, column = floor(down), floor(across)
    next_row = row + (1 if down - row >= 0.5 else -1)
    next_column = column + (1 if across - column >= 0.5 else -1)
    return (row, column), (next_row, column), (row, next_column), (next_row, next_column)


def first_by_place(points: Mapping[str, Sequence[Point]], known: Sequence[KnownPlaces]) -> dict[str, str]:
    """Return the first cell of each of these ids whose place was shown before. If a place is near several, its own
    counts, then the coarsest."""
    found: dict[str, str] = {}
    for one in known:
        if one.cells:
            for identity, its in points.items():
                cell = _first(its, one)
                if cell and (identity not in found or _order(cell) < _order(found[identity])):
                    found[identity] = cell
    return found


def _first(points: Iterable[Point], known: KnownPlaces) -> str:
    near: list[str] = []
    for point in points:
        for square in squares_near(point):
            cell = known.cells.get(known.keys.of(square))
            if cell:
                near.append(cell)
                break
    return min(near, key=_order, default="")


def _order(cell: str) -> tuple[int, str]:
    return cells.resolution_of(int(cell, 16)), cell


def shared(points: Mapping[str, Sequence[Point]], shown: Mapping[str, str], fixed: Mapping[str, str]) -> dict[str, str]:
    """Return the cells of the ids that would show a place in another cell than other ids of the same table do. Each
    gets the cell of a `fixed` id, which was shown before, or else the coarsest one."""
    if all(identity in fixed for identity in shown):
        return {}
    claimed: dict[_Square, str] = {}
    changed: dict[str, str] = {}
    located = [identity for identity in points if shown.get(identity)]
    for identity in sorted(located, key=lambda one: (one not in fixed, _order(shown[one]), one)):
        cell = shown[identity]
        if identity not in fixed:
            squares = (square for point in points[identity] for square in squares_near(point))
            other = next((claimed[square] for square in squares if square in claimed), cell)
            if other != cell:
                cell = changed[identity] = other
        for point in points[identity]:
            claimed.setdefault(square_of(point), cell)
    return changed


def learned_places(
    points: Mapping[str, Sequence[Point]],
    shown: Mapping[str, str],
    keys: PlaceKeys,
    known: Mapping[str, str],
    replaced: Container[str] = (),
) -> dict[str, str]:
    """Return the cells of places that are not known yet, or whose ids are `replaced`. A place far outside the cell of
    its record is not remembered with it: such a record has several places."""
    found: dict[int, dict[str, tuple[Point, int]]] = {}  # by resolution and digest
    for identity, its in points.items():
        if cell := shown.get(identity, ""):
            number = int(cell, 16)
            for point in its:
                digest = keys.of(square_of(point))
                if digest not in known or (identity in replaced and known[digest] != cell):
                    found.setdefault(cells.resolution_of(number), {}).setdefault(digest, (point, number))
    new: dict[str, str] = {}
    for resolution, new_ones in found.items():
        latitudes, longitudes = zip(*(point for point, _ in new_ones.values()), strict=True)
        inside = cells.cells_of(latitudes, longitudes, resolution)
        for (digest, (_, number)), own in zip(new_ones.items(), inside, strict=True):
            if own == number or cells.library().are_neighbor_cells(own, number):
                new.setdefault(digest, cells.text_of(number))
    return new
