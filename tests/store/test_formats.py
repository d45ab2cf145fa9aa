"""A state of an older format becomes one of this, with every row as it was, the damaged ones too."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import kfm.store.sqlite as sqlite_module
from kfm.errors import Corrupt
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables, migrations

ROWS = {f"{Random(n).getrandbits(128):032x}": b"%d" % n * 200 for n in range(300)}


def write(path: str) -> SqliteTables:
    tables = SqliteTables(path)
    tables.begin()
    for table in ("receipts", "telemetry"):
        tables.put_many(table, ROWS.items())
    tables.commit()
    return tables


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteTables:
    """In format 2, whose receipts and telemetry lie sorted by their keys."""
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_module, "migrations", lambda: migrations()[:2])
        return write(str(tmp_path / "state"))


def test_every_row_of_an_older_format_is_there_in_this_one(older: SqliteTables, tmp_path: Path) -> None:
    assert older._version() == 2
    older.close()
    write(str(tmp_path / "new")).close()
    new = SqliteTables(str(tmp_path / "new"))
    for opener in (SnapshotTables, SqliteTables):  # the first in memory only
        tables = opener(str(tmp_path / "state"))
        for table in ("receipts", "telemetry"):
            assert dict(tables.scan(table)) == ROWS
            assert all(tables.get(table, key) == value for key, value in ROWS.items())
        assert tables._schema() == new._schema(), "it is another format than that of a new state"
        tables.verify()
        tables.close()
    new.close()


def test_a_row_that_was_damaged_in_an_older_format_is_not_mended(older: SqliteTables, tmp_path: Path) -> None:
    older._execute("UPDATE receipts SET value=x'00' WHERE key=?", (min(ROWS),))
    older.close()
    with pytest.raises(Corrupt, match=f"receipts/{min(ROWS)} is damaged"):
        SqliteTables(str(tmp_path / "state"))


def test_a_receipt_that_its_index_has_lost_is_missed_on_opening(tmp_path: Path) -> None:
    path = tmp_path / "state"
    tables = write(str(path))
    tables.close()
    body = path.read_bytes()
    places = [at for at in range(len(body)) if body.startswith(min(ROWS).encode(), at)]
    found = 0
    for at in places:
        path.write_bytes(body[:at] + b"z" + body[at + 1 :])
        with pytest.raises(Corrupt):
            SqliteTables(str(path))
        found += 1
    assert found == 4, "each of the two rows has its key in the table and in the index"
