"""A reader in place sees one moment of the database, whatever others write meanwhile, and stops none of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import kfm.store.readers.live_reader as module
from kfm.errors import Corrupt, Refused, Unavailable
from kfm.store.readers.live_reader import LiveTables, open_reader
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables
from tests.store.backends import write
from tests.store.test_snapshot import ENVIRONMENT, commits, everything, kill, start, trace_of

LARGE = {f"filler-{n}": b"x" * 50_000 for n in range(30)}  # above the size up to which a state is copied


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a large state that no process has open."""
    folder = tmp_path / "home"
    tables = SqliteTables(str(folder / "state"))
    write(tables, LARGE)
    tables.close()
    return str(folder / "state")


@pytest.fixture
def writer(path: str) -> Iterator[SqliteTables]:
    tables = SqliteTables(path, busy_ms=0)  # a writer that had to wait would fail at once
    yield tables
    tables.close()


def opened(path: str) -> LiveTables:
    tables = open_reader(path)
    assert isinstance(tables, LiveTables)
    return tables


def test_a_reader_sees_the_moment_of_its_opening_until_it_is_closed(path: str, writer: SqliteTables) -> None:
    reader = opened(path)
    before = everything(reader)
    write(writer, {"a": b"1", "filler-0": None})
    assert reader.get("runs", "a") is None
    assert reader.get("runs", "filler-0") == LARGE["filler-0"]
    assert everything(reader) == before
    later = opened(path)
    assert later.get("runs", "a") == b"1"
    assert later.get("runs", "filler-0") is None
    reader.close()
    later.close()


def test_readers_that_stay_open_never_make_a_writer_wait(path: str, writer: SqliteTables) -> None:
    """Not for a commit, not for a checkpoint, not when the log would restart: the writer has no patience at all."""
    writer._execute("PRAGMA wal_autocheckpoint=20")
    readers = []
    for n in range(60):
        write(writer, {f"k{n}": b"y" * 3000}, durable=n % 3 == 0)
        if n % 10 == 0:
            readers.append((n, opened(path)))
    for n, reader in readers:
        assert [key for key, _ in reader.scan("runs", "k")] == sorted(f"k{each}" for each in range(n + 1))
        reader.close()


def test_a_reader_between_commits_of_two_writers_leaves_the_file_whole(path: str) -> None:
    writers = [SqliteTables(path), SqliteTables(path)]
    for tables in writers:
        tables._execute("PRAGMA wal_autocheckpoint=10")
    for n in range(40):
        reader = opened(path)
        write(writers[n % 2], {f"k{n}": b"z" * 2000})
        assert reader.get("runs", f"k{n}") is None
        reader.close()
    for tables in writers:
        tables.close()
    checked = SqliteTables(path)
    assert checked.verify() > 70
    checked.close()


def test_a_closed_reader_leaves_the_folder_as_it_was(path: str) -> None:
    before = {name: stamp for name, stamp in trace_of(Path(path).parent).items() if not name.endswith("home")}
    opened(path).close()
    after = {name: stamp for name, stamp in trace_of(Path(path).parent).items() if not name.endswith("home")}
    assert after == before


def test_a_reader_that_is_killed_leaves_nothing_wrong(path: str) -> None:
    """Its side files are empty or an index that the next writer makes again."""
    held = "import sys, time; from kfm.store.readers.live_reader import *; t = LiveTables(sys.argv[1]); "
    held += "print(1, flush=True); time.sleep(99)"
    before = Path(path).read_bytes()
    child = subprocess.Popen([sys.executable, "-c", held, path], env=ENVIRONMENT, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"1\n"
    kill(child)
    assert Path(path).read_bytes() == before
    assert not os.path.exists(path + "-wal") or not os.path.getsize(path + "-wal")
    tables = SqliteTables(path, busy_ms=0)
    write(tables, {"a": b"1"})
    tables.close()
    assert not os.path.exists(path + "-wal")
    assert open_reader(path).get("runs", "a") == b"1"


def test_the_log_that_a_killed_writer_left_is_read_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    tables = SqliteTables(str(folder / "state"))
    write(tables, LARGE)
    tables.close()
    child = start(folder, 7, 100_000)
    commits(child, 50)
    kill(child)
    path, log = str(folder / "state"), folder / "state-wal"
    kept = (folder / "state").read_bytes(), log.read_bytes()
    assert len(kept[1]) > 32
    wanted = everything(SnapshotTables(path))
    reader = opened(path)
    assert everything(reader) == wanted
    reader.close()
    assert ((folder / "state").read_bytes(), log.read_bytes()) == kept


def test_a_small_or_missing_state_is_copied(tmp_path: Path) -> None:
    path = str(tmp_path / "home" / "state")
    assert isinstance(open_reader(path), SnapshotTables)
    assert list(tmp_path.iterdir()) == []
    tables = SqliteTables(path)
    write(tables, {"a": b"1"})
    tables.close()
    before = trace_of(tmp_path)
    reader = open_reader(path)
    assert isinstance(reader, SnapshotTables)
    assert reader.get("runs", "a") == b"1"
    reader.close()
    assert trace_of(tmp_path) == before


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_cannot_be_written_is_copied(what: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = os.path.dirname(path) if what == "folder" else path
    real = os.access
    monkeypatch.setattr(os, "access", lambda where, mode: where != closed and real(where, mode))
    before = trace_of(Path(path).parent)
    reader = open_reader(path)
    assert isinstance(reader, SnapshotTables)
    assert dict(reader.scan("runs")) == LARGE
    assert trace_of(Path(path).parent) == before


def test_a_file_without_a_log_is_copied(path: str) -> None:
    db = apsw.Connection(path)
    db.execute("PRAGMA journal_mode=DELETE").fetchall()
    db.close()
    reader = open_reader(path)
    assert isinstance(reader, SnapshotTables)
    assert dict(reader.scan("runs")) == LARGE


def test_a_state_of_an_older_format_is_copied_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SMALL", 0)
    golden = next(Path("tests/golden/format-7").rglob("*.db"))
    path = tmp_path / "state.db"
    shutil.copyfile(golden, path)
    before = path.read_bytes()
    reader = open_reader(str(path))
    assert isinstance(reader, SnapshotTables)
    assert next(reader.scan("ledger"), None) is not None
    reader.close()
    assert path.read_bytes() == before


def test_a_reader_refuses_what_a_writer_refuses(path: str) -> None:
    kept = Path(path).read_bytes()
    ack = Path(path + ".ack").read_bytes()
    tables = SqliteTables(path)
    write(tables, {"b": b"1"})
    tables.close()
    Path(path).write_bytes(kept)  # an older copy, under the note of a newer one
    for opener in (open_reader, SqliteTables):
        with pytest.raises(Corrupt, match="acknowledged commits are missing"):
            opener(path)
    Path(path + ".ack").write_bytes(ack)
    db = apsw.Connection(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises((Corrupt, Refused)):
        open_reader(path)
    Path(path).write_bytes(kept[: len(kept) // 2])
    with pytest.raises(Corrupt):
        everything(open_reader(path))


def test_a_reader_that_waits_while_the_log_grows_gives_up_and_says_so(
    path: str, writer: SqliteTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the log could not restart as long as a pager is open."""
    monkeypatch.setattr(module, "_LONGEST", 200_000)
    monkeypatch.setattr(module, "_LOOK_S", 0.005)
    reader = opened(path)
    watch = next(each for each in threading.enumerate() if each.name == f"kfm-reader-{id(reader)}")
    assert reader.get("runs", "filler-0") is not None
    write(writer, {f"k{n}": b"y" * 3000 for n in range(100)})
    watch.join(30)
    with pytest.raises(Unavailable, match="changed too much"):
        reader.get("runs", "filler-1")
    with pytest.raises(Unavailable), reader.reading():
        list(reader.scan("runs"))
    reader.close()
    writer._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert os.path.getsize(path + "-wal") == 0, "the reader still holds the log"


def test_tables_in_place_cannot_be_written(path: str) -> None:
    reader = opened(path)
    with pytest.raises(RuntimeError):
        reader.begin()
    with pytest.raises(apsw.ReadOnlyError):
        reader._db.execute("DELETE FROM runs")
    reader.close()


WRITES = """
import sys
from kfm.model.records import RefMove
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState
from tests.store.records import receipt
tables = SqliteTables(sys.argv[1], busy_ms=0)  # to wait for a reader is an error
tables._execute(f"PRAGMA wal_autocheckpoint={sys.argv[2]}")
state, n = StoredState(tables, lambda: 0), 0
while True:
    n += 1
    ref, run_id = f"processed/d{n % 7}", f"{n:08x}"
    move = RefMove(ref=ref, before=state.refs.at(ref), after=f"sha256:{n:064x}")
    with state.transaction(durable=n % 5 == 0) as tx:
        tx.refs.move(move, run_id=run_id, op="ingest", actor="a", reason="", ts="2026-01-01T00:00:00Z")
        tx.ledger.append(receipt(run_id=run_id, dataset=f"d{n % 7}", moves=[move]), op="ingest")
    print(n, flush=True)
"""
READS = """
import sys, time
from kfm.model.keys import digest
from kfm.store.readers.live_reader import LiveTables
from kfm.store.state import StoredState
last, seen = 0, set()
for _ in range(int(sys.argv[2])):
    tables = LiveTables(sys.argv[1], busy_ms=0)
    state = StoredState(tables, lambda: 0)
    count = state.counters()["ledger"]
    time.sleep(0.002)  # the writer goes on in the middle of the read
    assert [entry.index for entry in state.ledger.entries()] == list(range(1, count + 1)), "not one moment"
    assert state.ledger.head() == digest(tables.get("ledger", f"{count:012d}")), "the head is of another moment"
    assert state.ledger.tree().size == count
    for ref, version in state.refs.all():
        move = next(state.refs.history(ref, reverse=True, limit=1))
        assert move.after == version, "a ref without its history"
        assert state.ledger.receipt(move.run_id).moves[0].after == version, "a ref without its receipt"
    assert state.counters()["ledger"] == count >= last
    tables.close()
    last = count
    seen.add(count)
print(last, len(seen))
"""


def process(script: str, *words: str) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", script, *words], env=ENVIRONMENT, **pipes)


@pytest.mark.parametrize("checkpoint", [5, pytest.param(1000, marks=pytest.mark.long)])
def test_readers_next_to_a_busy_writer_see_one_moment_each_and_stop_it_never(path: str, checkpoint: int) -> None:
    """Every ref has its receipt, and the ledger ends where its head says; the writer has no patience to wait."""
    writer = process(WRITES, path, str(checkpoint))
    try:
        first = commits(writer, 5)
        threading.Thread(target=lambda: writer.stdout and writer.stdout.read(), daemon=True).start()
        readers = [process(READS, path, "20") for _ in range(3)]
        for reader in readers:
            out, error = reader.communicate(timeout=120)
            assert reader.returncode == 0, error.decode()
            last, moments = map(int, out.split())
            assert last > first and moments > 5, "nothing was written next to the reader"
        assert writer.poll() is None, writer.stderr and writer.stderr.read().decode()
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait(30)
    checked = SqliteTables(path)
    checked.verify()
    checked.close()
