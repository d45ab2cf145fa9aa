"""A read-only view of a SQLite state in place: one read transaction from opening to closing.

The reader holds SQLite's lock on its snapshot and nothing else: writers commit and checkpoint next to it, and only the
restart of the log waits. SQLite needs the index of the log next to the database, so the folder must be writable.
Otherwise, and for a state of an older format, `open_reader` returns the copy of snapshot.py; also for a small state,
which is read completely on opening anyway, and whose copy leaves no side files.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress

import apsw

from kfm.errors import Unavailable
from kfm.fsio import REAL, note_at
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import _SMALL, SqliteTables
from kfm.store.state_formats import FORMAT

_CACHE = 2048  # KiB of pages in memory
_LONGEST = 256 << 20  # bytes by which the log may grow while one command reads
_LOOK_S = 1.0  # how often its length is looked at


class CannotReadInPlace(Exception):
    """The database cannot be read in place: it may not be written, has no log, or has an older format."""


def open_reader(path: str) -> SqliteTables:
    """Return the tables of a state, to be read as of now: in place if that is possible, else as a copy in memory."""
    if not _may_be_read_in_place(path):
        return SnapshotTables(path)
    try:
        return LiveTables(path)
    except CannotReadInPlace:
        return SnapshotTables(path)


def _may_be_read_in_place(path: str) -> bool:
    """Return whether the state is large and SQLite may create its side files here. The database itself is not opened:
    closing it would release the locks of every other connection of this process."""
    try:
        if os.stat(path).st_size <= _SMALL or os.path.lexists(path + "-journal"):
            return False
    except OSError:
        return False
    sides = (side for side in (path + "-wal", path + "-shm") if os.path.lexists(side))
    return all(os.access(each, os.W_OK) for each in (os.path.dirname(path) or ".", path, *sides))


class LiveTables(SqliteTables):
    """The tables of a SQLite state as of the moment of opening. They are only read."""

    def __init__(self, path: str, *, busy_ms: int = 10_000) -> None:
        self._unopened("")
        self._log = path + "-wal"
        self._closed = threading.Event()
        try:
            with self._opening():
                acked = note_at(REAL, path + ".ack")  # before the snapshot, which then holds all of these commits
                self._begin(path, busy_ms)
                self._look(path, acked, small=False)
        except CannotReadInPlace:
            self._abandon()
            raise
        watched = weakref.ref(self), self._closed, self._log
        threading.Thread(target=_watch, args=watched, name=f"kfm-reader-{id(self)}", daemon=True).start()

    def _begin(self, path: str, busy_ms: int) -> None:
        """Open the connection and begin its one transaction. Raise CannotReadInPlace if the file has no log or the
        index of the log cannot be made."""
        try:
            self._db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=200)
            self._db.set_busy_timeout(busy_ms)
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._execute = self._db.cursor().execute
            self._execute("PRAGMA query_only=ON")
            self._execute("PRAGMA temp_store=MEMORY")
            self._execute(f"PRAGMA cache_size=-{_CACHE}")
            self._execute("PRAGMA trusted_schema=OFF")
            if self._value("PRAGMA journal_mode") != "wal":
                raise CannotReadInPlace
            self._execute("BEGIN")
            self._value("SELECT count(*) FROM sqlite_schema")  # SQLite takes its snapshot only now
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.PermissionsError) as problem:
            raise CannotReadInPlace from problem
        self._reading = True  # rows may be kept until the end: the snapshot does not change

    def _migrate(self) -> None:
        if 0 < self._version() < FORMAT:  # the copy is upgraded in memory
            raise CannotReadInPlace
        super()._migrate()

    def give_up(self) -> None:
        """End the read early. Every later read raises Unavailable."""
        with self._lock:
            if not self._failed and not self._closed.is_set():
                self._failed = Unavailable(
                    "the state has changed too much since this command began to read it", hint="run it again"
                )
                self._abandon()

    def begin(self, durable: bool = True) -> None:  # noqa: ARG002
        raise RuntimeError("these tables are only read")

    def close(self) -> None:
        """End the read. An empty log is removed, as SQLite does; any other stays for the next writer."""
        self._closed.set()
        with self._lock, suppress(apsw.Error):
            if self._failed:
                return
            if self._db.in_transaction:
                self._execute("ROLLBACK")
            if not _size(self._log):
                self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            self._db.close()


def _watch(reader: weakref.ref[LiveTables], closed: threading.Event, log: str) -> None:
    """Make the reader give up if the log has grown too long meanwhile. A reader that waits, for example for a pager,
    would let it grow without limit, because it cannot restart before the reader has ended."""
    size = _size(log)
    while not closed.wait(_LOOK_S):
        tables = reader()
        if tables is None:
            return
        if _size(log) - size > _LONGEST:
            tables.give_up()
            return
        del tables


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
