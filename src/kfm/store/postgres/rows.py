"""Reads the rows of a state in Postgres, and caches them while no other process commits.

Every commit writes a new mark: a number and random bytes. A transaction or a snapshot reads the mark in the round trip
in which it begins; if it is the one that this process saw last, the cache is still right.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from kfm.clock import Clock, SystemClock
from kfm.errors import BadInput, Unavailable
from kfm.store.corruption import check_row, damaged, lost_by_server
from kfm.store.postgres.connection import PostgresConnection, Row, Statement, as_number
from kfm.store.postgres.row_cache import Range, RowCache
from kfm.store.postgres.server_errors import (
    OLDEST,
    ConnectionLost,
    Rejected,
    read_only,
    statement_problem,
    too_old,
    unavailable,
)
from kfm.store.postgres.statements import AHEAD, FRESH, RING, SMALL, Sql, sum_of
from kfm.store.state_formats import FORMAT, too_new

T = TypeVar("T")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0  # between two attempts after a lost connection
_FIRST_PAGE, _PAGE_ROWS = 32, 512  # rows of one page of a scan: at first, and at most
_PAGE_BYTES = 4 << 20  # that a page should not exceed, as far as the one before it tells
_RECENT_S = 0.25  # how old a read may be where that is said
_CLOCK_S = 30.0  # after which the server is asked for its time again


class OwnCommit(NamedTuple):
    """A commit of this process."""

    number: int
    token: bytes


NONE = OwnCommit(0, b"")


class Unmade(Exception):
    """The schema does not hold the tables."""


def encoded(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError as problem:
        raise BadInput("a key is not valid Unicode text", hint="it holds half of a surrogate pair") from problem


class PostgresRows:
    """The stored rows, over one connection. A lock lets one thread at a time use it."""

    def __init__(
        self,
        parameters: Mapping[str, str | int],
        schema: str,
        wait_s: float,
        *,
        clock: Clock | None = None,
        writes: bool = True,
    ) -> None:
        self.clock = clock or SystemClock()
        self.link = PostgresConnection(parameters, wait_s, self.clock)
        self.sql = Sql(schema)
        self.writes = writes  # is the server to take writes?
        self.others = 0  # how often another process had written
        self.format = 0
        self.mark = b""  # of the last commit that this process saw
        self.durable = NONE  # the last durable commit of this process, which no server may lose
        self.own = NONE  # its last commit
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self.is_writing = False  # a transaction that writes is open
        self.is_dead = False  # and has failed
        self.is_reading = False
        self._begun = False  # the snapshot of this read exists
        self._checked = 0  # the connection that was checked last
        self._wanted = set(AHEAD)  # small tables that are read together next time
        self._verified = float("-inf")  # when the mark was read, on the monotonic clock
        self._mode = threading.local()
        self.cache = RowCache()
        self._time = 0, float("-inf")  # the server's clock, and this machine's monotonic one at that moment

    @property
    def lock(self) -> threading.RLock:
        """The lock of this process. A forked child makes its own, and later a connection of its own."""
        if self._pid != os.getpid():
            self._begin_anew()
        return self._lock

    # -- the state of the server

    def patiently(self, work: Callable[[], T]) -> T:
        """Return what `work` does over a connection that was checked; after a lost connection it is done again."""
        until, pause_s = self.link.until(), _FIRST_PAUSE_S
        while True:
            try:
                self.connect(until)
                return work()
            except ConnectionLost as lost:
                left_s = until - self.clock.monotonic()
                if left_s <= 0:
                    raise lost.problem or unavailable(self.link.place) from lost
                self.clock.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except Rejected as refused:
                raise statement_problem(refused, self.link.place) from refused

    def connect(self, until: float) -> None:
        """Connect unless connected, and check that the server holds everything that it acknowledged to this process."""
        self.link.connect(until)
        if not self.is_writing and not self._begun:
            self.link.end_forgotten()
        if self._checked == self.link.connections:
            return
        if self.link.server_version < OLDEST:
            raise too_old(self.link.server_version, self.link.place)
        try:
            results = self.link.run(*self.sql.snapshot(), *self.looks(), Statement("COMMIT"))
        except Rejected as refused:
            if refused.state in ("42P01", "42703", "3F000") and not self._checked:
                raise Unmade from refused
            raise
        self.look(*results[2:5])
        self._checked = self.link.connections

    def looks(self) -> tuple[Statement, ...]:
        """Return what a transaction reads first, for `look`."""
        return self.sql.status(self.durable.number % RING, self.own.number % RING)

    def look(self, clock: list[Row], guard: list[Row], ring: list[Row]) -> None:
        """Take note of the server's clock and of the last commit. Raise Corrupt if the server lost commits that it
        acknowledged, ConnectionLost if it takes no writes just now."""
        now_ms, in_recovery, is_read_only = (as_number(value) for value in clock[0])
        self._verified = self.clock.monotonic()
        self._time = now_ms, self._verified
        if self.is_writing and is_read_only and not in_recovery:
            raise read_only(self.link.place)
        if self.writes and in_recovery:  # perhaps it is about to become the primary
            self.link.drop()
            raise ConnectionLost(problem=read_only(self.link.place)) if self._checked else read_only(self.link.place)
        found = dict(self._decoded("guard", [(key, b"", value, total) for key, value, total in guard]))
        for key in ("commits", "format"):
            if key not in found:
                raise damaged(f"record guard/{key} is missing")
        mark, self.format = found["commits"], int(found["format"])
        if self.format > FORMAT:
            raise too_new("the state database", self.format, FORMAT)
        self._check_history(int(mark.partition(b" ")[0]), {as_number(number): token for number, token in ring})
        if mark != self.mark:
            self.others += 1
            self.cache.forget()
            self.mark = mark

    def _check_history(self, count: int, ring: Mapping[int, bytes | None]) -> None:
        place = self.link.place
        if count < self.durable.number:
            raise lost_by_server(self.durable.number - count, place)
        if self._is_missing(self.durable, ring):
            raise lost_by_server(1, place)
        if self._is_missing(self.own, ring):
            self.own = self.durable
            self.mark = b""
            raise Unavailable(
                f"{place} was restarted and lost changes that were not yet durable", hint="run the command again"
            )

    def _is_missing(self, own: OwnCommit, ring: Mapping[int, bytes | None]) -> bool:
        """Return whether a commit of this process is not in the ring, and no later one has taken its place there."""
        there = [number for number in ring if number % RING == own.number % RING and number >= own.number]
        return bool(own.number) and (not there or (there == [own.number] and ring[own.number] != own.token))

    def lack(self, tables: Iterable[str]) -> None:
        """Do not read these tables together with others: an older format has not all of them."""
        self.cache.large |= set(tables)

    def _ahead_of(self, table: str) -> list[str]:
        """Return the small tables to read as a whole when a row of this one is wanted: it, if it is such a table and
        not in the cache, and those that were wanted since the last commit of others."""
        cache = self.cache
        if table not in AHEAD or table in cache.large:
            return []
        self._wanted.add(table)
        if table in cache.whole:
            return []
        tables = sorted(self._wanted - cache.large - cache.whole)
        self._wanted = {table}
        return tables

    def _keep_ahead(self, tables: list[str], rows: list[Row]) -> None:
        found: dict[str, list[Row]] = {name: [] for name in tables}
        for of, *row in rows:
            found[(of or b"").decode()].append(tuple(row))
        for name, these in found.items():
            self.cache.keep_whole(name, self._decoded(name, these), SMALL)

    def _read_ahead(self, table: str) -> None:
        if tables := self._ahead_of(table):
            self._keep_ahead(tables, self.query(self.sql.ahead(tables)))

    def now_ms(self) -> int:
        """Return the time of the server's clock, which is one for all processes."""
        at_ms, seen = self._time
        if self.clock.monotonic() - seen > _CLOCK_S:
            with self.lock:
                rows = self.query(Statement("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))
                self._time = at_ms, seen = as_number(rows[0][0]), self.clock.monotonic()
        return at_ms + round((self.clock.monotonic() - seen) * 1000)

    # -- statements

    def query(self, statement: Statement) -> list[Row]:
        """Return the rows of a statement: in the open transaction, in the snapshot, or as of now."""
        if self.is_writing:
            return self.in_transaction(statement)[0]
        if self.is_reading:
            return self._in_snapshot(statement)
        return self.patiently(lambda: self.link.run(statement))[0]

    def in_transaction(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of statements in the open transaction. After any failure nothing of it can be saved."""
        if self.is_dead:
            raise unavailable(self.link.place)
        try:
            return self.link.run(*statements)
        except ConnectionLost as lost:
            self.is_dead = True
            raise unavailable(self.link.place) from lost
        except Rejected as refused:
            self.is_dead = True
            raise statement_problem(refused, self.link.place) from refused

    def _in_snapshot(self, *statements: Statement) -> list[Row]:
        if self._begun:
            try:
                return self.link.run(*statements)[0]
            except Rejected as refused:
                self._begun = False
                raise statement_problem(refused, self.link.place) from refused
            except ConnectionLost:
                before: bytes | None = self.mark
        else:
            before = None
        rows = self.patiently(lambda: self._begin_snapshot(*statements))
        if before not in (None, self.mark):  # a new snapshot is as good as the old one if nothing was committed
            raise Unavailable("the state changed while it was read", hint="run the command again")
        return rows

    def _begin_snapshot(self, *statements: Statement) -> list[Row]:
        results = self.link.run(*self.sql.snapshot(), *self.looks(), *statements)
        self.look(*results[2:5])
        self._begun = True
        return results[5] if statements else []

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read from one snapshot. It begins with the first read."""
        with self.lock:
            if self.is_writing or self.is_reading:
                yield
                return
            self.is_reading = True
            try:
                yield
            finally:
                self.end_reading()

    def end_reading(self) -> None:
        self.is_reading = False
        if self._begun:
            self._begun = False
            self.link.post(Statement("COMMIT"))

    @contextmanager
    def recent(self) -> Iterator[None]:
        """Reads of this thread inside, outside transactions, may be as old as a moment. Refs and leases never are."""
        self._mode.recent = depth = getattr(self._mode, "recent", 0) + 1
        try:
            yield
        finally:
            self._mode.recent = depth - 1

    def _caches(self, table: str) -> bool:
        """Return whether a read now may use the cache, and fills it."""
        if self.is_writing or self.is_reading:
            return True
        return table not in FRESH and getattr(self._mode, "recent", 0) > 0

    def _verify(self, table: str, wanted: Statement) -> list[Row] | None:
        """Return None if the cache is known to be right. Otherwise find out, and return the rows of the wanted
        statement, which were read in the same round trip; or None if small tables were read instead."""
        if self.is_writing or (self.is_reading and self._begun):
            return None
        if not self.is_reading and self.clock.monotonic() - self._verified <= _RECENT_S:
            return None
        tables = self._ahead_of(table)
        statement = self.sql.ahead(tables) if tables else wanted
        if self.is_reading:
            rows = self._in_snapshot(statement)
        else:
            rows = self.patiently(lambda: self._look_and_read(statement))
        if not tables:
            return rows
        self._keep_ahead(tables, rows)
        return None

    def _look_and_read(self, wanted: Statement) -> list[Row]:
        *status, rows = self.link.run(*self.looks(), wanted)
        self.look(*status)
        return rows

    # -- rows

    def get(self, table: str, key: str) -> bytes | None:
        body = encoded(key)
        with self.lock:
            caches = self._caches(table)
            statement = self.sql.get(table, body)
            rows = self._verify(table, statement) if caches else None
            if caches and rows is None:
                if not self.cache.has(table, key):
                    self._read_ahead(table)
                if self.cache.has(table, key):
                    return self.cache.get(table, key)
            if rows is None:
                rows = self.query(statement)
            value: bytes | None = None
            if rows:
                value, total = rows[0]
                if value is None or sum_of(table, body, value) != as_number(total):
                    check_row(table, key, value, as_number(total))
            if caches:
                self.cache.keep(table, key, value)
        return value

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        """Yield rows in pages. Outside a transaction and a snapshot, each page is read as of its own moment."""
        low = encoded(prefix)
        high = low + b"\xff" if low else None  # no UTF-8 text holds this byte
        if after:
            from_ = encoded(after)
            if reverse:
                high = from_ if high is None or from_ < high else high
            else:
                low = max(low, from_ + b"\0")
        longest = _FIRST_PAGE
        while limit != 0 and (high is None or low < high):
            page = longest if limit < 0 else min(limit, longest)
            rows = self._page(table, Range(low, high, reverse, page))
            yield from rows
            if len(rows) < page:
                return
            last = rows[-1][0].encode()
            low, high = (low, last) if reverse else (last + b"\0", high)
            limit = limit - page if limit > 0 else limit
            size = sum(len(value) for _, value in rows) // page + 1
            longest = max(1, min(4 * page, _PAGE_ROWS, _PAGE_BYTES // size))

    def _page(self, table: str, wanted: Range) -> list[tuple[str, bytes]]:
        with self.lock:
            caches = self._caches(table)
            statement = self.sql.page(table, *wanted)
            rows = self._verify(table, statement) if caches else None
            if caches and rows is None:
                known = self.cache.page(table, wanted)
                if known is None:
                    self._read_ahead(table)
                    known = self.cache.page(table, wanted)
                if known is not None:
                    return known
            if rows is None:
                rows = self.query(statement)
            found = self._decoded(table, rows)
            if caches:
                self.cache.keep_page(table, wanted, found)
        return found

    def _decoded(self, table: str, rows: list[Row]) -> list[tuple[str, bytes]]:
        found = []
        for head, rest, value, total in rows:
            body = (head or b"") + (rest or b"")
            try:
                key = body.decode()
            except UnicodeDecodeError as problem:
                raise damaged(f"a key of {table} is not text") from problem
            if value is None or sum_of(table, body, value) != as_number(total):
                check_row(table, key, value, as_number(total))
            assert value is not None
            found.append((key, value))
        return found

    def close(self) -> None:
        with self.lock:
            if self._begun or self.is_writing:
                self.link.post(Statement("ROLLBACK"))
            self.is_reading = self._begun = False
            self.link.drop()
