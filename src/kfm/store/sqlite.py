"""Tables over SQLite: WAL mode, synchronous=FULL, a bundled SQLite without the WAL-reset bug.

A commit that need not survive a power cut by itself (a claim, the receipt of a skipped run) uses synchronous=NORMAL: it
is visible at once, and the next full commit, which syncs the same file, makes it durable.

SQLite takes the first damaged record of its log for the torn end and silently drops what follows. So every full commit
is counted in the file (guard/commits) and, once durable, noted in ``<path>.ack`` next to it: a file with a lower count
than the note has lost commits, and is refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from zlib import crc32

import apsw

from kfm.errors import BadInput, Broken, Busy, KfmError, Refused, StorageFailed, Unavailable
from kfm.fsio import REAL, note_at, storage_failed, write_note
from kfm.store.codec import check_key
from kfm.store.corruption import check_row, damaged, is_full, lost
from kfm.store.sql_statements import BY_TABLE, page_query
from kfm.store.state_formats import too_new, upgrade
from kfm.store.state_tables import VITAL

APPLICATION_ID = 0x4B464D31  # "KFM1"
_SQL = os.path.join(os.path.dirname(__file__), "sql")
_BUSY = 32  # full commits of one process after which it lengthens the log
_PAGE = 1024  # bytes, in new files: the log stores whole pages, and most changes are smaller
_FRAME = 24  # bytes before each page in the log
_LOG = 8_192_000  # bytes of pages in the log after which it restarts
_CACHE = 8192  # KiB of pages in memory; few, because after a commit SQLite may scan all of them
_SMALL = 1 << 20  # a database up to this size is checked completely on opening; in a larger one, the vital tables are
_MOST_KEPT = 1000  # rows
_FIRST_PAGE, _PAGE_ROWS = 32, 512  # rows that one statement of a scan reads: at first, and at most


def migrations() -> list[tuple[int, str]]:
    found = []
    for name in sorted(os.listdir(_SQL)):
        number, _, rest = name.partition("_")
        if rest.endswith(".sql") and number.isdigit():
            with open(os.path.join(_SQL, name), encoding="utf-8") as file:
                found.append((int(number), file.read()))
    return found


class SqliteTables:
    """Tables over one SQLite connection. A lock lets one thread at a time use it."""

    _wrote = False

    def __init__(self, path: str, *, busy_ms: int = 10_000) -> None:
        self._unopened(os.path.dirname(path) or ".")
        self._log = path + "-wal"
        with self._opening():
            acked = note_at(REAL, path + ".ack")
            fresh = not os.path.exists(path) or not os.path.getsize(path)
            if fresh and acked:  # SQLite would start a new file and remove the log, which may still hold everything
                raise lost(acked, path)
            if fresh:
                REAL.make_dirs(self._folder)
            self._note = REAL.open_write(path + ".ack")
            self._db = apsw.Connection(path, statementcachesize=200)
            self._db.set_busy_timeout(busy_ms)
            self._execute = self._db.cursor().execute
            if fresh:
                os.chmod(path, 0o600)
                self._execute(f"PRAGMA page_size={_PAGE}")
            self._keep_a_log(busy_ms)
            self._execute("PRAGMA synchronous=FULL")
            self._page_size = int(self._value("PRAGMA page_size"))
            self._execute(f"PRAGMA wal_autocheckpoint={_LOG // self._page_size}")
            self._execute(f"PRAGMA cache_size=-{_CACHE}")
            self._execute("PRAGMA trusted_schema=OFF")
            self._look(path, acked, small=os.path.getsize(path) <= _SMALL)

    def _unopened(self, folder: str) -> None:
        self._lock = threading.RLock()
        self._failed: Broken | Unavailable | None = None
        self._durable = True
        self._open = False
        self._folder = folder
        self._note = -1
        self._others = 0  # how often another connection had written
        self._version_left = -1  # the file's version after our last transaction
        self._full = 0  # full commits so far
        self._kept: dict[tuple[str, str], bytes | None] = {}  # rows read or written since another connection last wrote
        self._none: dict[str, set[str]] = {}  # likewise: by table, the prefixes without a row
        self._reading = False
        self._counted = (0, 0)  # `_others` at our last full commit, and its number

    def _keep_a_log(self, busy_ms: int) -> None:
        """Switch the database to WAL mode, with retries: if several processes create it at once, SQLite refuses some
        without waiting."""
        import time

        for left in range(busy_ms // 10, -1, -1):
            try:
                self._execute("PRAGMA journal_mode=WAL").fetchall()
                return
            except apsw.BusyError:
                if not left:
                    raise
                time.sleep(0.01)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Turn any error while opening into a KfmError, and close the connection without changing the file."""
        try:
            yield
        except OSError as problem:
            self._abandon()
            raise storage_failed(problem, "open the state database") from problem
        except apsw.Error as problem:
            failure = self._fail(problem)
            self._abandon()
            raise failure from problem
        except UnicodeDecodeError as problem:
            self._abandon()
            raise damaged("a name in it is not text") from problem
        except KfmError:
            self._abandon()
            raise

    def _look(self, path: str, acked: int, *, small: bool) -> None:
        """Check, before anything is written, that the file holds all acknowledged commits. A small file is checked
        completely. In a large one only the tables are checked in which a missing row would be taken for an answer (no
        ref, no freeze, no lease, no unfinished run); other rows are checked when they are read."""
        looked_at = ("",) if small else VITAL
        version = self._version()
        if version:
            for table in looked_at:
                self._check_structure(table)
        have = int(self._guarded("commits")) if version else 0
        if have < acked:
            raise lost(acked - have, path)
        self._migrate()
        if version:
            for table in looked_at:
                self._check_rows(table)

    def _migrate(self) -> None:
        run = self._execute
        steps = migrations()
        have = self._version()
        if have > steps[-1][0]:
            raise too_new("the state database", have, steps[-1][0])
        if have == steps[-1][0]:
            return
        run("BEGIN IMMEDIATE")
        try:
            have = self._version()
            for number, text in steps:
                if number > have:
                    run(text)
                    run(f"PRAGMA user_version={number}")
            if have:
                upgrade(self, have, steps[-1][0])
            run(f"PRAGMA application_id={APPLICATION_ID}")
            self._guard("schema", self._schema())
            if not have:
                self._guard("commits", b"0")
                if self._folder:  # sync the file's name before the file holds anything that could be lost
                    REAL.make_dirs(self._folder)
                    REAL.sync_dir(self._folder)
        except BaseException:
            run("ROLLBACK")
            raise
        run("COMMIT")

    def _version(self) -> int:
        """Return the format number of the file; 0 if it is empty. Raise if the description of the tables was altered:
        the file holds a checksum of it, because SQLite would trust a damaged one."""
        if not self._value("SELECT count(*) FROM sqlite_schema"):
            return 0
        mark = self._value("PRAGMA application_id")
        try:
            seal = self._guarded("schema")
        except apsw.SQLError:
            if mark == APPLICATION_ID:
                raise
            raise Refused("the state file is a database of another program", hint="point `state:` elsewhere") from None
        if seal != self._schema():
            raise damaged("its description of the tables was altered")
        return int(self._value("PRAGMA user_version"))

    def _schema(self) -> bytes:
        rows = self._execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").fetchall()
        marks = (self._value("PRAGMA user_version"), self._value("PRAGMA application_id"))
        return b"%08x" % crc32(repr((rows, marks)).encode("utf-8", "backslashreplace"))

    def _guard(self, key: str, value: bytes) -> None:
        self._execute(
            "INSERT OR REPLACE INTO guard VALUES(?,?,?)", (key, value, crc32(value, crc32(f"guard/{key}".encode())))
        )

    def _guarded(self, key: str) -> bytes:
        row = self._execute("SELECT value, sum FROM guard WHERE key=?", (key,)).fetchone()
        if row is None:
            raise damaged(f"record guard/{key} is missing")
        check_row("guard", key, *row)
        return bytes(row[0])

    def _abandon(self) -> None:
        """Close the connection and change nothing on the disk."""
        with suppress(apsw.Error, AttributeError):
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._db.close(True)
        if self._note >= 0:
            with suppress(OSError):
                REAL.close(self._note)
            self._note = -1

    def _value(self, query: str) -> Any:
        row = self._execute(query).fetchone()
        return None if row is None else row[0]

    def settings(self) -> dict[str, str]:
        """Return the durability settings in force on this connection; they are not stored in the file."""
        with self._lock:
            names = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
            return {
                "sqlite": apsw.sqlite_lib_version(),
                "journal_mode": str(self._value("PRAGMA journal_mode")),
                "synchronous": names[int(self._value("PRAGMA synchronous"))],
                "wal_autocheckpoint": str(self._value("PRAGMA wal_autocheckpoint")),
            }

    def verify(self) -> int:
        """Check every row and the structure of the file; return the number of rows. Raise Corrupt if one is damaged."""
        with self._lock:
            try:
                self._check_structure()
                return self._check_rows()
            except apsw.Error as problem:
                raise self._fail(problem) from problem

    def _check_structure(self, table: str = "") -> None:
        """Raise Corrupt if the structure of a table, or of the whole file, is damaged, or a row is not in its index."""
        problem = self._value(f"PRAGMA integrity_check({table or 1})")
        if problem != "ok":
            raise damaged(str(problem).splitlines()[-1])

    def _check_rows(self, only: str = "") -> int:
        count = 0
        tables = [(only,)] if only else self._execute("SELECT name FROM sqlite_schema WHERE type='table'").fetchall()
        for (table,) in tables:
            try:
                for key, value, total in self._execute(f"SELECT key, value, sum FROM {table}"):  # noqa: S608
                    check_row(table, key, value, total)
                    count += 1
            except UnicodeDecodeError as problem:
                raise damaged(f"a key of {table} is not text") from problem
        return count

    # -- reading

    def get(self, table: str, key: str) -> bytes | None:
        statements = BY_TABLE[table]
        with self._lock:
            keeping = statements.kept and (self._open or self._reading)
            if keeping and (table, key) in self._kept:
                return self._kept[table, key]
            try:
                row = self._execute(statements.get, (key,)).fetchone()
            except apsw.Error as problem:
                raise self._fail(problem) from problem
            except UnicodeEncodeError:
                check_key(key)
                raise
            value: bytes | None = None
            if row is not None:
                value = row[0]
                if type(value) is not bytes or crc32(value, crc32(key.encode(), statements.name_sum)) != row[1]:
                    check_row(table, key, value, row[1])
            if keeping:
                self._keep(table, key, value)
        return value

    def _keep(self, table: str, key: str, value: bytes | None) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[table, key] = value

    def _keep_none(self, table: str, prefix: str) -> None:
        known = self._none.setdefault(table, set())
        if len(known) >= _MOST_KEPT:
            known.clear()
        known.add(prefix)

    def _forget(self) -> None:
        self._kept.clear()
        self._none.clear()

    def _notice_others(self) -> None:
        """Clear the cache if another connection has written. Inside a transaction no other connection can write."""
        if self._db.data_version() != self._version_left:
            self._version_left = self._db.data_version()
            self._others += 1
            self._forget()

    def reading(self) -> _Reading:
        return _Reading(self)

    def begin_reading(self) -> bool:
        """Begin a read transaction. Return False if a transaction or a read is already open: the caller must then end
        nothing."""
        self._lock.acquire()
        if self._failed or self._db.in_transaction:
            return False
        try:
            self._execute("BEGIN")
            self._execute(BY_TABLE["meta"].get, ("",))  # SQLite reads the file only now
            self._notice_others()
        except apsw.Error as problem:
            failure = self._fail(problem)
            if not self._failed and self._db.in_transaction:  # for example busy: do not leave it open
                self._execute("ROLLBACK")
            self._lock.release()
            raise failure from problem
        self._reading = True
        return True

    def end_reading(self, begun: bool) -> None:
        try:
            if begun:
                self._reading = False
            if begun and not self._failed:
                self._execute("COMMIT")
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        finally:
            self._lock.release()

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        """Yield rows in pages, so that a reader never keeps a snapshot open while others write. The first pages are
        short, because many a caller takes only a few rows."""
        name_sum = BY_TABLE[table].name_sum
        longest = _FIRST_PAGE
        while limit != 0:
            page = longest if limit < 0 else min(limit, longest)
            longest = min(4 * longest, _PAGE_ROWS)
            rows = self._page(table, prefix, after, reverse, page)
            for key, value, total in rows:
                whole = type(key) is str and type(value) is bytes
                if not whole or crc32(value, crc32(key.encode(), name_sum)) != total:
                    check_row(table, key, value, total)
                yield key, value
            after = rows[-1][0] if len(rows) == page else ""
            if not after:  # the last row, or the smallest possible key
                return
            limit = limit - page if limit > 0 else limit

    def _page(self, table: str, prefix: str, after: str, reverse: bool, page: int) -> list[tuple[Any, ...]]:
        with self._lock:
            keeping = not after and (self._open or self._reading)
            if keeping and prefix in self._none.get(table, ()):
                return []
            query, values = page_query(table, prefix, after, reverse, page)
            try:
                rows = self._execute(query, values).fetchall()
                if keeping and not rows:
                    self._keep_none(table, prefix)
                return rows
            except apsw.Error as problem:
                raise self._fail(problem) from problem
            except UnicodeEncodeError:
                check_key(prefix + after)
                raise
            except UnicodeDecodeError as problem:
                raise damaged(f"a key of {table} is not text") from problem

    # -- writing

    def begin(self, durable: bool = True) -> None:
        self._lock.acquire()
        try:
            if self._failed:
                raise self._failed
            if self._open:
                raise RuntimeError("a transaction is open already")
            if durable is not self._durable:  # not possible inside a transaction
                self._execute("PRAGMA synchronous=FULL" if durable else "PRAGMA synchronous=NORMAL")
                self._durable = durable
            self._execute("BEGIN IMMEDIATE")
            self._open = True
            self._notice_others()
        except apsw.Error as problem:
            self._lock.release()
            raise self._fail(problem) from problem
        except BaseException:
            self._lock.release()
            raise

    def put(self, table: str, key: str, value: bytes) -> None:
        statements = BY_TABLE[table]
        self._insert(statements.put, table, key, value)
        if statements.kept:
            self._keep(table, key, value)

    def add(self, table: str, key: str, value: bytes) -> bool:
        statements = BY_TABLE[table]
        self._insert(statements.add, table, key, value)
        if not self._db.changes():
            return False
        if statements.kept:
            self._keep(table, key, value)
        return True

    def _insert(self, statement: str, table: str, key: str, value: bytes) -> None:
        if table in self._none:
            del self._none[table]
        try:
            self._execute(statement, (key, value, crc32(value, crc32(key.encode(), BY_TABLE[table].name_sum))))
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        except UnicodeEncodeError:
            check_key(key)
            raise

    def put_many(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        self._none.pop(table, None)
        statements = BY_TABLE[table]
        if statements.kept:
            self._kept.clear()
        try:
            self._db.executemany(
                statements.put,
                ((key, value, crc32(value, crc32(key.encode(), statements.name_sum))) for key, value in rows),
            )
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        except UnicodeEncodeError as problem:
            raise BadInput("a key is not valid Unicode text", hint="it holds half of a surrogate pair") from problem

    def delete(self, table: str, key: str) -> None:
        self._kept.pop((table, key), None)
        try:
            self._execute(f"DELETE FROM {table} WHERE key=?", (key,))  # noqa: S608
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        except UnicodeEncodeError:
            check_key(key)
            raise

    def commit(self) -> None:
        self._wrote = True
        try:
            if self._durable:
                self._full += 1
                if self._full == _BUSY:
                    self._lengthen_log()
                acked = self._commits() + 1
                body = b"%d" % acked
                self._execute("UPDATE guard SET value=?, sum=? WHERE key='commits'", (body, crc32(body, _COMMITS)))
                self._execute("COMMIT")
                self._counted = (self._others, acked)
                write_note(REAL, self._note, acked)
            else:
                self._execute("COMMIT")
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        except OSError as problem:
            self._failed = storage_failed(problem, "note what was committed")
            self._abandon()
            raise self._failed from problem
        finally:
            self._end()

    def _lengthen_log(self) -> None:
        """Lengthen the log with zeros: a growing log must sync its length with every commit, a long one need not.

        It runs inside a transaction, so no other process writes to the log; SQLite ignores zeros after its end. Without
        room on the disk the log goes on growing. A failed sync is fatal, as everywhere: it may have lost commits that
        were only written, and no later sync would report it.
        """
        fd = REAL.open_write(self._log)
        try:
            size = REAL.size(fd)
            more = _LOG // self._page_size * (self._page_size + _FRAME) - size
            if more > 0:
                try:
                    REAL.write_at(fd, bytes(more), size)
                except OSError:
                    REAL.truncate(fd, size)
                    return
                REAL.sync(fd)
        finally:
            REAL.close(fd)

    def rollback(self) -> None:
        self._forget()
        self._end()

    def _end(self) -> None:
        try:
            self._open = False
            if not self._failed:
                if self._db.in_transaction:
                    self._forget()
                    self._execute("ROLLBACK")
                self._version_left = self._db.data_version()
        except apsw.Error as problem:
            raise self._fail(problem) from problem
        finally:
            self._lock.release()

    def foreign(self) -> int:
        return self._others

    def _commits(self) -> int:
        """Return the count of full commits in the file; cached unless another connection wrote since."""
        if self._counted[0] == self.foreign():
            return self._counted[1]
        return int(self._guarded("commits"))

    def close(self) -> None:
        with self._lock:
            if self._failed:
                return
            try:
                if self._wrote:  # SQLite does it on closing too, but reports no failure
                    self._wrote = False
                    self._execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except apsw.Error as problem:
                full = isinstance(problem, apsw.FullError) or is_full(self._folder)
                self._failed = StorageFailed(
                    f"cannot close the state database: {'the disk is full' if full else problem}",
                    hint="what was acknowledged is safe in its log; " + ("make room" if full else "check the disk"),
                )
                self._abandon()
                raise self._failed from problem
            with suppress(apsw.Error):
                self._db.close()
            note, self._note = self._note, -1
            try:
                if note >= 0:
                    REAL.close(note)
            except OSError as problem:
                raise storage_failed(problem, "close the state database") from problem

    def _fail(self, problem: apsw.Error) -> Broken | Busy | Unavailable:
        if self._failed:
            return self._failed
        if isinstance(problem, (apsw.BusyError, apsw.LockedError)):
            return Busy("another process is writing to the state database", hint="try again when it is done")
        if isinstance(problem, _DAMAGE):
            return damaged(str(problem))
        self._failed = self._give_up(problem)
        return self._failed

    def _give_up(self, problem: apsw.Error) -> StorageFailed:
        """Return the error after a failed write or sync. The state of the disk is unknown, so this connection closes,
        and the next opening reads the disk again."""
        self._abandon()
        if isinstance(problem, apsw.FullError) or is_full(self._folder):
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


class _Reading:
    """A read transaction over several reads: single reads would take and release the system locks each time."""

    __slots__ = ("_begun", "_tables")

    def __init__(self, tables: SqliteTables) -> None:
        self._tables = tables
        self._begun = False

    def __enter__(self) -> None:
        self._begun = self._tables.begin_reading()

    def __exit__(self, *_: object) -> None:
        self._tables.end_reading(self._begun)


_COMMITS = crc32(b"guard/commits")
# Our statements are fixed and correct, so an SQL error or an impossible row means that the file is damaged.
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.TooBigError, apsw.MismatchError, apsw.FormatError)
