"""A read-only look at a SQLite state that writes nothing at all.

Opening a WAL-mode database, even with mode=ro, creates side files. So the database and its log are
read as plain bytes, put together in memory up to the last whole commit, and opened there. Reading is
repeated if the log was restarted meanwhile; pages a checkpoint copies under our eyes are in the log too.
"""

from __future__ import annotations

import os
import struct

import apsw

from kfm.errors import Corrupt, Unavailable
from kfm.store.sqlite import SqliteTables


class SnapshotTables(SqliteTables):
    """The same queries over a copy in memory; any write to it would be lost, and nobody makes one."""

    def __init__(self, path: str) -> None:
        import threading

        self._lock = threading.RLock()
        self._failed = None
        self._durable = True
        self._db = apsw.Connection(":memory:", statementcachesize=200)
        self._execute = self._db.cursor().execute
        image = read_image(path)
        if image:
            self._db.deserialize("main", image)
        try:
            self._execute("PRAGMA trusted_schema=OFF")
            if not self._value("SELECT count(*) FROM sqlite_schema"):
                self._migrate()
            self._execute("PRAGMA query_only=ON")
        except apsw.Error as problem:
            raise Corrupt(f"the state database is damaged: {problem}", hint="restore it from a copy") from problem


def read_image(path: str) -> bytes:
    """The database as of its last commit; b'' if there is none yet."""
    for _ in range(20):
        before = _read(path + "-wal", 32)
        base = _read(path)
        log = _read(path + "-wal")
        if log[:32] == before[:32] == _read(path + "-wal", 32):
            return _apply(base, log)
    raise Unavailable("the state is being rewritten too fast to be read", hint="try again in a moment")


def _read(path: str, size: int = -1) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    with open(fd, "rb", buffering=0) as file:
        return file.read(size) if size >= 0 else file.readall()


def _apply(base: bytes, log: bytes) -> bytes:
    image = bytearray(base)
    if len(log) > 32:
        _replay(image, log)
    if len(image) >= 20:
        image[18] = image[19] = 1  # "legacy" journal: the copy has no log of its own
    return bytes(image)


def _replay(image: bytearray, log: bytes) -> None:
    magic, _, page, _, salt1, salt2, sum1, sum2 = struct.unpack(">8I", log[:32])
    if magic & 0xFFFFFFFE != 0x377F0682:
        return
    order = ">" if magic & 1 else "<"
    state = _checksum(order, log[:24], 0, 0)
    if state != (sum1, sum2):
        return
    pending: dict[int, int] = {}
    committed: dict[int, int] = {}
    pages = 0
    at = 32
    while at + 24 + page <= len(log):
        number, size, s1, s2, c1, c2 = struct.unpack(">6I", log[at : at + 24])
        if (s1, s2) != (salt1, salt2):
            break
        state = _checksum(order, log[at : at + 8], *state)
        state = _checksum(order, log[at + 24 : at + 24 + page], *state)
        if state != (c1, c2):
            break
        pending[number] = at + 24
        if size:
            committed.update(pending)
            pending.clear()
            pages = size
        at += 24 + page
    if pages:
        image.extend(bytes(max(0, pages * page - len(image))))
        del image[pages * page :]
        for number, start in committed.items():
            if number <= pages:
                image[(number - 1) * page : number * page] = log[start : start + page]


def _checksum(order: str, body: bytes, s1: int, s2: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(body) // 4}I", body)
    for i in range(0, len(words), 2):
        s1 = (s1 + words[i] + s2) & 0xFFFFFFFF
        s2 = (s2 + words[i + 1] + s1) & 0xFFFFFFFF
    return s1, s2
