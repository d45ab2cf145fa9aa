"""Which objects there are, and which of them the state reaches: a temporary table on the disk, because there may be
millions. Nothing of it outlives the process."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

SMALL, LARGE, ASIDE = 1, 2, 4  # a row of the state, a file, set aside; one object may be at several of these places
_CACHE = 16_384  # KiB of pages in memory

Listed = tuple[bytes, int, int, int]  # its name, where it is, its size, since when it is set aside


class ObjectMarks:
    """All objects by name. Each is unreached, reached and waiting to be read, or read."""

    def __init__(self) -> None:
        self._db = apsw.Connection("")
        self._run = self._db.cursor().execute
        self._run(f"PRAGMA cache_size=-{_CACHE}")
        self._run("PRAGMA journal_mode=OFF")
        self._run(
            "CREATE TABLE objects(name BLOB PRIMARY KEY, places INTEGER, size INTEGER, since INTEGER, "
            "reached INTEGER DEFAULT 0) WITHOUT ROWID"  # 0: not reached, 1: waiting to be read, 2: read
        )
        self._run("CREATE INDEX waiting ON objects(name) WHERE reached=1")

    def close(self) -> None:
        self._db.close()

    def add(self, objects: Iterable[Listed]) -> None:
        self._many(
            "INSERT INTO objects(name, places, size, since) VALUES(?,?,?,?) "
            "ON CONFLICT DO UPDATE SET places=places|excluded.places, since=max(since, excluded.since)",
            objects,
        )

    def reach(self, names: Iterable[bytes]) -> None:
        """Note that these objects are named. Names of no object are passed over."""
        rows = ((name,) for name in names)
        self._many("UPDATE objects SET reached=1 WHERE name=? AND reached=0", rows)

    def next_to_read(self, limit: int = 500) -> list[tuple[bytes, int]]:
        """Return objects that are reached and were not read yet, with their places, and note that they are read now."""
        query = "SELECT name, places FROM objects INDEXED BY waiting WHERE reached=1 ORDER BY name LIMIT ?"
        found = [(bytes(name), int(places)) for name, places in self._run(query, (limit,))]
        self._many("UPDATE objects SET reached=2 WHERE name=?", [(name,) for name, _ in found])
        return found

    def found(self, *, reached: bool, places: int, after: bytes = b"", limit: int = 10_000) -> list[Listed]:
        """Return the objects at these places that are reached, or are not, in the order of their names."""
        query = (
            "SELECT name, places, size, since FROM objects WHERE name>? AND places&? AND (reached>0)=? "
            "ORDER BY name LIMIT ?"
        )
        return [
            (bytes(name), int(where), int(size), int(since))
            for name, where, size, since in self._run(query, (after, places, reached, limit))
        ]

    def counts(self, *, reached: bool, places: int) -> tuple[int, int]:
        """Return how many objects there are at these places, and their bytes."""
        query = "SELECT count(*), coalesce(sum(size), 0) FROM objects WHERE places&? AND (reached>0)=?"
        count, size = next(iter(self._run(query, (places, reached))))
        return int(count), int(size)

    def _many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._run("BEGIN")
        self._db.executemany(statement, rows)
        self._run("COMMIT")
