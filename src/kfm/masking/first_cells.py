"""The first cell: the cell in which a record was first published stays its only public cell.

Two cells of one record could be intersected, and the intersection is smaller than either. So a correction that crosses
an edge does not change the public cell, unless the earlier versions are withdrawn. The state keeps the first cells of
records and of places, and the coarser forms of quasi-identifiers, together: `Memory`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from kfm.masking.cells import parent_of, resolution_of, text_of
from kfm.masking.public_record import WITHHELD, PublicRecord
from kfm.parsing.pmtiles import MAGIC, NoTiles, Tiles
from kfm.parsing.vector_tile import layers_of

FirstCells = Mapping[str, str]  # public id: the cell it was first published in
Verdict = Literal["first", "same", "kept", "withdraw"]


PLACE, COARSE = "place/", "coarse/"


class Memory(NamedTuple):
    """What the state remembers under one custodian's key of the records that were shown."""

    cells: dict[str, str]  # public id: the first cell
    places: dict[str, str]  # keyed digest of a place: the first cell
    forms: dict[str, dict[str, str]]  # public id, or digest of a record at its place: column and its coarser form

    def stored(self) -> dict[str, str]:
        """Return the rows of the state. They hold public values and keyed digests only."""
        return {
            **self.cells,
            **{PLACE + digest: cell for digest, cell in self.places.items()},
            **{COARSE + name: _encode(forms).decode() for name, forms in self.forms.items()},
        }


def memory_of(stored: Mapping[str, str]) -> Memory:
    """Return the memory from the rows of the state."""
    found = Memory({}, {}, {})
    for name, value in stored.items():
        if name.startswith(PLACE):
            found.places[name.removeprefix(PLACE)] = value
        elif name.startswith(COARSE):
            found.forms[name.removeprefix(COARSE)] = msgspec.json.decode(value, type=dict[str, str])
        else:
            found.cells[name] = value
    return found


_encode = msgspec.json.Encoder(order="deterministic").encode


class Remembered(NamedTuple):
    cell: str
    verdict: Verdict  # withdraw: all earlier versions with this record must be withdrawn first


def remembered(first: str, cell: str, *, moved: Literal["keep", "withdraw"] = "keep") -> Remembered:
    """Return the public cell: the first one, unless it is finer than is allowed now.

    In that case it is the parent of the first cell, which readers of earlier versions can compute themselves. The
    coarser cell of the point would often be another one, and both together would show the edge that the point is near.
    """
    if not first or not cell:
        return Remembered(cell, "first" if cell and not first else "same")
    if first == cell:
        return Remembered(cell, "same")
    allowed = resolution_of(int(cell, 16))
    if resolution_of(int(first, 16)) > allowed:
        return Remembered(text_of(parent_of(int(first, 16), allowed)), "withdraw")
    if moved == "withdraw":
        return Remembered(cell, "withdraw")
    return Remembered(first, "kept")


def learned(first: FirstCells, records: Iterable[PublicRecord]) -> dict[str, str]:
    """Return the new first cells in these records; the first record of an id counts."""
    new: dict[str, str] = {}
    for record in records:
        if record.cell and record.id not in first:
            new.setdefault(record.id, record.cell)
    return new


def to_withdraw(first: FirstCells, records: Iterable[PublicRecord]) -> tuple[str, ...]:
    """Return the public ids that earlier versions show in another cell; those versions must be withdrawn first. A row
    without a location does not count if another row of its record has one."""
    shown: dict[str, str] = {}
    for one in records:
        shown[one.id] = one.cell or shown.get(one.id, "")
    return tuple(sorted(identity for identity, cell in shown.items() if first.get(identity, cell) != cell))


def shown_cells(body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the public ids and cells that a table, JSON lines, features or map tiles show; nothing for other files."""
    if body.startswith(MAGIC):
        yield from _of_tiles(body)
        return
    if b"cell" not in body:
        return
    head = body.partition(b"\n")[0].decode("utf-8", "replace")
    names = next(csv.reader([head]), [])
    if "id" in names and "cell" in names:
        identity, cell = names.index("id"), names.index("cell")
        for row in csv.reader(io.StringIO(body.decode("utf-8", "replace"))):
            if len(row) == len(names) and row[cell] not in ("cell", WITHHELD, ""):
                yield row[identity], row[cell]
        return
    for one in _records(body):
        own = one.get("properties")
        shown = (own if isinstance(own, dict) else one).get("cell")
        if isinstance(one.get("id"), str) and isinstance(shown, str) and shown != WITHHELD:
            yield one["id"], shown


def _of_tiles(body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the ids and cells of features up to a tile that cannot be read: people must look at such a file anyway."""
    try:
        tiles = Tiles(body, 1 << 30)
        for entry in tiles.entries():
            for layer in layers_of(tiles.tile(entry)):
                for own in (dict(feature.values) for feature in layer.features):
                    if "id" in own and isinstance(cell := own.get("cell"), str) and cell != WITHHELD:
                        yield str(own["id"]), cell
    except NoTiles:
        return


def _records(body: bytes) -> Iterator[dict[str, Any]]:
    try:
        whole = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        whole = None
    try:
        found = [msgspec.json.decode(line) for line in body.splitlines() if line.strip()] if whole is None else whole
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if isinstance(found, dict):
        found = found.get("features", [found])
    yield from (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()
