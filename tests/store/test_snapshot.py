"""A snapshot is what a normal connection would read, and taking it leaves no trace."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from kfm.errors import Corrupt
from kfm.model.ports import Tables
from kfm.store.overlay import OverlayTables
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables
from tests.engine.system_calls import need_strace
from tests.store.backends import write

ENVIRONMENT = {**os.environ, "PYTHONPATH": "src:."}
NAMES = ("meta", "runs", "refs", "objects", "ledger", "history")
WRITE = """
import sys, random
from kfm.store.sqlite import SqliteTables
path, seed, checkpoint = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tables, r, i = SqliteTables(path), random.Random(seed), 0
tables._execute(f"PRAGMA wal_autocheckpoint={checkpoint}")
while True:
    i += 1
    tables.begin(durable=i % 5 == 0)
    n = int(tables.get("meta", "n") or b"0") + 1
    tables.put("meta", "n", b"%d" % n)
    tables.put("refs", f"{n:09d}", b"%d" % n)
    tables.put("runs", f"{r.randrange(40)}", r.randbytes(r.randrange(9000)))
    if n > 300:
        tables.delete("refs", f"{n - 300:09d}")
    if i % 7:
        tables.commit()
        print(n, flush=True)
    else:
        tables.rollback()
"""


def everything(tables: Tables) -> dict[tuple[str, str], bytes]:
    return {(name, key): value for name in NAMES for key, value in tables.scan(name)}


def read_normally(folder: Path) -> dict[tuple[str, str], bytes]:
    """By a connection, in a copy of the folder: the connection would change the original."""
    copy = folder.parent / (folder.name + "-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    tables = SqliteTables(str(copy / "state"))
    found = everything(tables)
    tables.close()
    return found


def trace_of(folder: Path) -> dict[str, tuple[object, ...]]:
    """Names, bytes and every time stamp but that of the last reading."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        s = path.stat()
        body = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns, hashlib.sha256(body).digest())
    return found


def start(folder: Path, seed: int, checkpoint: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITE, str(folder / "state"), str(seed), str(checkpoint)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
    )


def commits(child: subprocess.Popen[bytes], count: int) -> int:
    assert child.stdout is not None
    return [int(child.stdout.readline()) for _ in range(count)][-1]


def kill(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize(("seed", "checkpoint"), [(1, 100_000), (2, 1000), (3, 50), (4, 3)])
def test_a_snapshot_of_what_a_killed_process_left_is_what_recovery_would_read(
    tmp_path: Path, seed: int, checkpoint: int
) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    leftovers = 0
    for n in range(4):
        child = start(folder, seed * 10 + n, checkpoint)
        told = commits(child, 30 + 41 * n)
        kill(child)
        leftovers += (folder / "state-wal").exists() and (folder / "state-wal").stat().st_size > 32
        before = trace_of(folder)
        snapshot = everything(SnapshotTables(str(folder / "state")))
        assert trace_of(folder) == before, "taking a snapshot changed something"
        assert snapshot == read_normally(folder)
        assert int(snapshot["meta", "n"]) >= told
    assert leftovers, "no process left a log that was not checkpointed"


def test_snapshots_taken_while_another_process_writes_are_each_of_one_moment(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    child = start(folder, 5, 20)
    try:
        last = commits(child, 40)
        seen = set()
        for _ in range(120):
            rows = everything(SnapshotTables(str(folder / "state")))
            n = int(rows["meta", "n"])
            refs = sorted(int(value) for (table, _), value in rows.items() if table == "refs")
            assert n >= last, "a snapshot went back in time"
            assert refs == list(range(max(1, n - 299), n + 1)), "a snapshot mixed two moments"
            seen.add(n)
            while last <= n:  # until something is written that this one did not see
                last = commits(child, 1)
        assert len(seen) == 120
    finally:
        kill(child)


def test_a_snapshot_with_an_open_writer_sees_its_commits_and_not_what_it_has_begun(tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    tables = SqliteTables(path)
    write(tables, {"a": b"1"}, durable=False)
    tables.begin()
    tables.put("runs", "b", b"2" * 10_000)
    tables._execute("PRAGMA cache_spill=1")
    assert dict(SnapshotTables(path).scan("runs")) == {"a": b"1"}
    tables.commit()
    assert set(dict(SnapshotTables(path).scan("runs"))) == {"a", "b"}
    before = SnapshotTables(path)
    write(tables, {"a": None})
    assert set(dict(before.scan("runs"))) == {"a", "b"}
    tables.close()
    assert dict(SnapshotTables(path).scan("runs")) == {"b": b"2" * 10_000}


def test_a_snapshot_of_nothing_is_an_empty_state_and_stays_nothing(tmp_path: Path) -> None:
    tables = SnapshotTables(str(tmp_path / "nowhere" / "state"))
    assert everything(tables) == {}
    assert tables.get("runs", "a") is None
    overlay = OverlayTables(tables)
    write(overlay, {"a": b"1"})
    assert overlay.get("runs", "a") == b"1"
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_any_size_and_a_database_without_a_log_are_read_as_well(tmp_path: Path) -> None:
    for size in (512, 1024, 8192, 65536):
        path = tmp_path / str(size) / "state"
        SqliteTables(str(path)).close()
        db = apsw.Connection(str(path))
        db.execute("PRAGMA journal_mode=DELETE").fetchall()
        db.execute(f"PRAGMA page_size={size}")
        db.execute("VACUUM")
        db.close()
        assert everything(SnapshotTables(str(path))) == {}
        tables = SqliteTables(str(path))
        write(tables, {f"{n}": b"x" * 700 for n in range(40)})
        assert tables._value("PRAGMA page_size") == size
        assert everything(SnapshotTables(str(path))) == everything(tables)
        tables.close()


def test_a_snapshot_refuses_what_a_connection_refuses(tmp_path: Path) -> None:
    path = tmp_path / "state"
    tables = SqliteTables(str(path))
    write(tables, {"a": b"1" * 100})
    tables.close()
    body = bytearray(path.read_bytes())
    body[body.index(b"1" * 100) + 50] ^= 1
    path.write_bytes(body)
    for opener in (SnapshotTables, SqliteTables):
        with pytest.raises(Corrupt, match="runs/a is damaged"):
            opener(str(path))
    path.write_bytes(b"")
    for opener in (SnapshotTables, SqliteTables):
        with pytest.raises(Corrupt, match="acknowledged commits are missing"):
            opener(str(path))
    assert path.read_bytes() == b""


CHANGING = re.compile(
    r"^\d+ +(?:(?:open|openat|creat)\(.*O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)"
    r"|(?:write|pwrite64|writev|pwritev|sendfile|copy_file_range)\((?![12]<)"
    r"|(?:unlink|unlinkat|rename|renameat|renameat2|link|linkat|symlink|symlinkat|mkdir|mkdirat|mknod|mknodat|rmdir"
    r"|truncate|ftruncate|fallocate|chmod|fchmod|fchmodat|chown|fchown|fchownat|utime|utimes|utimensat|futimesat"
    r"|setxattr|fsetxattr|fsync|fdatasync|flock|bind|connect)\()"
)


def test_the_operating_system_sees_a_snapshot_write_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    child = start(folder, 6, 100_000)
    commits(child, 30)
    kill(child)
    look = (
        "import sys; from kfm.store.snapshot import SnapshotTables as S; print(len(list(S(sys.argv[1]).scan('refs'))))"
    )
    need_strace()
    trace = tmp_path / "trace"
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), "-y", "-e", "trace=%file,%desc,%network",
         sys.executable, "-B", "-c", look, str(folder / "state")],
        capture_output=True, text=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    if "ptrace" in done.stderr.lower():
        pytest.skip("this machine does not let strace attach")
    assert int(done.stdout) >= 25
    lines = trace.read_text().splitlines()
    assert any("state-wal" in line for line in lines), "the trace shows no reading"
    assert [line for line in lines if CHANGING.match(line)] == []


def test_the_filter_that_looks_for_writes_finds_them(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    look = "import sys; from kfm.store.sqlite import SqliteTables as S; S(sys.argv[1]).close()"
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), "-y", "-e", "trace=%file,%desc,%network",
         sys.executable, "-B", "-c", look, str(tmp_path / "state")],
        capture_output=True, text=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    if "ptrace" in done.stderr.lower():
        pytest.skip("this machine does not let strace attach")
    assert len([line for line in trace.read_text().splitlines() if CHANGING.match(line)]) > 20
