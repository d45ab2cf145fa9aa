"""What a PMTiles file of vector tiles shows: its texts and numbers as texts, and its geometry as places.

Names, attributes, metadata, bounds and centre are texts as those of any other file. Coordinates become places of as
many digits as their grid has (`tile_grid`), unless the feature shows a whole H3 cell: then the cell is what it shows.
A place of two or three digits is not compared if a deeper zoom of the same layer has one near it: it is the same place
seen from farther, and would only match by chance more often. A tile without any geometry is itself a place as large as
the tile, because it says that something is there.

Whatever is not a vector tile, compressed in another way, larger than the limits, or has bytes that nothing names is
refused with NoTiles: a person must look at it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kfm.masking import cells
from kfm.masking.tile_grid import Grid, Places, Position
from kfm.parsing.pmtiles import VECTOR, NoTiles, Tile, Tiles, place_of
from kfm.parsing.vector_tile import Feature, Layer, Value, layers_of

_AGAIN = 1 << 20  # coordinates of tiles that stand for several places
_LARGEST = 1 << 24  # bytes of a tile
_SMALL, _RATIO = 1 << 26, 32  # bytes of all tiles, and how many more for each byte of the file
_KEPT = 1 << 20  # rows, and squares of places, that are remembered
_FINE = 4  # digits from which a place is compared at every zoom
_CENTRE = re.compile(r"\[(-?[0-9]{1,3}\.[0-9]{1,6}),(-?[0-9]{1,2}\.[0-9]{1,6})\]")


class TileContents:
    """Reads one file. `finest` is the resolution of the cells that the version may show, if it is masked."""

    def __init__(self, body: bytes, room: int, finest: int | None) -> None:
        self.tiles = Tiles(body, min(room, _SMALL + _RATIO * len(body)))
        self.faults: Counter[str] = Counter()  # rules that features broke which name a cell
        self._finest = finest
        self._again = _AGAIN
        self._offsets: set[int] = set()  # of the tiles that were read
        self._rows: set[int] = set()  # hashes of what was yielded
        self._cells: set[int] = set()  # that features show
        self._deeper: dict[str, set[Position]] = {}  # by layer: squares with a place at a deeper zoom

    def parts(self) -> Iterator[str | Places]:
        """Yield texts and places. Raise NoTiles if anything cannot be read."""
        tiles = self.tiles
        if tiles.kind != VECTOR:
            raise NoTiles("it has no vector tiles")
        west, south, east, north = tiles.bounds
        corners = ((south, west), (north, east), (south, east), (north, west), tiles.centre[::-1])
        yield "\n".join(f"{lat:.7f} {lng:.7f}" for lat, lng in corners)
        yield self._without_centres(tiles.metadata_text())
        zoom, found = -1, dict[str, set[Position]]()
        for entry in reversed(list(tiles.entries())):
            place = place_of(entry.number)
            if place[0] != zoom:
                self._remember(found)
                zoom = place[0]
            yield from self._tile(entry, place, found)
        if tiles.has_unread():
            raise NoTiles("it has bytes that its index does not name")

    def _remember(self, found: dict[str, set[Position]]) -> None:
        for name, squares in found.items():
            known = self._deeper.setdefault(name, set())
            if len(known) < _KEPT:
                known |= squares
        found.clear()

    def _tile(
        self, entry: Tile, place: tuple[int, int, int], found: dict[str, set[Position]]
    ) -> Iterator[str | Places]:
        body = self.tiles.tile(entry)
        if len(body) > _LARGEST:
            raise NoTiles("one of its tiles is too large")
        layers = layers_of(body)
        for layer in layers:
            yield from self._texts(layer)
        count = sum(len(one.positions) for layer in layers for one in layer.features)
        self._again -= (entry.run - (entry.offset not in self._offsets)) * (count + 1)
        self._offsets.add(entry.offset)
        if self._again < 0:
            raise NoTiles("one of its tiles stands for too many places")
        for number in range(entry.number, entry.number + entry.run):
            if number > entry.number:
                place = place_of(number)
            if not count:
                grid = Grid(*place, 1)
                if grid.digits:
                    yield Places(grid.digits, [grid.point(0.5, 0.5)])
            for layer in layers:
                yield from self._places(layer, Grid(*place, layer.extent), found)

    def _texts(self, layer: Layer) -> Iterator[str]:
        rows = [layer.name, *map(_text, layer.unused)]
        for one in layer.features:
            row = "\t".join(f"{name}\t{self._without_centres(_text(value))}" for name, value in one.values)
            rows.append(row if one.number is None else f"{one.number}\t{row}")
        known = self._rows
        new = [row for row in rows if hash(row) not in known]
        if len(known) < _KEPT:
            known.update(map(hash, new))
        if new:
            yield "\n".join(new)

    def _places(self, layer: Layer, grid: Grid, found: dict[str, set[Position]]) -> Iterator[str | Places]:
        shown: set[int] = set()
        points: list[Position] = []
        for one in layer.features:
            if one.positions:
                said = _cell(one)
                cell = 0
                if said or self._finest is not None:
                    cell = grid.cell_of(one.positions, said, self._finest, said in self._cells)
                if cell:
                    shown.add(cell)
                    continue
                if said and self._finest is not None:
                    too_fine = cells.resolution_of(said) > self._finest
                    self.faults["gate.cell-too-fine" if too_fine else "gate.place-beside-the-cell"] += 1
                points += [grid.point(x, y) for x, y in one.positions]
        if shown - self._cells:
            yield "\n".join(map(cells.text_of, shown - self._cells))
            self._cells |= shown
        digits = grid.digits
        if 0 < digits < _FINE and (deeper := self._deeper.get(layer.name)):
            points = [point for point in points if deeper.isdisjoint(_around(point))]
        if digits and points:
            found.setdefault(layer.name, set()).update(map(_square, points))
            yield Places(digits, points)

    def _without_centres(self, text: str) -> str:
        """Return a text without the centres of cells that may be shown, as masked records write them."""
        if self._finest is None or "[" not in text:
            return text
        return _CENTRE.sub(lambda found: "" if self._is_centre(float(found[1]), float(found[2])) else found[0], text)

    def _is_centre(self, longitude: float, latitude: float) -> bool:
        if abs(latitude) > 90 or abs(longitude) > 180:
            return False
        shown = (cells.cell_of(latitude, longitude, own) for own in range(self._finest or 0, -1, -1))
        return any(cells.shape_of(cell).centroid == (longitude, latitude) for cell in shown)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else repr(value)


def _cell(feature: Feature) -> int:
    """Return the cell that a feature names; 0 if it names none."""
    said = next((value for name, value in feature.values if name == "cell"), None)
    if not isinstance(said, str) or not re.fullmatch(r"8[0-9a-f]{14}", said):
        return 0
    number = int(said, 16)
    return number if cells.library().is_valid_cell(number) else 0


def _square(point: Position) -> tuple[int, int]:
    return int(point[0] * 100), int(point[1] * 100)


def _around(point: Position) -> list[Position]:
    row, column = _square(point)
    return [(row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
