"""The map of a dataset and its vector tiles: what its page draws, cut into tiles.

A tile is made of the places that the page shows, so of masked data it has cells alone. Whether the dataset may be shown
is decided before, at each request. What is kept between requests is found again only by the same audience, under the
same labels and policies.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from kfm.app.metadata.archive_places import places_of_public
from kfm.app.serving.dataset_answers import content_of
from kfm.app.serving.served_records import Link
from kfm.model.records import Record
from kfm.projections.pages.page_map import without_outliers
from kfm.projections.tiles.place_tiles import DEEPEST, PlaceTiles, bounds_of
from kfm.projections.tiles.tile_bytes import MEDIA_TYPE

if TYPE_CHECKING:
    from kfm.app.serving.shelf import Shelf, ShownDataset
    from kfm.app.session.session import Session

MVT = MEDIA_TYPE
CORNERS = 250_000  # of the lines and areas of one dataset
MOST_TILES, MOST_BYTES = 4096, 32 << 20  # kept
MOST_WEIGHT = 4_000_000  # numbers in the places that are kept
Key = tuple[str, ...]


class MapAnswer(Record, frozen=True):
    """What a map of a dataset draws, and where its tiles are."""

    dataset: str
    version: str
    source: Literal["none", "tiles", "file"]  # none: nothing to draw; file: a PMTiles file that the version has
    tiles: str  # the address of a tile with {z}, {x} and {y}, or of the file; empty: none
    min_zoom: int
    max_zoom: int  # a file has its own
    bounds: tuple[float, ...]  # west, south, east, north; east is above 180 across the date line; empty: unknown
    is_masked: bool  # places are shown as cells alone
    is_extent: bool  # the boxes around files, not what is in them
    is_boxed: bool  # some lines and areas are the boxes around them: they have too many corners
    places: int  # what the tiles draw
    beyond: int  # places that are nearer to a pole than the map reaches
    read_files: int
    files: int
    outline: tuple[tuple[tuple[float, float], ...], ...]  # lines of the archive's outline, longitude and latitude
    links: tuple[Link, ...]
    ledger_entries: int


class _Known(NamedTuple):
    answer: MapAnswer  # without the outline, and of no ledger entry
    tiles: PlaceTiles


class MapCatalog:
    """The maps of the datasets that are served. One process has one; its threads share it."""

    def __init__(self) -> None:
        self._maps: OrderedDict[Key, _Known] = OrderedDict()
        self._tiles: OrderedDict[tuple[Key, int, int, int], bytes] = OrderedDict()
        self._size = 0
        self._own = threading.Lock()
        self._building = threading.Lock()  # one map is built at a time: it takes memory

    def answer(self, session: Session, shelf: Shelf, shown: ShownDataset, index: int) -> MapAnswer:
        found = self._known(session, shelf, shown).answer
        outline = places_of_public(session).outline
        lines = tuple(tuple((x, y) for x, y in line) for line in outline)
        return replace(found, outline=lines, ledger_entries=index)

    def tile(self, session: Session, shelf: Shelf, shown: ShownDataset, zoom: int, column: int, row: int) -> bytes:
        """Return a tile of the places of a dataset."""
        key = (_key(shelf, shown), zoom, column, row)
        with self._own:
            body = self._tiles.get(key)
            if body is not None:
                self._tiles.move_to_end(key)
                return body
        body = self._known(session, shelf, shown).tiles.tile(zoom, column, row)
        with self._own:
            self._size += len(body) - len(self._tiles.pop(key, b""))
            self._tiles[key] = body
            while len(self._tiles) > MOST_TILES or self._size > MOST_BYTES:
                self._size -= len(self._tiles.popitem(last=False)[1])
        return body

    def _known(self, session: Session, shelf: Shelf, shown: ShownDataset) -> _Known:
        key = _key(shelf, shown)
        found = self._found(key)
        if found is None:
            with self._building:
                found = self._found(key) or self._built(session, shown, key)
        return found

    def _found(self, key: Key) -> _Known | None:
        with self._own:
            found = self._maps.get(key)
            if found is not None:
                self._maps.move_to_end(key)
            return found

    def _built(self, session: Session, shown: ShownDataset, key: Key) -> _Known:
        made = _made(session, shown)
        with self._own:
            self._maps[key] = made
            while len(self._maps) > 1 and sum(each.tiles.weight for each in self._maps.values()) > MOST_WEIGHT:
                self._maps.popitem(last=False)
        return made


def is_tile(zoom: int, column: int, row: int) -> bool:
    """Return whether there is a tile of these numbers."""
    return 0 <= zoom <= DEEPEST and 0 <= column < 1 << zoom and 0 <= row < 1 << zoom


def _key(shelf: Shelf, shown: ShownDataset) -> Key:
    return (shelf.audience, shown.dataset, shown.mark, shelf.epoch(shown))


def _made(session: Session, shown: ShownDataset) -> _Known:
    content = content_of(session, shown)
    found = content.places(CORNERS)
    tiles, file = PlaceTiles(found.drawing), content.tile_path()
    count = found.drawing.places() - tiles.beyond
    at = f"/v1/datasets/{shown.dataset}"
    source: Literal["none", "tiles", "file"] = "file" if file else "tiles" if count > 0 else "none"
    here = {"none": "", "file": f"/datasets/{shown.dataset}/{file}", "tiles": at + "/tiles/{z}/{x}/{y}"}
    box = bounds_of(without_outliers(found.drawing)[0]) if source == "tiles" else None
    version = content.version
    answer = MapAnswer(
        dataset=shown.dataset,
        version=shown.version,
        source=source,
        tiles=here[source],
        min_zoom=0,
        max_zoom=DEEPEST,
        bounds=box or (),
        is_masked=version.made.labels is not None,
        is_extent=found.drawing.is_extent,
        is_boxed=found.boxed,
        places=count,
        beyond=tiles.beyond,
        read_files=found.files,
        files=version.entries,
        outline=(),
        links=(
            Link(rel="self", href=f"{at}/map"),
            Link(rel="dataset", href=at),
            Link(rel="alternate", href=f"/datasets/{shown.dataset}/", type="text/html", title="the page"),
        ),
        ledger_entries=0,
    )
    return _Known(answer, tiles)
