"""The journals of runs and their plans: one chain of segments per run, checked on reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from kfm.errors import Corrupt
from kfm.model.keys import GENESIS, digest
from kfm.model.records import Segment
from kfm.store.codec import Repository, decode, exact


class Journal(Repository):
    """Reads the journals and plans of runs."""

    def segments(self, run_id: str) -> Iterator[tuple[Segment, str]]:
        """Yield the segments in order, each with its digest. Raise Corrupt if one does not follow the one before it."""
        previous = GENESIS
        for expected, (key, body) in enumerate(self._rows(run_id)):
            segment = decode(body, Segment, f"segments/{key}")
            if segment.n != expected or segment.prev != previous:
                raise Corrupt(
                    f"record {expected} of the journal of run {run_id} is missing or altered",
                    hint="restore the state from a copy; nothing was replayed",
                    record=expected,
                )
            previous = digest(body)
            yield segment, previous

    def _rows(self, run_id: str) -> Iterator[tuple[str, bytes]]:
        """Yield the journal rows of a run, and then those that were moved to the archive before or during the read."""
        seen: dict[str, bytes] = {}
        for row in self._tables.scan("segments", run_id + "/"):
            seen[row[0]] = sha256(row[1]).digest()
            yield row
        if self._state.archive is not None:
            for key, body in self._state.archive(run_id):
                if key not in seen:
                    yield key, body
                elif seen[key] != sha256(body).digest():
                    raise _other_bytes(run_id, int(key.rpartition("/")[2]))

    def plan_chunks(self, plan_hash: str) -> Iterator[bytes]:
        for _, body in self._tables.scan("plans", plan_hash + "/"):
            yield body

    def locked_plan(self, lock_key: str) -> str | None:
        body = self._tables.get("plan_locks", lock_key)
        return None if body is None else body.decode()


class JournalTx(Journal):
    """Writes the journals and plans of runs, inside an open transaction."""

    def append(self, run_id: str, segment: Segment) -> str:
        """Append a segment; return the digest that the next segment must name. Segments are written once: the same
        bytes again change nothing, and other bytes under the same number raise Corrupt."""
        body, key = exact(segment), f"{run_id}/{segment.n:08d}"
        if not self._tables.add("segments", key, body) and self._tables.get("segments", key) != body:
            raise _other_bytes(run_id, segment.n)
        return digest(body)

    def archive(self, run_id: str, place: bytes, keys: Iterable[str]) -> None:
        """Record the position of an archived journal and remove its rows."""
        self._tables.put("archived", run_id, place)
        for key in keys:
            self._tables.delete("segments", key)

    def plan_chunk(self, plan_hash: str, n: int, body: bytes) -> None:
        self._tables.put("plans", f"{plan_hash}/{n:08d}", body)

    def lock_plan(self, lock_key: str, plan_hash: str) -> None:
        self._tables.put("plan_locks", lock_key, plan_hash.encode())

    def unlock_plan(self, lock_key: str) -> None:
        self._tables.delete("plan_locks", lock_key)


def _other_bytes(run_id: str, n: int) -> Corrupt:
    what = f"record {n} of the journal of run {run_id} is already stored with other bytes"
    return Corrupt(what, hint="restore the state from a copy; nothing was written", record=n)
