"""The log of a busy SQLite state is extended once; if that fails, nothing is lost and no error is hidden."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kfm.errors import StorageFailed
from kfm.fsio import REAL
from kfm.store import sqlite
from kfm.store.sqlite import SqliteTables


class Failing:
    """The real file system, but for one call that fails the first time."""

    def __init__(self, name: str, code: int) -> None:
        self._name = name
        self._code = code
        self.fired = 0

    def __getattr__(self, name: str) -> object:
        if name != self._name or self.fired:
            return getattr(REAL, name)

        def fails(*_arguments: object) -> None:
            self.fired += 1
            raise OSError(self._code, "injected")

        return fails


def put(tables: SqliteTables, n: int) -> None:
    tables.begin()
    tables.put("refs", f"key-{n}", b"%d" % n)
    tables.commit()


def kept(path: str) -> list[str]:
    tables = SqliteTables(path)
    try:
        return sorted(key for key, _ in tables.scan("refs"))
    finally:
        tables.close()


def test_a_busy_log_is_long_and_holds_what_it_held(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    tables = SqliteTables(path)
    for n in range(sqlite._BUSY + 5):
        put(tables, n)
    assert (tmp_path / "state.db-wal").stat().st_size >= sqlite._LOG
    tables.close()
    assert len(kept(path)) == sqlite._BUSY + 5


def test_a_sync_that_fails_ends_it_and_what_was_acknowledged_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "state.db")
    tables = SqliteTables(path)
    for n in range(sqlite._BUSY - 1):
        put(tables, n)
    failing = Failing("sync", errno.EIO)
    monkeypatch.setattr(sqlite, "REAL", failing)
    with pytest.raises(StorageFailed):
        put(tables, 99)
    assert failing.fired == 1
    with pytest.raises(StorageFailed):
        put(tables, 100)
    monkeypatch.undo()
    assert len(kept(path)) == sqlite._BUSY - 1, "what was acknowledged, and nothing else"


def test_without_room_for_it_the_log_goes_on_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "state.db")
    tables = SqliteTables(path)
    failing = Failing("write_at", errno.ENOSPC)
    for n in range(sqlite._BUSY + 5):
        if n == sqlite._BUSY - 1:
            monkeypatch.setattr(sqlite, "REAL", failing)
        if n == sqlite._BUSY:
            monkeypatch.undo()
        put(tables, n)
    assert failing.fired == 1
    tables.close()
    assert len(kept(path)) == sqlite._BUSY + 5
