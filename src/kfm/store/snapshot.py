"""A read-only view of a SQLite state that writes nothing at all.

Opening a WAL-mode database, even with mode=ro, creates side files. So the database and its log are read as plain bytes
and given to SQLite as files in memory. The read is repeated if the log was restarted meanwhile; pages that a checkpoint
copies during the read are also in the log.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator

import apsw

from kfm.errors import Unavailable
from kfm.fsio import REAL, failing_as_storage, note_at
from kfm.store.sqlite import _SMALL, SqliteTables
from kfm.store.state_formats import FORMAT, too_new

ATTEMPTS = 100


class SnapshotTables(SqliteTables):
    """The tables of a SQLite state, read from a copy in memory. They are only read: a write would be lost."""

    def __init__(self, path: str) -> None:
        self._unopened("")
        with failing_as_storage("read the state database"):
            acked = note_at(REAL, path + ".ack")
            base, log = read_files(path)
        name = _vfs().add(base, log)
        with self._opening():
            self._db = apsw.Connection(name, vfs=_Vfs.NAME, statementcachesize=200)
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._execute = self._db.cursor().execute
            self._execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()  # keeps the index of the log in memory too
            self._execute("PRAGMA temp_store=MEMORY")
            self._execute("PRAGMA cache_size=-65536")  # each missing page costs a call into Python
            self._execute("PRAGMA trusted_schema=OFF")
            self._look(path, acked, small=len(base) <= _SMALL)
            self._execute("PRAGMA query_only=ON")


class StoredTables(SnapshotTables):
    """The tables as they are stored: a state of an older format is not upgraded, and what it lacks is empty."""

    format = 0
    _present: frozenset[str] = frozenset()

    def _migrate(self) -> None:
        self.format = self._version()
        if self.format > FORMAT:
            raise too_new("the state database", self.format)
        names = self._execute("SELECT name FROM sqlite_schema WHERE type='table'").fetchall()
        self._present = frozenset(str(name) for (name,) in names)

    def _check_rows(self, only: str = "") -> int:
        return super()._check_rows(only) if not only or only in self._present else 0

    def get(self, table: str, key: str) -> bytes | None:
        return super().get(table, key) if table in self._present else None

    def scan(
        self, table: str, prefix: str = "", *, after: str = "", reverse: bool = False, limit: int = -1
    ) -> Iterator[tuple[str, bytes]]:
        if table in self._present:
            yield from super().scan(table, prefix, after=after, reverse=reverse, limit=limit)


def read_files(path: str) -> tuple[bytes, bytes]:
    """Return the database and its log as of one moment; b'' for a missing file. Raise Unavailable if they change too
    fast to be read.

    Both are read completely. If pages were read on demand, a checkpoint could have overwritten one with content newer
    than our copy of the log; and the lock that prevents a checkpoint would be a write to a file next to it.
    """
    for attempt in range(ATTEMPTS):
        if attempt > 3:  # wait for a writer that keeps restarting its log
            time.sleep(attempt / 5000)
        before = _read(path + "-wal", 32)
        changed = _stamp(path)
        base = _read(path)
        log = _read_log(path + "-wal")
        if log[:32] != before or _read(path + "-wal", 32) != before:
            continue
        # Without a log, no other file holds the pages that were written during the read.
        if len(log) > 32 or _stamp(path) == changed:
            return base, log
    raise Unavailable("the state is being rewritten too fast to be read", hint="try again in a moment")


def _read(path: str, size: int = -1) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    with open(fd, "rb", buffering=0) as file:
        return file.read(size) if size >= 0 else file.readall()


def _read_log(path: str) -> bytes:
    """Return the log up to the first frame of an earlier round; SQLite reads no further either. The rest, zeros or
    frames of the round before, may be long."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    with open(fd, "rb", buffering=0) as file:
        head = file.read(32)
        frame, salt = int.from_bytes(head[8:12], "big") + 24, head[16:24]
        if len(head) < 32 or not 512 <= frame - 24 <= 65_536:
            return head + file.readall()
        parts = [head]
        while some := file.read(frame * 256):
            ends = next((at for at in range(0, len(some), frame) if some[at + 8 : at + 16] != salt), -1)
            parts.append(some if ends < 0 else some[:ends])
            if ends >= 0:
                break
        return b"".join(parts)


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


class _File:
    """One file in memory with the method names that SQLite expects. It is copied only on write, because copying a large
    state takes as long as reading it."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | bytearray = body

    def _own(self) -> bytearray:
        if not isinstance(self._body, bytearray):
            self._body = bytearray(self._body)
        return self._body

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._body[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        body = self._own()
        body.extend(bytes(max(0, offset - len(body))))
        body[offset : offset + len(data)] = data

    def xTruncate(self, size: int) -> None:
        if size < len(self._body):
            del self._own()[size:]

    def xFileSize(self) -> int:
        return len(self._body)

    def xSync(self, flags: int) -> None:
        """Do nothing: memory needs no sync."""

    def xLock(self, level: int) -> None:
        """Do nothing: no other connection can open this file."""

    def xUnlock(self, level: int) -> None:
        """Do nothing: `xLock` locked nothing."""

    def xCheckReservedLock(self) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xFileControl(self, _op: int, _pointer: int) -> bool:
        return False

    def xClose(self) -> None:
        """Do nothing: the memory is freed with this object."""


class _Vfs(apsw.VFS):
    NAME = "kfm-snapshot"

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._numbers = itertools.count()
        super().__init__(self.NAME, "")

    def add(self, base: bytes, log: bytes) -> str:
        """Register a database and its log as files in memory, each to be opened once; return the name of the
        database."""
        name = f"/snapshot-{next(self._numbers)}"
        self._files[name] = base
        if log:
            self._files[name + "-wal"] = log
        return name

    def xFullPathname(self, name: str) -> str:
        return name

    def xAccess(self, name: str, _flags: int) -> bool:
        return name in self._files

    def xDelete(self, name: str, _sync: bool) -> None:
        self._files.pop(name, None)

    def xOpen(self, name: str | apsw.URIFilename | None, _flags: list[int]) -> _File:  # type: ignore[override]
        text = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        return _File(self._files.pop(text, b""))


_registered: list[_Vfs] = []
_registering = threading.Lock()


def _vfs() -> _Vfs:
    with _registering:
        if not _registered:
            _registered.append(_Vfs())
        return _registered[0]
