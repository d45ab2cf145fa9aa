"""A read-only view of a state in Postgres, as of one moment: one transaction from the first read to closing.

It takes no lock that a writer waits for, and works on a hot standby. The server ends a transaction that is idle for
long; if nothing was committed meanwhile, the reader continues with a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kfm.clock import Clock
from kfm.store.overlay import OverlayTables
from kfm.store.postgres.rows import PostgresRows, Unmade
from kfm.store.postgres.statements import TABLES
from kfm.store.state_formats import FORMAT, upgrade


class PostgresReader(PostgresRows):
    """The tables of a state as of the moment of opening. They are only read."""

    def __init__(
        self, dsn: Mapping[str, str | int], schema: str = "kfm", wait_s: float = 30.0, *, clock: Clock | None = None
    ) -> None:
        super().__init__(dsn, schema, wait_s, clock=clock, writes=False)
        self._present = frozenset(TABLES)
        try:
            self.patiently(lambda: None)
            self.is_reading = True
            if self.format < FORMAT:
                rows = self.query(self.sql.relations())
                self._present = frozenset((name or b"").decode() for name, _ in rows)
                self.lack(frozenset(TABLES) - self._present)
        except Unmade:  # a state that nothing was written to yet
            self._present = frozenset()
            self.link.drop()
        except BaseException:
            self.link.drop()
            raise

    @property
    def round_trips(self) -> int:
        return self.link.round_trips

    def now_ms(self) -> int:
        """Return the server's time; this machine's, if there is no state yet."""
        return super().now_ms() if self._present else self.clock.now_ms()

    def get(self, table: str, key: str) -> bytes | None:
        return super().get(table, key) if table in self._present else None

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        if table in self._present:
            yield from super().scan(table, prefix, after=after, reverse=reverse, limit=limit)

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self.lock:
            yield

    def verify(self) -> int:
        """Read and check every row; return the number of rows. Raise Corrupt if one is damaged."""
        return sum(1 for table in TABLES for _ in self.scan(table))


def open_postgres_reader(
    dsn: Mapping[str, str | int], schema: str = "kfm", wait_s: float = 30.0, *, clock: Clock | None = None
) -> PostgresReader | OverlayTables:
    """Return the tables of a state for reading as of now. A state of an older format is upgraded in memory; one that
    does not exist is empty."""
    reader = PostgresReader(dsn, schema, wait_s, clock=clock)
    if not 0 < reader.format < FORMAT:
        return reader
    upgraded = OverlayTables(reader)
    upgrade(upgraded, reader.format)
    return upgraded
