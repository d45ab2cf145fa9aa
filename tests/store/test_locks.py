"""The lock that processes of every language take the same way: one holder, and none after its death."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kfm.errors import StorageFailed
from kfm.store.locks import FileLock

ENVIRONMENT = {**os.environ, "PYTHONPATH": "src:."}
HOLD = """
import sys
from kfm.store.locks import FileLock
lock = FileLock(sys.argv[1])
print(lock.take(), flush=True)
sys.stdin.read()
"""


def test_one_holder_at_a_time_in_one_process_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.lock"
    one, two = FileLock(str(path)), FileLock(str(path))
    for first, second in ((one, two), (two, one), (one, two)):
        assert first.take()
        assert not second.take()
        assert not second.take()
        first.release()
    assert one.take()
    two.close()  # who waits and goes away takes nothing with it
    assert not FileLock(str(path)).take()
    one.close()
    assert FileLock(str(path)).take()
    assert path.read_bytes() == b""
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["a.lock"]


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"True\n"
    ours = FileLock(path)
    assert not ours.take()
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    assert ours.take()
    child.stdout.close()
    assert child.stdin is not None
    child.stdin.close()


def test_threads_that_make_the_file_together_still_let_in_only_one_at_a_time(tmp_path: Path) -> None:
    for n in range(30):
        seen: list[int] = []
        inside = [0]
        ready = threading.Barrier(4)
        threads = [
            threading.Thread(target=go_in, args=(str(tmp_path / f"{n}.lock"), ready, seen, inside)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert seen == [1] * 80


def go_in(path: str, ready: threading.Barrier, seen: list[int], inside: list[int]) -> None:
    """Twenty times, and say each time how many were inside."""
    ready.wait(30)
    for _ in range(20):
        lock = FileLock(path)
        while not lock.take():
            time.sleep(0)
        inside[0] += 1
        time.sleep(0)
        seen.append(inside[0])
        inside[0] -= 1
        lock.close()


def test_what_cannot_be_a_lock_says_why(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_bytes(b"somebody's bytes, and quite a few of them: " * 50)
    for name, wanted in (("folder", errno.EISDIR), ("link", errno.ELOOP), ("file/lock", errno.ENOTDIR)):
        with pytest.raises(OSError) as found:
            FileLock(str(tmp_path / name)).take()
        assert found.value.errno == wanted, name
    with pytest.raises(StorageFailed, match=r"^file is not a lock file: it contains bytes;") as refused:
        FileLock(str(tmp_path / "file")).take()
    assert refused.value.hint == "remove it while nothing else is at work here"
    assert not (tmp_path / "elsewhere").exists()
