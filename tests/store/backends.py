"""Every backend of Tables, as something that can be opened, closed and opened again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kfm.model.ports import Tables
from kfm.store.jsonl import JsonlTables
from kfm.store.memory import MemoryTables
from kfm.store.overlay import OverlayTables
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables
from tests.servers import postgres

FILES = ("sqlite", "jsonl")  # those that are files of this process
STORED = (*FILES, "postgres")  # those that outlive a process
ALL = (
    "memory", *STORED, "pooled-postgres", "overlay-memory", "overlay-sqlite", "overlay-jsonl", "overlay-snapshot",
    "overlay-postgres",
)  # fmt: skip
TABLES = ("runs", "refs", "objects", "ledger")


class Backend:
    """One place where tables live."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = str(folder / "state")
        self._memory: Tables | None = None
        self._is_stored = kind in (*STORED, "pooled-postgres")

    def open(self) -> Tables:
        """The tables; for memory, and for what an overlay holds, the same ones every time."""
        if self._is_stored:
            return open_stored(self.kind, self.path)
        if self._memory is None:
            self._memory = self._open_once()
        return self._memory

    def _open_once(self) -> Tables:
        if self.kind == "memory":
            return MemoryTables()
        below = self.kind.removeprefix("overlay-")
        if below == "memory":
            return OverlayTables(MemoryTables())
        if below == "snapshot":
            open_stored("sqlite", self.path).close()
            return OverlayTables(SnapshotTables(self.path))
        if below == "postgres":
            open_stored("postgres", self.path).close()
            return overlay_on_postgres(self.path)
        return OverlayTables(open_stored(below, self.path))

    def reopen(self, tables: Tables) -> Tables:
        if self._is_stored:
            tables.close()
        return self.open()


def open_stored(kind: str, path: str) -> Tables:
    if kind.endswith("postgres"):
        return open_postgres(path, through_pooler=kind.startswith("pooled"))
    return SqliteTables(path, busy_ms=20) if kind == "sqlite" else JsonlTables(path)


def open_postgres(path: str, *, through_pooler: bool = False) -> Tables:
    """Tables in a schema that belongs to this path: the server and the schema are written in a file there."""
    from kfm.store.postgres import PostgresTables

    dsn, schema = postgres.place(Path(path))
    if through_pooler:
        dsn["port"] = pooler_of(int(dsn["port"]))
    tables = PostgresTables(dsn, schema, 0.3)
    vars(tables)["now_ms"] = None  # the suites give their states a clock
    return tables


def pooler_of(port: int) -> int:
    from tests.servers import pgbouncer

    try:
        return pgbouncer.pooled(postgres.Cluster(Path(), port=port))
    except postgres.Absent as problem:
        postgres.absent(problem)


def overlay_on_postgres(path: str) -> Tables:
    from kfm.store.postgres import open_postgres_reader

    dsn, schema = postgres.place(Path(path))
    overlay = OverlayTables(open_postgres_reader(dsn, schema, 0.3))
    overlay.now_ms = None
    return overlay


def content(tables: Tables, names: tuple[str, ...] = TABLES) -> dict[tuple[str, str], bytes]:
    return {(table, key): value for table in names for key, value in tables.scan(table)}


def write(tables: Tables, rows: dict[str, bytes | None], table: str = "runs", *, durable: bool = True) -> None:
    """One transaction; None deletes."""
    tables.begin(durable)
    for key, value in rows.items():
        if value is None:
            tables.delete(table, key)
        else:
            tables.put(table, key, value)
    tables.commit()


def keys(rows: Iterator[tuple[str, bytes]]) -> list[str]:
    return [key for key, _ in rows]
