"""Tables over Postgres: one writer at a time, as in SQLite, on any number of machines.

A transaction takes two round trips of its own: `begin` takes a lock that ends with the transaction and reads what
nearly every transaction needs; the writes are gathered in memory and sent with the COMMIT. Between the two, rows come
from the cache unless another process has committed.

If the answer to a COMMIT is lost, the commit is looked up by its number and its random token. A server that no longer
has a durable commit which it acknowledged to this process is refused: a standby that lagged, or an older copy.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager

from kfm.clock import Clock
from kfm.errors import Busy, Refused, Unavailable
from kfm.store.overlay import OverlayTables
from kfm.store.postgres.connection import Statement, as_number
from kfm.store.postgres.rows import OwnCommit, PostgresRows, Unmade
from kfm.store.postgres.server_errors import ConnectionLost, Rejected, statement_problem, unavailable
from kfm.store.postgres.server_settings import server_settings
from kfm.store.postgres.statements import EVERY, RING, TABLES
from kfm.store.state_formats import FORMAT, upgrade


class PostgresTables:
    """The tables of a state in one schema of a Postgres database."""

    def __init__(
        self, dsn: Mapping[str, str | int], schema: str = "kfm", wait_s: float = 30.0, *, clock: Clock | None = None
    ) -> None:
        """`dsn` holds parameters of libpq; `wait_s` is how long an operation waits for a server that restarts, and for
        another writer."""
        self._stored = PostgresRows(dsn, schema, wait_s, clock=clock)
        self._link = self._stored.link
        self._sql = self._stored.sql
        self._gathered: OverlayTables | None = None  # the writes of the open transaction
        self._durable = True
        try:
            self._open()
        except BaseException:
            self._link.drop()
            raise

    @property
    def round_trips(self) -> int:
        """How often this process waited for the server."""
        return self._link.round_trips

    # -- opening

    def _open(self) -> None:
        try:
            self._stored.patiently(lambda: None)
        except Unmade:
            self._make()
            self._stored.patiently(lambda: None)
        if self._stored.format < FORMAT:
            self._upgrade()

    def _make(self) -> None:
        """Create the tables, unless another process does it just now. Raise Refused if the schema holds others."""
        sql = self._sql
        try:
            *_, schema, relations = self._link.run(
                *sql.begin(self._link.wait_s, True), sql.has_schema(), sql.relations()
            )
            found = {(name or b"").decode(): (columns or b"").decode() for name, columns in relations}
            if all(found.get(name) == EVERY[name] for name in ("guard", "commit_ring")):
                self._link.post(Statement("ROLLBACK"))
                return
            if found:
                self._link.post(Statement("ROLLBACK"))
                raise Refused(
                    f"the schema {sql.schema} holds tables of another program",
                    hint="name a schema of its own: `postgres: {schema: …}`",
                )
            self._link.run(
                *([] if schema else [sql.make_schema()]),
                *(sql.make(table) for table in TABLES),
                sql.make_ring(),
                *sql.put("guard", {"commits": b"0 new", "format": b"%d" % FORMAT}),
                Statement("COMMIT"),
            )
        except Rejected as refused:
            raise statement_problem(refused, self._link.place) from refused
        except ConnectionLost as lost:
            raise unavailable(self._link.place) from lost

    def _upgrade(self) -> None:
        self.begin()
        try:
            have = self._stored.format
            if have < FORMAT:
                (relations,) = self._stored.in_transaction(self._sql.relations())
                found = {(name or b"").decode() for name, _ in relations}
                if lacking := [self._sql.make(table) for table in TABLES if table not in found]:
                    self._stored.in_transaction(*lacking)
                upgrade(self, have)
                self.put("guard", "format", b"%d" % FORMAT)
        except BaseException:
            self.rollback()
            raise
        self.commit()
        self._stored.format = FORMAT

    # -- reading

    @property
    def _source(self) -> OverlayTables | PostgresRows:
        return self._stored if self._gathered is None else self._gathered

    def get(self, table: str, key: str) -> bytes | None:
        with self._stored.lock:
            return self._source.get(table, key)

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        with self._stored.lock:
            return self._source.scan(table, prefix, after=after, reverse=reverse, limit=limit)

    def reading(self) -> AbstractContextManager[object]:
        return self._stored.reading()

    def recent(self) -> AbstractContextManager[object]:
        """A context in which reads of this thread may be a quarter of a second old. Transactions may begin inside."""
        return self._stored.recent()

    def now_ms(self) -> int:
        """Return the server's time: leases are compared with one clock, whatever those of the machines show."""
        return self._stored.now_ms()

    def settings(self) -> dict[str, str]:
        """Return the settings of the server on which durability depends."""
        return server_settings(self._stored)

    def verify(self) -> int:
        """Read and check every row; return the number of rows. Raise Corrupt if one is damaged."""
        return sum(1 for table in TABLES for _ in self._stored.scan(table))

    # -- writing

    def begin(self, durable: bool = True) -> None:
        stored = self._stored
        lock = stored.lock
        lock.acquire()
        try:
            if stored.is_writing or stored.is_reading:
                raise RuntimeError("a transaction is open already")
            until = self._link.until()
            stored.patiently(lambda: self._begin(until, durable))
            self._durable = durable
            self._gathered = OverlayTables(stored)
        except BaseException:
            lock.release()
            raise

    def _begin(self, until: float, durable: bool) -> None:
        stored = self._stored
        left_s = until - stored.clock.monotonic()
        results = self._link.run(*self._sql.begin(left_s, durable), *stored.looks())
        stored.is_writing, stored.is_dead = True, False
        try:
            stored.look(*results[-3:])
        except BaseException:
            stored.is_writing = False
            self._link.post(Statement("ROLLBACK"))
            raise

    def put(self, table: str, key: str, value: bytes) -> None:
        self._writes.put(table, key, value)

    def add(self, table: str, key: str, value: bytes) -> bool:
        return self._writes.add(table, key, value)

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        self._writes.put_many(table, rows)

    def delete(self, table: str, key: str) -> None:
        self._writes.delete(table, key)

    @property
    def _writes(self) -> OverlayTables:
        if self._gathered is None:
            raise RuntimeError("no transaction is open")
        return self._gathered

    def commit(self) -> None:
        changes = self._writes.changes()
        try:
            if self._stored.is_dead:
                raise unavailable(self._link.place)
            if not changes and not self._durable:
                self._link.post(Statement("ROLLBACK"))
                return
            self._commit(changes)
        finally:
            self._end()

    def _commit(self, changes: dict[str, dict[str, bytes | None]]) -> None:
        stored = self._stored
        own = OwnCommit(int(stored.mark.partition(b" ")[0]) + 1, secrets.token_bytes(8))
        mark = b"%d %s" % (own.number, own.token.hex().encode())
        statements = []
        for table, rows in changes.items():
            statements += self._sql.put(table, {key: value for key, value in rows.items() if value is not None})
            if gone := [key for key, value in rows.items() if value is None]:
                statements.append(self._sql.delete(table, gone))
        is_seen = True
        try:
            self._link.run(*statements, *self._sql.note(own.number, own.token, mark), Statement("COMMIT"))
        except ConnectionLost:
            stored.is_writing = False
            is_seen = self._was_committed(own, mark)
        except Rejected as refused:
            raise statement_problem(refused, self._link.place) from refused
        except BaseException:  # an interrupt: nobody knows what the server did
            stored.cache.forget()
            stored.mark = b""
            raise
        stored.own = own
        if self._durable:
            stored.durable = own
        if is_seen:
            stored.mark = mark
            for table, rows in changes.items():
                for key, value in rows.items():
                    stored.cache.note(table, key, value)

    def _was_committed(self, own: OwnCommit, mark: bytes) -> bool:
        """After a lost answer: wait until the lost transaction has ended, and look its token up. Return whether it is
        still the last commit. Raise Unavailable if it was not committed, or if the server stays away."""
        stored = self._stored
        until = self._link.until()
        stored.cache.forget()

        def look() -> tuple[bytes, dict[int, bytes | None]]:
            left_s = until - stored.clock.monotonic()
            begin, status = self._sql.begin(left_s, False), self._sql.status(own.number % RING)
            *_, guard, ring, _ = self._link.run(*begin, *status, Statement("ROLLBACK"))
            marks = [value for key, value, _ in guard if key == b"commits"]
            return marks[0] or b"", {as_number(number): token for number, token in ring}

        try:
            last, ring = stored.patiently(look)
        except (Unavailable, Busy) as problem:
            raise Unavailable(
                f"{self._link.place} was lost during a commit, and whether it was stored is not known yet",
                hint="run the command again",
                stored="unknown",
            ) from problem
        if ring.get(own.number) == own.token:
            return last == mark
        if any(number > own.number for number in ring):
            raise Unavailable(
                f"{self._link.place} was lost during a commit, and too many followed to say whether it was stored",
                hint="run the command again",
                stored="unknown",
            )
        raise Unavailable(
            f"{self._link.place} was lost before it stored a change", hint="run the command again", stored="no"
        )

    def rollback(self) -> None:
        if self._gathered is None:
            raise RuntimeError("no transaction is open")
        if not self._stored.is_dead:
            self._link.post(Statement("ROLLBACK"))
        self._end()

    def _end(self) -> None:
        self._gathered = None
        self._stored.is_writing = self._stored.is_dead = False
        self._stored.lock.release()

    def foreign(self) -> int:
        return self._stored.others

    def close(self) -> None:
        self._stored.close()
