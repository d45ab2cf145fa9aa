"""Compaction: the journals of ended runs move out of the tables into one immutable object.

The object is durable before anything is removed, and one transaction records the position of each run's journal and
removes its rows. Every read gives the same result as before: `StoredState.segments` reads the archive if the rows are
gone, and checks the same chain.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from kfm.errors import Corrupt
from kfm.model.ports import Objects
from kfm.store.codec import ArchivePlace
from kfm.store.state import StoredState

BATCH = 500  # most runs that move together
FULL = 4 << 20  # bytes after which an object takes no further run: reading one journal checks all of it


class Archive:
    def __init__(self, state: StoredState, objects: Objects) -> None:
        self._state = state
        self._objects = objects
        state.archive = self.rows

    def rows(self, run_id: str) -> Iterator[tuple[str, bytes]]:
        """Yield the archived rows of a run's journal, unchanged."""
        body = self._state.tables.get("archived", run_id)
        if body is None:
            return
        place = msgspec.json.decode(body, type=ArchivePlace)
        with self._objects.open(place.object) as file:
            while file.read(1 << 20):
                """Read to the end: the digest is checked before any row is used."""
        at, end = 0, place.offset + place.length
        with self._objects.open(place.object) as file:
            for line in file:
                if place.offset <= at < end:
                    key, value = msgspec.json.decode(line, type=tuple[str, str])
                    yield key, value.encode()
                at += len(line)
        if at < end:
            raise Corrupt(f"the archived journal of run {run_id} is cut short", hint="restore the objects from a copy")

    def waiting(self) -> int:
        """Return how many ended runs have a journal that is not in the archive."""
        return len(self._ended(sys.maxsize))

    def has(self, run_id: str) -> bool:
        """Return whether the journal of this run is in the archive."""
        return self._state.tables.get("archived", run_id) is not None

    def compact(self) -> int:
        """Move the journals of all ended runs into the archive; return the number of moved runs. Other processes may do
        so at the same time."""
        moved = 0
        while batch := self._ended(BATCH):
            moved += self._put_away(batch)
        return moved

    def _put_away(self, batch: list[str]) -> int:
        """Move the journals of as many of these runs as fit into one object; return how many this process moved."""
        places: dict[str, tuple[int, int, list[str]]] = {}
        at = 0
        staging = self._objects.stage()
        try:
            for run_id in batch:
                for _ in self._state.journal.segments(run_id):
                    """The chain must be intact before the journal moves."""
                start, keys = at, []
                for key, value in self._state.tables.scan("segments", run_id + "/"):
                    line = msgspec.json.encode((key, value.decode())) + b"\n"
                    staging.write(line)
                    at += len(line)
                    keys.append(key)
                places[run_id] = start, at - start, keys
                if at >= FULL:
                    break
        except BaseException:
            staging.abort()
            raise
        if not at:  # another process moved all of it meanwhile
            staging.abort()
            return 0
        name, _ = staging.commit()
        moved = 0
        with self._state.transaction() as tx:
            for run_id, (offset, length, keys) in places.items():
                # The rows of an ended run are removed together: if the first is gone, another process moved it.
                if keys and self._state.tables.get("segments", keys[0]) is not None:
                    place = ArchivePlace(object=name, offset=offset, length=length)
                    tx.journal.archive(run_id, msgspec.json.encode(place), keys)
                    moved += 1
        return moved

    def _ended(self, limit: int) -> list[str]:
        """Return ended runs that still have journal rows."""
        found: list[str] = []
        after = ""
        tables = self._state.tables
        while len(found) < limit:
            row = next(tables.scan("segments", after=after, limit=1), None)
            if row is None:
                return found
            run_id = row[0].partition("/")[0]
            run = self._state.runs.get(run_id)
            if run is None or run.status != "RUNNING":
                found.append(run_id)
            after = run_id + "0"  # "0" is the character after "/": skips the rows of this run
        return found
