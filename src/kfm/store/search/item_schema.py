"""The tables of the item index."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

APPLICATION_ID = 0x4B464D49  # "KFMI"
FORMAT = 1

# The R*Tree rounds to 32 bits, outward: it finds too much, never too little. Time is in days, as long as degrees are
# wide. The last dimension keeps the parts apart: so far that no two of them share a node if it can be avoided.
APART = 65_536
SCHEMA = f"""
CREATE TABLE parts(n INTEGER PRIMARY KEY, dataset TEXT NOT NULL UNIQUE, mark TEXT NOT NULL, rows INTEGER NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL, longest INTEGER NOT NULL,
  crc INTEGER NOT NULL);
CREATE TABLE items(n INTEGER PRIMARY KEY, part INTEGER NOT NULL, id TEXT NOT NULL, start INTEGER NOT NULL,
  end INTEGER NOT NULL, west REAL, south REAL, east REAL, north REAL, shape INTEGER NOT NULL, properties BLOB NOT NULL);
CREATE UNIQUE INDEX by_id ON items(part, id);
CREATE INDEX by_time ON items(part, start DESC, id, end, west, south, east, north, shape);
CREATE TABLE bodies(n INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE VIRTUAL TABLE tree USING rtree(n, west, east, south, north, first, last, low, high);
PRAGMA user_version={FORMAT};
PRAGMA application_id={APPLICATION_ID};
"""


class Part(NamedTuple):
    """One dataset."""

    n: int
    dataset: str
    mark: str
    rows: int
    first: int  # the earliest start, the latest end, and the longest time between the two, of its items
    last: int
    longest: int

    def check(self) -> int:
        """Return the checksum of a part: a damaged number would show the rows of another dataset."""
        return crc32(repr(tuple(self)).encode())


def row_check(dataset: str, n: int, name: str, body: bytes) -> int:
    """Return the checksum of an item: of its body, and of where it belongs."""
    return crc32(body, crc32(repr((dataset, n, name)).encode()))
