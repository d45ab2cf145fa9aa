"""Tables over SQLite: WAL mode, synchronous=FULL, a bundled SQLite without the WAL-reset bug.

A commit that need not survive a power cut by itself (a claim, a skipped run's receipt) is made with
synchronous=NORMAL: visible at once, and made durable by the next full commit, which syncs the same file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import apsw

from kfm.errors import Broken, Busy, Corrupt, Refused, StorageFailed
from kfm.store.durable import REAL, storage_failed
from kfm.store.memory import successor

APPLICATION_ID = 0x4B464D31  # "KFM1"
_SQL = os.path.join(os.path.dirname(__file__), "sql")
_SMALL = 1 << 20  # a database up to this size is checked whole whenever it is opened


def migrations() -> list[tuple[int, str]]:
    found = []
    for name in sorted(os.listdir(_SQL)):
        number, _, rest = name.partition("_")
        if rest.endswith(".sql") and number.isdigit():
            with open(os.path.join(_SQL, name), encoding="utf-8") as file:
                found.append((int(number), file.read()))
    return found


class SqliteTables:
    """One connection, used by one thread at a time; other threads wait at the lock."""

    def __init__(self, path: str, *, busy_ms: int = 10_000) -> None:
        self._lock = threading.RLock()
        self._failed: Broken | None = None
        self._durable = True
        folder = os.path.dirname(path) or "."
        try:
            REAL.make_dirs(folder)
            fresh = not os.path.exists(path)
        except OSError as problem:
            raise storage_failed(problem, "create the state folder") from problem
        try:
            self._db = apsw.Connection(path, statementcachesize=200)
            self._db.set_busy_timeout(busy_ms)
            self._execute = self._db.cursor().execute
            self._open(fresh, path, folder)
        except apsw.Error as problem:
            raise self._fail(problem) from problem

    def _open(self, fresh: bool, path: str, folder: str) -> None:
        run = self._execute
        if fresh:
            os.chmod(path, 0o600)
        run("PRAGMA journal_mode=WAL").fetchall()
        run("PRAGMA synchronous=FULL")
        run("PRAGMA wal_autocheckpoint=1000")
        run("PRAGMA cache_size=-65536")
        run("PRAGMA trusted_schema=OFF")
        if not fresh and os.path.getsize(path) <= _SMALL:
            problem = self._value("PRAGMA quick_check(1)")
            if problem != "ok":
                raise Corrupt(
                    f"the state database is damaged: {problem.splitlines()[-1]}",
                    hint="restore it from a copy; nothing was changed",
                )
        self._migrate()
        if fresh:
            REAL.sync_dir(folder)
        elif os.path.getsize(path) <= _SMALL:
            self.verify()

    def _migrate(self) -> None:
        run = self._execute
        have = int(self._value("PRAGMA user_version"))
        mark = int(self._value("PRAGMA application_id"))
        steps = migrations()
        if have and mark != APPLICATION_ID:
            raise Refused("the state file is a database of another program", hint="point `state:` elsewhere")
        if have > steps[-1][0]:
            raise Refused(
                f"the state database has format {have}, this kfm knows up to {steps[-1][0]}",
                hint="use the newer kfm that wrote it",
                code_hint="version.too_new",
            )
        if have == steps[-1][0]:
            return
        run("BEGIN IMMEDIATE")
        have = int(self._value("PRAGMA user_version"))
        if have == 0 and self._value("SELECT count(*) FROM sqlite_schema"):
            run("ROLLBACK")
            raise Refused("the state file is a database of another program", hint="point `state:` elsewhere")
        for number, text in steps:
            if number > have:
                run(text)
                run(f"PRAGMA user_version={number}")
        run(f"PRAGMA application_id={APPLICATION_ID}")
        run("COMMIT")

    def _value(self, query: str) -> Any:
        row = self._execute(query).fetchone()
        return None if row is None else row[0]

    def settings(self) -> dict[str, str]:
        """The durability settings in force on this connection (they are not stored in the file)."""
        with self._lock:
            names = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
            return {
                "sqlite": apsw.sqlite_lib_version(),
                "journal_mode": str(self._value("PRAGMA journal_mode")),
                "synchronous": names[int(self._value("PRAGMA synchronous"))],
                "wal_autocheckpoint": str(self._value("PRAGMA wal_autocheckpoint")),
            }

    def verify(self) -> int:
        """Check every row against its sum and the file's structure; returns the number of rows."""
        with self._lock:
            count = 0
            try:
                problem = self._value("PRAGMA quick_check(1)")
                if problem != "ok":
                    raise Corrupt(
                        f"the state database is damaged: {problem.splitlines()[-1]}", hint="restore it from a copy"
                    )
                for (table,) in self._execute("SELECT name FROM sqlite_schema WHERE type='table'").fetchall():
                    for key, value, total in self._execute(f"SELECT key, value, sum FROM {table}"):  # noqa: S608
                        check_row(table, key, value, total)
                        count += 1
            except apsw.Error as problem_:
                raise self._fail(problem_) from problem_
            return count

    # -- reading

    def get(self, table: str, key: str) -> bytes | None:
        with self._lock:
            try:
                row = self._execute(f"SELECT value, sum FROM {table} WHERE key=?", (key,)).fetchone()  # noqa: S608
            except apsw.Error as problem:
                raise self._fail(problem) from problem
        if row is None:
            return None
        value: bytes = row[0]
        if crc32(value, crc32(f"{table}/{key}".encode())) != row[1]:
            check_row(table, key, value, row[1])
        return value

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        """In pages, so that a reader never holds a snapshot open while others write."""
        while limit != 0:
            page = 500 if limit < 0 else min(limit, 500)
            rows = self._page(table, prefix, after, reverse, page)
            for key, value, total in rows:
                check_row(table, key, value, total)
                yield key, value
            if len(rows) < page:
                return
            after = rows[-1][0]
            limit = limit - page if limit > 0 else limit

    def _page(self, table: str, prefix: str, after: str, reverse: bool, page: int) -> list[tuple[Any, ...]]:
        end = successor(prefix)
        where, values = ["key >= ?"], [prefix]
        if end:
            where.append("key < ?")
            values.append(end)
        if after:
            where.append("key < ?" if reverse else "key > ?")
            values.append(after)
        order = "DESC" if reverse else "ASC"
        query = f"SELECT key, value, sum FROM {table} WHERE {' AND '.join(where)} ORDER BY key {order} LIMIT {page}"  # noqa: S608
        with self._lock:
            try:
                return self._execute(query, values).fetchall()
            except apsw.Error as problem:
                raise self._fail(problem) from problem

    # -- writing

    def begin(self, durable: bool = True) -> None:
        self._lock.acquire()
        try:
            if self._failed:
                raise self._failed
            if durable is not self._durable:  # cannot be changed inside a transaction
                self._execute("PRAGMA synchronous=FULL" if durable else "PRAGMA synchronous=NORMAL")
                self._durable = durable
            self._execute("BEGIN IMMEDIATE")
        except apsw.Error as problem:
            self._lock.release()
            raise self._fail(problem) from problem
        except BaseException:
            self._lock.release()
            raise

    def put(self, table: str, key: str, value: bytes) -> None:
        try:
            self._execute(
                f"INSERT OR REPLACE INTO {table} VALUES(?,?,?)",
                (key, value, crc32(value, crc32(f"{table}/{key}".encode()))),
            )
        except apsw.Error as problem:
            raise self._fail(problem) from problem

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        try:
            self._db.executemany(
                f"INSERT OR REPLACE INTO {table} VALUES(?,?,?)",
                ((key, value, crc32(value, crc32(f"{table}/{key}".encode()))) for key, value in rows),
            )
        except apsw.Error as problem:
            raise self._fail(problem) from problem

    def delete(self, table: str, key: str) -> None:
        try:
            self._execute(f"DELETE FROM {table} WHERE key=?", (key,))  # noqa: S608
        except apsw.Error as problem:
            raise self._fail(problem) from problem

    def commit(self) -> None:
        try:
            self._execute("COMMIT")
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        finally:
            self._lock.release()

    def rollback(self) -> None:
        try:
            if not self._failed and self._db.in_transaction:
                self._execute("ROLLBACK")
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            if not self._failed:
                self._db.close()

    def _fail(self, problem: apsw.Error) -> Broken | Busy:
        if isinstance(problem, (apsw.BusyError, apsw.LockedError)):
            return Busy("another process is writing to the state database", hint="try again when it is done")
        if isinstance(problem, (apsw.CorruptError, apsw.NotADBError)):
            return Corrupt(f"the state database is damaged: {problem}", hint="restore it from a copy")
        self._failed = self._give_up(problem)
        return self._failed

    def _give_up(self, problem: apsw.Error) -> StorageFailed:
        """After a failed write or sync nothing is known: stop, and let the next opening re-read the disk."""
        import contextlib

        with contextlib.suppress(apsw.Error, AttributeError):
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._db.close(True)
        if isinstance(problem, apsw.FullError):
            return StorageFailed("cannot write the state: the disk is full", hint="free some space, then `kfm resume`")
        if isinstance(problem, apsw.CantOpenError):
            return StorageFailed(
                "cannot open the state database", hint="check that its folder exists and may be written, and ulimit -n"
            )
        if isinstance(problem, apsw.ReadOnlyError):
            return StorageFailed("cannot write the state: it is read-only", hint="check the owner and mode of the file")
        return StorageFailed(
            f"cannot write the state: {problem}", hint="check the disk before anything else, then `kfm resume`"
        )


def check_row(table: Any, key: Any, value: Any, total: Any) -> None:
    if (
        not isinstance(value, bytes)
        or not isinstance(key, str)
        or (crc32(value, crc32(f"{table}/{key}".encode())) != total)
    ):
        raise Corrupt(
            f"record {table}/{key} is damaged",
            hint="restore the state from a copy; nothing was changed",
            record=str(key),
        )
