"""A grid as its reader returns it: its description, and its values in slabs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kfm.errors import Unavailable

MOST_VALUES = 1 << 31
MOST_VARIABLES = 10_000
MOST_BLOCK = 256 << 20  # bytes that may be decoded at once
SLAB = 1 << 22  # values that are checked together


class NoGrid(Exception):
    """Raised if a grid cannot be read. `why` completes the sentence of the message."""

    def __init__(self, why: str = "", rule: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.rule = rule


class Variable(NamedTuple):
    """A variable of a grid: a band, a message or an array."""

    name: str
    dtype: str  # as numpy calls it
    units: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    nodata: float | None
    values: Callable[[], Iterator[Any]]  # numpy arrays, masked where no value is known


class Grid(NamedTuple):
    """A grid as its file describes it: variables, place and time."""

    variables: list[Variable]
    crs: str = ""  # authority:code; empty: not given
    bounds: tuple[float, float, float, float] | None = None  # west, south, east, north in its coordinates
    box: tuple[float, float, float, float] | None = None  # the same in degrees
    times: tuple[str, str] | None = None  # first and last, RFC 3339 in UTC


def libraries(what: str, *names: str) -> list[Any]:
    """Import optional libraries and return their modules. Raise Unavailable, which says that `what` needs them, if one
    is missing."""
    from importlib import import_module

    try:
        return [import_module(name) for name in names]
    except ModuleNotFoundError as problem:
        raise Unavailable(
            f"{what} needs a library that is not installed", hint='pip install "kansas-frontier-matrix[grids]"'
        ) from problem


def turned(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Return a bounding box with longitudes from 0 to 360 as -180 to 180; half a cell beyond a pole becomes the
    pole."""
    west, south, east, north = box
    cell = 1.0  # degrees that the centre of a cell may be beyond an edge
    if east > 180 and west >= -cell and east <= 360 + cell:
        west, east = (-180.0, 180.0) if east - west >= 360 - cell else (_within(west), _within(east))
    south, north = (
        (max(south, -90.0) if south > -90 - cell else south),
        (min(north, 90.0) if north < 90 + cell else north),
    )
    return west, south, east, north


def _within(longitude: float) -> float:
    return longitude - 360 if longitude > 180 else longitude


def slabs(shape: tuple[int, ...], most: int = SLAB) -> Iterator[tuple[slice, ...]]:
    """Yield slices that cut an array into pieces of about `most` values, in the order of the array."""
    if 0 in shape:
        return
    if not shape or count_of(shape) <= most:
        yield tuple(slice(0, size) for size in shape)
        return
    rest = count_of(shape[1:])
    step = max(1, most // rest) if rest <= most else 1
    for start in range(0, shape[0], step):
        first = slice(start, min(start + step, shape[0]))
        if rest <= most:
            yield (first, *(slice(0, size) for size in shape[1:]))
        else:
            for others in slabs(shape[1:], most):
                yield (first, *others)


def count_of(shape: Iterable[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


def checked_block(size: int) -> None:
    """Raise NoGrid if one piece to decode is too large."""
    if size > MOST_BLOCK:
        raise NoGrid(f"a piece of it is larger than {MOST_BLOCK >> 20} MiB when it is decoded", "grid.size")
