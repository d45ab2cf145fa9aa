"""Compaction: the journals of ended runs move out of the tables into one immutable object.

The object is durable before anything is removed, and one transaction writes where each run's journal
lies and removes its rows. Every question is answered as before: `StoredState.segments` reads the
archive where the rows are gone, and checks the same chain.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kfm.contract.ports import Objects
from kfm.contract.records import Record
from kfm.errors import Corrupt
from kfm.store.state import StoredState

BATCH = 500  # runs that move together


class Place(Record, frozen=True):
    """Where a run's journal lies in an archive object."""

    object: str
    offset: int
    length: int


class Archive:
    def __init__(self, state: StoredState, objects: Objects) -> None:
        self._state = state
        self._objects = objects
        state.archive = self.rows

    def rows(self, run_id: str) -> Iterator[tuple[str, bytes]]:
        """The archived rows of a run's journal, as they were."""
        body = self._state.tables.get("archived", run_id)
        if body is None:
            return
        place = msgspec.json.decode(body, type=Place)
        with self._objects.open(place.object) as file:
            file.read(place.offset)
            text = file.read(place.length)
            while file.read(1 << 20):  # to the end: the object is checked whole
                pass
        if len(text) != place.length:
            raise Corrupt(f"the archived journal of run {run_id} is cut short", hint="restore the objects from a copy")
        for line in text.splitlines():
            key, value = msgspec.json.decode(line, type=tuple[str, str])
            yield key, value.encode()

    def compact(self) -> int:
        """Move the journals of all ended runs; returns how many runs were moved."""
        moved = 0
        while batch := self._ended(BATCH):
            parts, places, at = [], {}, 0
            for run_id in batch:
                rows = list(self._state.tables.scan("segments", run_id + "/"))
                list(self._state.segments(run_id))  # the chain must hold before it is put away
                body = b"".join(msgspec.json.encode((key, value.decode())) + b"\n" for key, value in rows)
                parts.append(body)
                places[run_id] = (at, len(body), [key for key, _ in rows])
                at += len(body)
            name = self._objects.put(b"".join(parts))
            with self._state.transaction() as tx:
                for run_id, (offset, length, keys) in places.items():
                    tx.archive(run_id, msgspec.json.encode(Place(object=name, offset=offset, length=length)), keys)
            moved += len(batch)
        return moved

    def _ended(self, limit: int) -> list[str]:
        """Runs with a journal that have ended."""
        found: list[str] = []
        after = ""
        tables = self._state.tables
        while len(found) < limit:
            row = next(tables.scan("segments", after=after, limit=1), None)
            if row is None:
                return found
            run_id = row[0].partition("/")[0]
            if tables.get("open_runs", run_id) is None:
                found.append(run_id)
            after = run_id + "0"  # "0" is what follows "/": past the rows of this run
        return found
