"""How fast could a run of one step be at all? The same information, in other layouts, beside one raw commit.

python bench/floors/one_step.py [RUNS] [FOLDER]

One run of KFM is recorded, statement by statement. Then, in turns and on the same disk:

raw           one 300-byte row, one commit: the yardstick
today         the statements of KFM as they were recorded, and nothing of the walk: what format 7 itself costs
two syncs     the same bytes as two rows, one before the step and one after it, each with a sync; a row that says how
              things stand now, and two rows of an index (the run, the work)
one sync      the same in one transaction: intent and outcome share it
walk          KFM over a state in memory: the walk without any database
KFM           all of it, as installed
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import kfm_cases  # noqa: E402
from probe import payload  # noqa: E402

from kfm.app.runs.run_control import run_trigger  # noqa: E402
from kfm.app.runs.trigger_request import new_trigger  # noqa: E402

Statement = tuple[str, Any]
Run = list[Statement]
ROUNDS = 10


@contextmanager
def session(folder: str, state: str = "") -> Iterator[Any]:
    os.makedirs(folder)
    os.environ["BENCH_STEPS"] = "1"
    extra = f"state: {state}\n" if state else ""
    with kfm_cases.session(kfm_cases.installation(folder, kfm_cases.dataset("data", "Wide"), extra)) as home:
        yield home


def trigger(home: Any, n: int) -> Any:
    return new_trigger(home, "data", window=f"P{n + 1}D")


def recorded(folder: str, count: int) -> list[Run]:
    """The statements of so many runs, with what was bound to them."""
    runs: list[Run] = []
    with session(folder) as home:

        def trace(_cursor: object, sql: str, values: Any) -> bool:
            runs[-1].append((sql, values))
            return True

        run_trigger(home, trigger(home, 5000))
        home.tables._db.exec_trace = trace
        for n in range(count):
            runs.append([])
            run_trigger(home, trigger(home, n))
        home.tables._db.exec_trace = None
    return runs


def connection(path: str) -> Any:
    import apsw

    db = apsw.Connection(path, statementcachesize=200)
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=full")
    db.execute("pragma wal_autocheckpoint=2000")
    db.execute("pragma cache_size=-32768")
    return db


class Raw:
    def __init__(self, folder: str, runs: list[Run]) -> None:
        self.db = connection(os.path.join(folder, "raw.db"))
        self.db.execute("create table entry(n integer primary key, body blob not null)")
        self.rows = [(n, payload(n)) for n in range(len(runs))]

    def one(self, n: int) -> None:
        self.db.execute("insert into entry values (?, ?)", self.rows[n])


class Today:
    """Into an empty state of the same format."""

    def __init__(self, folder: str, runs: list[Run]) -> None:
        from kfm.store.sqlite import SqliteTables

        SqliteTables(os.path.join(folder, "today.db")).close()
        self.db = connection(os.path.join(folder, "today.db"))
        self.runs = runs

    def one(self, n: int) -> None:
        execute = self.db.execute
        for sql, values in self.runs[n]:
            execute(sql, values)


def packed(run: Run) -> tuple[str, bytes, bytes]:
    """All that a run wrote, as one text before its step and one after it; and its name."""
    parts: list[dict[tuple[str, str], bytes]] = [{}, {}]
    name, commits = "", 0
    for sql, values in run:
        if sql == "COMMIT":
            commits += 1
        elif sql.startswith("INSERT INTO "):
            table = sql.split()[2]
            part = parts[0 if commits < 3 else 1]  # of the reading, the claim, and the intent
            part[table, values[0]] = values[1]
            name = values[0] if table == "receipts" else name
    before, after = (b"".join(b"%s/%s:%s\n" % (t.encode(), k.encode(), v) for (t, k), v in p.items()) for p in parts)
    return name, before, after


class Packed:
    def __init__(self, folder: str, runs: list[Run], syncs: int) -> None:
        self.db = connection(os.path.join(folder, f"packed{syncs}.db"))
        self.db.execute("create table run(n integer primary key, value blob not null, sum integer not null)")
        self.db.execute("create table now(key text primary key, value blob not null) without rowid")
        self.db.execute("create table known(key text primary key, n integer not null) without rowid")
        self.db.execute("insert into now values('now', x'00')")
        self.syncs = syncs
        self.runs = [packed(run) for run in runs]

    def one(self, n: int) -> None:
        from zlib import crc32

        execute, (name, before, after) = self.db.execute, self.runs[n]
        stands = payload(n)
        execute("begin immediate")
        execute("insert into run values(?,?,?)", (2 * n, before, crc32(before)))
        execute("insert into known values(?,?)", (name, n))
        if self.syncs == 2:
            execute("update now set value=? where key='now'", (stands,))
            execute("commit")
            execute("begin immediate")
        execute("insert into run values(?,?,?)", (2 * n + 1, after, crc32(after)))
        execute("insert into known values(?,?)", (name[::-1], n))
        execute("update now set value=? where key='now'", (stands,))
        execute("commit")


class Kfm:
    def __init__(self, home: Any, count: int) -> None:
        self.home = home
        self.triggers = [trigger(home, n) for n in range(count)]
        run_trigger(home, trigger(home, 5000))

    def one(self, n: int) -> None:
        self.home.run(self.triggers[n])


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def logged_kib(db: Any, path: str, work: Callable[[int], None], start: int, end: int) -> float:
    """By how much the log grew, for each run."""
    db.execute("pragma wal_autocheckpoint=0")
    db.execute("pragma wal_checkpoint(truncate)")
    for n in range(start, end):
        work(n)
    return os.path.getsize(path + "-wal") / 1024 / (end - start)


def main(count: int, parent: str) -> None:
    folder = tempfile.mkdtemp(dir=parent)
    per, counted = count // ROUNDS, 40
    try:
        runs = recorded(os.path.join(folder, "recorded"), count + counted)
        with session(os.path.join(folder, "m"), "memory") as memory, session(os.path.join(folder, "k")) as home:
            who: dict[str, Any] = {
                "raw": Raw(folder, runs),
                "today": Today(folder, runs),
                "two syncs": Packed(folder, runs, 2),
                "one sync": Packed(folder, runs, 1),
                "walk": Kfm(memory, count),
                "KFM": Kfm(home, count),
            }
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in who}
            for i in range(ROUNDS):
                for name, each in who.items():
                    begun, used = time.perf_counter(), cpu()
                    for n in range(i * per, (i + 1) * per):
                        each.one(n)
                    found[name].append(((time.perf_counter() - begun) / per * 1e6, (cpu() - used) / per * 1e6))
            print(f"{'':12}{'µs a run':>10}{'CPU µs':>10}{'of raw':>8}{'log KiB':>8}")
            for name, each in who.items():
                wall, used = (statistics.median(sample[i] for sample in found[name]) for i in (0, 1))
                ratio = statistics.median(raw[0] / own[0] for raw, own in zip(found["raw"], found[name], strict=True))
                logged = ""
                if hasattr(each, "db"):
                    logged = f"{logged_kib(each.db, each.db.filename, each.one, count, count + counted):8.1f}"
                print(f"{name:12}{wall:10.0f}{used:10.0f}{ratio:8.3f}{logged}")
            sizes = [(len(before), len(after)) for _, before, after in map(packed, runs)]
            print(
                "bytes of rows before the step and after it:",
                *(round(statistics.mean(s)) for s in zip(*sizes, strict=True)),
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400, sys.argv[2] if len(sys.argv) > 2 else ".")
