"""What the disk, SQLite, SHA-256 and the interpreter allow. Each case runs alone in a child process.

python yardsticks.py CASE N FOLDER [MODULE]
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from probe import Stopwatch, payload, report


def sqlite(n: int, folder: str) -> None:
    """One 300-byte row, one commit; WAL, synchronous=FULL, the SQLite that KFM uses."""
    import apsw

    db = apsw.Connection(os.path.join(folder, "raw.db"))
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=full")
    db.execute("create table entry(n integer primary key, body blob not null)")
    rows = [(i, payload(i)) for i in range(n)]
    with Stopwatch() as watch:
        for row in rows:
            db.execute("insert into entry values (?, ?)", row)
    db.close()
    watch.report(n, sqlite_version=apsw.sqlite_lib_version())


def append(n: int, folder: str) -> None:
    """300 bytes appended and fdatasynced, n times: the floor of any journal."""
    fd = os.open(os.path.join(folder, "raw.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    rows = [payload(i) for i in range(n)]
    with Stopwatch() as watch:
        for row in rows:
            os.write(fd, row)
            os.fdatasync(fd)
    os.close(fd)
    watch.report(n)


def sha256(n: int, folder: str) -> None:
    """SHA-256 of n MiB already in memory."""
    chunk = os.urandom(1 << 20)
    with Stopwatch() as watch:
        state = hashlib.sha256()
        for _ in range(n):
            state.update(chunk)
        state.digest()
    watch.report(n / 1024)


def write(n: int, folder: str) -> None:
    """n MiB written to one file and synced: the disk's part of storing a source."""
    chunk = os.urandom(1 << 20)
    fd = os.open(os.path.join(folder, "raw.bin"), os.O_WRONLY | os.O_CREAT, 0o644)
    with Stopwatch() as watch:
        for _ in range(n):
            os.write(fd, chunk)
        os.fdatasync(fd)
    os.close(fd)
    watch.report(n / 1024)


def start(n: int, folder: str) -> None:
    """Median time of n processes that import a module (or `pass`) and end."""
    code = "pass" if sys.argv[4] == "pass" else f"import {sys.argv[4]}"
    environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    times = []
    for _ in range(n + 1):  # the first one warms the disk cache and writes bytecode
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, check=True)
        times.append(time.perf_counter() - begun)
    report(1, statistics.median(times[1:]), None)


def record() -> dict[str, Any]:
    """About 2 KB of nested JSON: text with and without escapes, whole numbers, fractions, lists."""
    stations = [
        {
            "id": f"KS-{i:04d}",
            "name": f"Station “{i}” am Bach",
            "position": [-98.5 + i / 7, 38.25 + i / 11],
            "elevation_m": 400 + i,
            "open": i % 2 == 0,
            "note": None,
            "tags": ["daily", "tmax", "tmin\n"],
        }
        for i in range(12)
    ]
    return {"type": "stations", "version": 3, "stations": stations, "license": "CC0-1.0", "coverage": 0.25}


def canonical_rfc8785(n: int, folder: str) -> None:
    """The exact library everything is checked against."""
    import rfc8785

    value = record()
    with Stopwatch() as watch:
        for _ in range(n):
            rfc8785.dumps(value)
    watch.report(n, bytes=len(rfc8785.dumps(value)))


def canonical_msgspec(n: int, folder: str) -> None:
    """Sorted msgspec: fast and not exact (numbers, key order beyond the BMP)."""
    import msgspec

    value = record()
    encode = msgspec.json.Encoder(order="deterministic").encode
    with Stopwatch() as watch:
        for _ in range(n):
            encode(value)
    watch.report(n, bytes=len(encode(value)))


def canonical_json(n: int, folder: str) -> None:
    """Sorted standard json: not exact either."""
    value = record()
    with Stopwatch() as watch:
        for _ in range(n):
            json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    watch.report(n)


CASES: dict[str, Callable[[int, str], None]] = {
    case.__name__: case
    for case in (sqlite, append, sha256, write, start, canonical_rfc8785, canonical_msgspec, canonical_json)
}

if __name__ == "__main__":
    CASES[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
