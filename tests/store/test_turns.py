"""Processes and connections at one state write one after the other, and none sees unfinished work of another."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kfm.errors import Busy, StorageFailed
from kfm.fsio import REAL, Fs
from kfm.store.jsonl import JsonlTables
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState
from tests.store.backends import STORED, content, keys, open_stored, write

ENVIRONMENT = {**os.environ, "PYTHONPATH": "src:."}
COUNT = """
import sys, time
from kfm.errors import Busy
from tests.store.backends import open_stored
def patiently(what):
    while True:
        try:
            return what()
        except Busy:
            time.sleep(0.002)
kind, path, name, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
tables = patiently(lambda: open_stored(kind, path))
for i in range(rounds):
    patiently(lambda: tables.begin(durable=i % 2 == 0))
    n = int(tables.get("runs", "n") or b"0") + 1
    tables.put("runs", "n", b"%d" % n)
    tables.put("refs", f"{name}/{i:04d}", b"%d" % n)
    tables.commit() if i % 5 else tables.rollback()
    print(n, flush=True)
tables.close()
"""


@pytest.mark.parametrize("kind", STORED)
def test_two_connections_see_each_others_commits_and_nothing_less(kind: str, tmp_path: Path) -> None:
    one, two = (open_stored(kind, str(tmp_path / "state")) for _ in range(2))
    write(one, {"a": b"1"})
    for n in range(20):
        writer, reader = (one, two) if n % 2 else (two, one)
        write(writer, {f"k{n}": b"%d" % n, "last": b"%d" % n}, durable=n % 3 == 0)
        reader.begin()  # a journal is read again when a transaction begins; a database always
        assert reader.get("runs", "last") == b"%d" % n
        assert reader.get("runs", f"k{n}") == b"%d" % n
        reader.rollback()
    one.close()
    two.close()
    assert len(content(open_stored(kind, str(tmp_path / "state")))) == 22


@pytest.mark.parametrize("kind", STORED)
def test_a_second_writer_waits_and_then_gets_an_error(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    one, two = (open_stored(kind, str(tmp_path / "state")) for _ in range(2))
    one.begin()
    one.put("runs", "a", b"1")
    with pytest.raises(Busy):
        two.begin()
    assert two.get("runs", "a") is None
    one.put("runs", "b", b"2")
    one.commit()
    write(two, {"c": b"3"})
    assert keys(two.scan("runs")) == ["a", "b", "c"]


def test_what_one_process_left_unsynced_a_durable_commit_of_another_makes_durable(tmp_path: Path) -> None:
    syncs = []

    class Counting(Fs):
        def sync(self, fd: int) -> None:
            syncs.append(fd)
            super().sync(fd)

    path = str(tmp_path / "state")
    one, two = JsonlTables(path), JsonlTables(path, Counting())
    before = len(syncs)
    write(one, {"b": b"2"}, durable=False)
    two.begin()
    two.commit()
    assert len(syncs) == before + 1, "an empty durable commit covers what others wrote"
    two.begin()
    two.commit()
    assert len(syncs) == before + 1, "and has nothing to do when nothing is unsynced"


@pytest.mark.parametrize("kind", STORED)
def test_processes_counting_together_lose_no_count(kind: str, tmp_path: Path) -> None:
    path, workers, rounds = str(tmp_path / "state"), 4, 50
    children = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT, kind, path, str(n), str(rounds)],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
        )
        for n in range(workers)
    ]
    assert [child.wait(120) for child in children] == [0] * workers
    tables = open_stored(kind, path)
    expected = workers * sum(1 for i in range(rounds) if i % 5)
    assert tables.get("runs", "n") == b"%d" % expected
    assert sorted(int(value) for _, value in tables.scan("refs")) == list(range(1, expected + 1))


@pytest.mark.parametrize("kind", STORED)
def test_a_killed_process_leaves_whole_transactions_and_no_lock(kind: str, tmp_path: Path) -> None:
    path, told, random_ = str(tmp_path / "state"), 0, random.Random(kind)
    for n in range(12):
        child = subprocess.Popen(
            [sys.executable, "-c", COUNT, kind, path, f"w{n}", "100000"], env=ENVIRONMENT, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        for _ in range(random_.randrange(1, 60)):
            told = max(told, int(child.stdout.readline()))
        time.sleep(random_.random() / 500)
        child.send_signal(signal.SIGKILL)
        assert child.wait(30) == -signal.SIGKILL
        tables = open_stored(kind, path)
        count = int(tables.get("runs", "n") or b"0")
        assert len(list(tables.scan("refs"))) == count
        assert count >= told - 1, "a transaction that ended was lost"  # the last number told may be one rolled back
        tables.close()


@pytest.mark.parametrize("kind", STORED)
def test_a_fence_raised_by_another_process_is_seen_inside_the_transaction(kind: str, tmp_path: Path) -> None:
    from kfm.errors import Fenced, Frozen

    path = str(tmp_path / "state")
    now = [1000]
    one, two = (StoredState(open_stored(kind, path), lambda: now[0]) for _ in range(2))
    for n in range(5):
        lease = one.leases.acquire("scope", "one", 10)
        with one.transaction(lease, switches=("switch/global",)) as tx:
            tx.touch()
        with one.transaction(lease, switches=("switch/global",)) as tx:
            tx.touch()
        now[0] += 10
        taken = two.leases.acquire("scope", "two", 10)
        assert taken.token > lease.token, n
        with pytest.raises(Fenced), one.transaction(lease, switches=("switch/global",)):
            pytest.fail("entered with a stale lease")
        two.leases.release(taken)
    lease = one.leases.acquire("scope", "one", 10)
    with one.transaction(lease, switches=("switch/global",)) as tx:
        tx.touch()
    two.tables.begin()
    two.tables.put("refs", "switch/global", b"frozen")
    two.tables.commit()
    with (
        pytest.raises(Frozen, match="`kfm thaw --reason …` opens it"),
        one.transaction(lease, switches=("switch/global",)),
    ):
        pytest.fail("entered while frozen")


class FailingSync(Fs):
    def __init__(self) -> None:
        self.armed = False
        self.fired = 0
        self.after = 0

    def sync(self, fd: int) -> None:
        if self.fired:
            self.after += 1
        if self.armed:
            self.fired += 1
            raise OSError(5, "Input/output error")
        super().sync(fd)


def test_after_a_failed_sync_the_journal_answers_nothing_and_is_never_synced_again(tmp_path: Path) -> None:
    fs = FailingSync()
    tables = JsonlTables(str(tmp_path / "state"), fs)
    write(tables, {"a": b"1"})
    fs.armed = True
    tables.begin()
    tables.put("runs", "b", b"2")
    with pytest.raises(StorageFailed, match="I/O error"):
        tables.commit()
    assert fs.fired == 1
    fs.armed = False
    for attempt in (
        lambda: tables.get("runs", "a"),
        lambda: list(tables.scan("runs")),
        lambda: tables.begin(),
        lambda: tables.begin(False),
    ):
        with pytest.raises(StorageFailed):
            attempt()
    tables.close()
    assert fs.after == 0
    again = JsonlTables(str(tmp_path / "state"))
    assert again.get("runs", "a") == b"1"
    write(again, {"c": b"3"})


def test_a_line_that_was_cut_by_a_full_disk_is_repaired_by_the_next_process(tmp_path: Path) -> None:
    class Full(Fs):
        room = 1 << 30

        def write(self, fd: int, body: bytes | memoryview) -> None:
            taken = bytes(body)[: self.room]
            super().write(fd, taken)
            if len(taken) < len(body):
                raise OSError(28, "No space left on device")

    for room in range(0, 120, 7):
        folder = tmp_path / str(room)
        fs = Full()
        tables = JsonlTables(str(folder / "state"), fs)
        other = JsonlTables(str(folder / "state"))
        write(tables, {"a": b"1"})
        fs.room = room
        tables.begin()
        tables.put("runs", "b", b"2" * 200)
        with pytest.raises(StorageFailed, match="disk is full"):
            tables.commit()
        write(other, {"c": b"3"})  # was open all the time
        assert other.repaired_bytes == room
        assert keys(JsonlTables(str(folder / "state")).scan("runs")) == ["a", "c"]


def test_an_interrupt_inside_a_commit_makes_the_journal_be_read_again(tmp_path: Path) -> None:
    class Interrupted(Fs):
        where = ""

        def write(self, fd: int, body: bytes | memoryview) -> None:
            if self.where == "before":
                raise KeyboardInterrupt
            super().write(fd, body)
            if self.where == "after":
                raise KeyboardInterrupt

        def sync(self, fd: int) -> None:
            if self.where == "sync":
                raise KeyboardInterrupt
            super().sync(fd)

    for where, kept in (("before", ["a"]), ("after", ["a", "b"]), ("sync", ["a", "b"])):
        fs = Interrupted()
        tables = JsonlTables(str(tmp_path / where / "state"), fs)
        write(tables, {"a": b"1"})
        fs.where = where
        tables.begin()
        tables.put("runs", "b", b"2")
        with pytest.raises(KeyboardInterrupt):
            tables.commit()
        with pytest.raises(StorageFailed):
            tables.get("runs", "b")
        assert keys(JsonlTables(str(tmp_path / where / "state")).scan("runs")) == kept


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    import apsw

    from kfm.errors import Refused

    path = tmp_path / "state"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE theirs(a); INSERT INTO theirs VALUES (1); PRAGMA user_version=7")
    db.close()
    with pytest.raises(Refused, match="another program"):
        SqliteTables(str(path))
    db = apsw.Connection(str(path))
    assert db.execute("SELECT a FROM theirs").fetchall() == [(1,)]


def test_a_database_of_a_newer_kfm_is_refused_by_its_number(tmp_path: Path) -> None:
    from kfm.errors import Refused
    from kfm.store.snapshot import SnapshotTables

    path = str(tmp_path / "state")
    tables = SqliteTables(path)
    tables._execute("BEGIN IMMEDIATE")
    tables._execute("PRAGMA user_version=99")
    tables._guard("schema", tables._schema())
    tables._execute("COMMIT")
    tables.close()
    for opener in (SqliteTables, SnapshotTables):
        with pytest.raises(Refused, match="format 99"):
            opener(path)


def test_what_cannot_be_opened_says_so_and_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    gc.collect()  # what earlier tests left open
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for opener in (SqliteTables, JsonlTables):
            with pytest.raises(StorageFailed):
                opener(str(tmp_path / "folder"))
            with pytest.raises(StorageFailed):
                opener("/proc/nowhere/state")
    assert len(os.listdir("/proc/self/fd")) == before
    assert REAL.exists(str(tmp_path / "folder"))
