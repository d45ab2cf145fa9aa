"""A small database of a real run as bytes, with and without its log, and the judgement of damaged ones.

Opened from memory, as a snapshot is: the same checks as for the file itself, a hundred times as often.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import NamedTuple

import kfm.store.snapshot as snapshot_module
from kfm.errors import Corrupt
from kfm.fsio import REAL, note_at
from kfm.model.ports import Tables
from kfm.model.records import Receipt
from kfm.store.objects import FileObjects
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables
from tests.power.installation import Installation
from tests.power.test_sqlite_cuts import CONTENT


class Database(NamedTuple):
    base: bytes
    log: bytes
    acked: int
    content: str


class Verdict(NamedTuple):
    outcome: str  # same, other, refused
    why: str = ""


class _Enough(Exception):
    pass


def digest_of(tables: Tables) -> str:
    total = hashlib.sha256()
    for name in CONTENT:
        for key, value in tables.scan(name):
            total.update(repr((name, key, value)).encode())
    return total.hexdigest()


def _one(_receipt: Receipt) -> None:
    raise _Enough


@lru_cache
def database(kind: str) -> Database:
    """`closed`: one file, everything in it. `killed`: the same work, still in a log next to it. `half`: some of it."""
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "state")
    try:
        tables = SqliteTables(path)
        if kind == "half":
            tables._execute("PRAGMA wal_autocheckpoint=8")
        it = Installation(tables, lambda state: FileObjects(os.path.join(folder, "objects"), state))
        with suppress(_Enough):
            it.work(_one)
        if kind == "half":
            tables._execute("PRAGMA wal_autocheckpoint=1000")
            for n in range(3):
                it.state.sync()
                it.state.leases.acquire(f"scope-{n}", "h", 1)
            it.state.sync()
        content = digest_of(tables)
        if kind == "closed":
            tables.close()
        with open(path, "rb") as file:
            base = file.read()
        log = b""
        if kind != "closed":
            with open(path + "-wal", "rb") as file:
                log = file.read()
        acked = note_at(REAL, path + ".ack")
        tables.close()
        return Database(base, log, acked, content)
    finally:
        shutil.rmtree(folder)


@contextmanager
def in_memory() -> Iterator[None]:
    """Snapshots read what `judge` holds out to them."""
    read_files, note = snapshot_module.read_files, snapshot_module.note_at
    snapshot_module.read_files = lambda _path: _held[0][:2]
    snapshot_module.note_at = lambda _fs, _path: _held[0][2]
    try:
        yield
    finally:
        snapshot_module.read_files, snapshot_module.note_at = read_files, note


_held: list[tuple[bytes, bytes, int]] = [(b"", b"", 0)]


def judge(base: bytes, log: bytes, acked: int, content: str) -> Verdict:
    """Open and read all of it. Anything but a plain answer is an error of the product, and raised."""
    _held[0] = (base, log, acked)
    try:
        tables = SnapshotTables("state")
        try:
            found = digest_of(tables)
        finally:
            tables.close()
    except Corrupt as refusal:
        assert refusal.exit_code == 65 and refusal.hint
        return Verdict("refused", refusal.message)
    return Verdict("same" if found == content else "other")
