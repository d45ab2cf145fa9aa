"""Finds damage in GeoPackage and FlatGeobuf files that a reader of all rows does not notice.

A broken page of a database may lie outside the rows that are read, and a spatial index is used only by a reader that
looks for a place: it would then miss features, or find others.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from math import isnan

_NODE = struct.Struct("<4dQ")  # the box of an entry, and where it leads: to its first child, or to a feature
SPATIAL_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%rtree%'"


class Unfit(ValueError):
    """Raised for a file that must be quarantined as a whole; `rule` names the broken rule."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


def check_database(body: bytes) -> None:
    """Raise Unfit unless SQLite finds every page, row and index of a GeoPackage intact, also its spatial indexes."""
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(body)
        database.execute("PRAGMA trusted_schema = OFF")
        intact = [row[0] for row in database.execute("PRAGMA integrity_check(1)")] == ["ok"]
        indexes = [row[0] for row in database.execute(SPATIAL_TABLES)] if intact else []
        intact = intact and all(
            database.execute("SELECT rtreecheck(?)", (name,)).fetchone()[0] == "ok" for name in indexes
        )
    except (sqlite3.Error, UnicodeDecodeError):  # a message of SQLite may quote damaged text
        intact = False
    finally:
        database.close()
    if not intact:
        raise Unfit("geopackage.damaged", "its database fails the integrity check of SQLite")


def check_flatgeobuf(index: bytes, node: int, starts: Sequence[int], boxes: Sequence[Sequence[float]]) -> None:
    """Raise Unfit unless the index of a FlatGeobuf file leads to every feature.

    `node` is the number of entries in a node, `starts` says where each feature begins after the index, and `boxes`
    are the boxes of the features. Features without coordinates have boxes of NaN.
    """
    entries = [_NODE.unpack_from(index, at) for at in range(0, len(index), _NODE.size)]
    leaves = len(entries) - len(starts)
    found = {entry[4]: entry for entry in entries[leaves:]}
    right = len(found) == len(starts) and all(
        start in found and (_is_nowhere(box) or _holds(found[start], box))
        for start, box in zip(starts, boxes, strict=True)
    )
    if not (right and all(_leads_on(entries, number, node, leaves) for number in range(leaves))):
        raise Unfit("flatgeobuf.damaged", "its spatial index does not lead to all of its features")


def _leads_on(entries: Sequence[tuple[float, ...]], number: int, node: int, leaves: int) -> bool:
    """Return whether an inner entry of an index leads to entries further on, and holds their boxes."""
    first = int(entries[number][4])
    last = min(first + node, _level_end(len(entries), node, first, len(entries) - leaves))
    return number < first < len(entries) and all(_holds(entries[number], each) for each in entries[first:last])


def _level_end(count: int, node: int, entry: int, features: int) -> int:
    """Return where the level of the tree ends that has this entry. The last level has one entry for each feature."""
    end, width = count, features
    while entry < end - width and width > 1:
        end -= width
        width = -(-width // node)
    return end


def _holds(outer: Sequence[float], inner: Sequence[float]) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and outer[2] >= inner[2] and outer[3] >= inner[3]


def _is_nowhere(box: Sequence[float]) -> bool:
    return any(isnan(each) for each in box)
