"""What a contestant needs to measure itself: a stopwatch, the count of syncs, one line of result.

Standard library only: the peers' own environments import it too.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

_WORDS = struct.Struct("=7Q")  # see slowsync.c
PAYLOAD = b"0123456789abcdef" * 18 + b"0123456789ab"  # 300 bytes


def payload(i: int) -> bytes:
    """300 bytes, different for every step."""
    return b"%012d" % i + PAYLOAD[12:]


def syncs() -> int | None:
    """Syncs of this process tree so far; None when nothing counts them."""
    words = sync_words()
    return None if words is None else sum(words[1:6])


def sync_words() -> tuple[int, ...] | None:
    path = os.environ.get("SLOWSYNC_COUNTS", "")
    try:
        with open(path, "rb") as file:
            words = _WORDS.unpack(file.read(_WORDS.size))
    except (OSError, struct.error):
        return None
    return words if words[0] else None


class Stopwatch:
    """Times its block and counts the syncs in it; `report` prints the one line the harness reads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0  # of this process, all its threads
        self.syncs: int | None = None

    def __enter__(self) -> Stopwatch:
        self._syncs = syncs()
        self._cpu = time.process_time()
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.seconds = time.perf_counter() - self._start
        self.cpu_seconds = time.process_time() - self._cpu
        after = syncs()
        if after is not None and self._syncs is not None:
            self.syncs = after - self._syncs

    def report(self, units: float, **extra: Any) -> None:
        report(units, self.seconds, self.syncs, cpu_seconds=self.cpu_seconds, **extra)


def report(units: float, seconds: float, counted: int | None, **extra: Any) -> None:
    line = {"units": units, "seconds": seconds, "syncs": counted, **extra}
    sys.stdout.write("RESULT " + json.dumps(line, sort_keys=True) + "\n")
    sys.stdout.flush()


def peak_mib() -> float:
    """Largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def mark(marks: str, i: int) -> None:
    """Called by a step that must be seen to begin: one line per performed step, with the time."""
    with open(marks, "a") as file:
        file.write(f"{i} {time.time()}\n")


def marks_so_far(marks: str) -> int:
    try:
        with open(marks) as file:
            return file.read().count("\n")
    except FileNotFoundError:
        return 0


def kill_and_resume(first: list[str], second: list[str], marks: str, at: int, plan: int, wait_s: float = 300) -> None:
    """SIGKILL `first` once `at` steps are marked; report the time from starting `second` to its first mark."""
    deadline = time.monotonic() + wait_s
    victim = subprocess.Popen(first, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while marks_so_far(marks) < at:
        if victim.poll() is not None or time.monotonic() > deadline:
            victim.kill()
            raise SystemExit(f"ended before it could be killed, after {marks_so_far(marks)} steps")
        time.sleep(0.002)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    done = marks_so_far(marks)
    start = time.time()
    heir = subprocess.Popen(second, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while marks_so_far(marks) <= done:
        if time.monotonic() > deadline:
            heir.kill()
            raise SystemExit("no new step after the kill")
        time.sleep(0.002)
    with open(marks) as file:
        begun = float(file.read().splitlines()[done].split()[1])
    heir.kill()
    heir.wait()
    report(1, begun - start, None, finished_steps=done, plan_steps=plan)
