"""A state of an older format is upgraded with every row unchanged, including damaged ones."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from random import Random

import msgspec
import pytest

import kfm.store.sqlite as sqlite_module
from kfm.errors import Corrupt, Refused
from kfm.model.ports import Tables
from kfm.store import state_formats
from kfm.store.jsonl import JsonlTables
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables, migrations

TWO = ("receipts", "telemetry")
BY_ARRIVAL = (*TWO, "objects", "segments", "archived", "plans", "runs", "checkpoints")  # before, by their keys
ROWS = {f"{Random(n).getrandbits(128):032x}": b"%d" % n * 200 for n in range(300)}


def write(path: str, kinds: tuple[str, ...] = TWO) -> SqliteTables:
    tables = SqliteTables(path)
    tables.begin()
    for table in kinds:
        tables.put_many(table, ROWS.items())
    tables.commit()
    return tables


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteTables:
    """In format 2, whose receipts and telemetry lie sorted by their keys."""
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_module, "migrations", lambda: migrations()[:2])
        return write(str(tmp_path / "state"))


@pytest.mark.parametrize("number", [2, 3, 7])
def test_every_row_of_an_older_format_is_there_in_this_one(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_module, "migrations", lambda: migrations()[:number])
        older = write(str(tmp_path / "state"), BY_ARRIVAL)
    assert older._version() == number
    older.close()
    write(str(tmp_path / "new")).close()
    new = SqliteTables(str(tmp_path / "new"))
    for opener in (SnapshotTables, SqliteTables):  # the first in memory only
        tables = opener(str(tmp_path / "state"))
        for table in BY_ARRIVAL:
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
    places = [found.start() for found in re.finditer(re.escape(min(ROWS).encode()), body)]
    found = 0
    for at in places:
        path.write_bytes(body[:at] + b"z" + body[at + 1 :])
        with pytest.raises(Corrupt):
            SqliteTables(str(path))
        found += 1
    assert found == 4, "each of the two rows has its key in the table and in the index"


# ------------------------------------------------------------------------------------------- a journal


def line_of(tables: JsonlTables, *said: int, rows: int = 0) -> bytes:
    """The next line of a journal, as whoever wrote this format would have written it."""
    writes = [["runs", f"{n}", "{}"] for n in range(rows)]
    body = msgspec.json.encode([tables._head, tables._end, writes, *said])
    return b"%d %s %s\n" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)


@pytest.fixture
def unsaid(tmp_path: Path) -> Path:
    """A journal of format 3, which says no format."""
    path = tmp_path / "state"
    path.write_bytes(line_of(JsonlTables(str(tmp_path / "other")), rows=3))
    return path


def formats_said(path: Path) -> list[int]:
    return [(*msgspec.json.decode(line.split(b" ", 2)[2]), 0)[3] for line in path.read_bytes().splitlines()]


def test_the_newest_tables_and_the_newest_steps_are_of_the_same_format() -> None:
    assert migrations()[-1][0] == state_formats.FORMAT >= max(state_formats.STEPS, default=0)


def test_a_new_journal_says_its_format_in_its_first_line_and_never_again(tmp_path: Path) -> None:
    tables = JsonlTables(str(tmp_path / "state"))
    for key in ("a", "b"):
        tables.begin()
        tables.put("runs", key, b"1")
        tables.commit()
    tables.close()
    JsonlTables(str(tmp_path / "state")).close()
    assert formats_said(tmp_path / "state") == [state_formats.FORMAT, 0]


def test_an_older_journal_is_rewritten_once_and_in_one_line(unsaid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(tables: Tables) -> None:
        for key, _ in list(tables.scan("runs")):
            tables.put("claims", key, b"made of it")

    monkeypatch.setitem(state_formats.STEPS, state_formats.FORMAT, step)
    before = unsaid.read_bytes()
    looking = JsonlTables(str(unsaid), create=False)
    assert [key for key, _ in looking.scan("claims")] == ["0", "1", "2"]
    looking.close()
    assert unsaid.read_bytes() == before, "a look has written"
    for _ in range(2):
        tables = JsonlTables(str(unsaid))
        assert [key for key, _ in tables.scan("claims")] == ["0", "1", "2"]
        tables.close()
    assert formats_said(unsaid) == [0, state_formats.FORMAT]
    monkeypatch.undo()
    assert len(list(JsonlTables(str(unsaid)).scan("claims"))) == 3, "it was not written"


def test_a_journal_that_an_older_program_began_meanwhile_is_rewritten_by_the_next_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        state_formats.STEPS, state_formats.FORMAT, lambda tables: tables.put("claims", "made", b"of it")
    )
    path = tmp_path / "state"
    tables = JsonlTables(str(path))
    path.write_bytes(line_of(tables, rows=1))
    tables.begin()
    tables.put("runs", "ours", b"1")
    tables.commit()
    assert tables.get("claims", "made") == b"of it"
    tables.close()
    assert formats_said(path) == [0, state_formats.FORMAT]


@pytest.mark.parametrize("create", [True, False])
def test_a_newer_journal_is_refused_and_left_alone(unsaid: Path, create: bool) -> None:
    tables = JsonlTables(str(unsaid))
    unsaid.write_bytes(unsaid.read_bytes() + line_of(tables, state_formats.FORMAT + 1, rows=1))
    tables.close()
    before = unsaid.read_bytes()
    with pytest.raises(Refused, match=f"the journal has format {state_formats.FORMAT + 1}, this kfm knows up to"):
        JsonlTables(str(unsaid), create=create)
    assert unsaid.read_bytes() == before
