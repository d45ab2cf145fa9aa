"""How fast could a chain, a wide plan or a skipped run be at all? python bench/floors/steps.py [FOLDER]

Each in turns on the same disk, beside one raw commit of 300 bytes:

raw       one row, one commit: the yardstick
least     a program of some twenty lines that writes what must be written, and does nothing else: of a step its line of
          the plan, its output with its digest, and a journal chained by digests; of a skipped run a receipt, a ledger
          entry chained to the one before and telemetry. No leases, no limits, no checks, no resuming, no policy.
KFM       all of it, as installed

For a step or a run: the median of its time and of its processor time, and its rate by that of a raw commit.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from zlib import crc32

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import apsw  # noqa: E402
import kfm_cases  # noqa: E402
import msgspec  # noqa: E402
from probe import payload  # noqa: E402

from kfm.app.runs.run_control import run_trigger  # noqa: E402
from kfm.app.runs.trigger_request import new_trigger  # noqa: E402
from kfm.app.session.datasets import dataset_updater  # noqa: E402

ROUNDS = 7
BATCH = 1000  # steps of a wide plan that one commit is for
RAW, CHAIN, WIDE, SKIP = 500, 500, 10_000, 1000
ENCODE = msgspec.json.Encoder(order="deterministic").encode


def connection(path: str, *, durable: bool = True) -> Any:
    db = apsw.Connection(path, statementcachesize=200)
    db.execute("pragma page_size=1024")
    db.execute("pragma journal_mode=wal")
    db.execute(f"pragma synchronous={'full' if durable else 'normal'}")
    db.execute("pragma wal_autocheckpoint=8000")
    for table in ("plan", "object", "journal", "receipt", "ledger", "telemetry", "known"):
        tail = (
            "" if table == "object" else " without rowid"
        )  # as in the state: large rows in the order in which they come
        db.execute(f"create table {table}(key text primary key, value blob not null, sum integer not null){tail}")
    return db


def rows(db: Any, table: str, made: Iterator[tuple[str, bytes]]) -> None:
    db.executemany(f"insert or ignore into {table} values(?,?,?)", ((key, body, crc32(body)) for key, body in made))


def raw(folder: str, n: int) -> None:
    db = connection(os.path.join(folder, "raw.db"))
    for i in range(n):
        db.execute("insert into object values(?,?,0)", (f"{i:08d}", payload(i)))


def planned(n: int) -> list[dict[str, Any]]:
    return [{"id": f"{i:07d}", "key": ["row", f"{i:07d}"], "params": {"i": i}} for i in range(n)]


def outcome(step: dict[str, Any]) -> tuple[str, bytes, dict[str, Any]]:
    body = payload(step["params"]["i"])
    name = "sha256:" + sha256(body).hexdigest()
    return name, body, {"digest": name, "id": step["id"], "key": step["key"], "media": "text/plain", "size": len(body)}


def least_chain(folder: str, n: int) -> None:
    db = connection(os.path.join(folder, "least.db"))
    steps, before = planned(n), ""
    rows(db, "plan", (("p", b"\n".join(map(ENCODE, steps))) for _ in range(1)))
    for i, step in enumerate(steps):  # what it made, and that the next one begins, in one commit
        name, body, done = outcome(step)
        segment = ENCODE({"done": [done], "intent": [i + 1], "n": i, "prev": before})
        before = sha256(segment).hexdigest()
        db.execute("begin immediate")
        rows(db, "object", iter([(name, body)]))
        rows(db, "journal", iter([(f"{i:08d}", segment)]))
        db.execute("commit")


def least_wide(folder: str, n: int) -> None:
    db = connection(os.path.join(folder, "least.db"))
    steps, before, entries = planned(n), "", []
    lines = list(map(ENCODE, steps))
    rows(db, "plan", ((f"{at:08d}", b"\n".join(lines[at : at + BATCH])) for at in range(0, n, BATCH)))
    for at in range(0, n, BATCH):
        made = [outcome(step) for step in steps[at : at + BATCH]]
        segment = ENCODE({"done": [done for *_, done in made], "n": at, "prev": before})
        before = sha256(segment).hexdigest()
        entries += [ENCODE(done) for *_, done in made]
        with db:
            rows(db, "object", ((name, body) for name, body, _ in made))
            rows(db, "journal", iter([(f"{at:08d}", segment)]))
    with db:
        listing = b"\n".join(entries)
        rows(db, "object", iter([(sha256(listing).hexdigest(), listing)]))


def least_skip(folder: str, n: int) -> None:
    db = connection(os.path.join(folder, "least.db"), durable=False)
    with kfm_house(folder, "sample", "Wide", 1) as home:
        run_trigger(home, new_trigger(home, "data"))
        receipt = run_trigger(home, new_trigger(home, "data"))
        said = [msgspec.to_builtins(receipt)]
        said += [
            msgspec.json.decode(bytes(next(home.tables.scan(t, reverse=True))[1])) for t in ("ledger", "telemetry")
        ]
    before = ""
    for i in range(n):
        if db.execute("select value from known where key='work'").fetchone():
            raise AssertionError
        said[0]["run_id"] = said[1]["run_id"] = said[2]["run_id"] = f"{i:036d}"
        body = ENCODE(said[0])
        said[1] |= {"index": i, "prev": before, "receipt_digest": sha256(body).hexdigest()}
        link = ENCODE(said[1])
        before = sha256(link).hexdigest()
        db.execute("begin immediate")
        rows(db, "receipt", iter([(f"{i:036d}", body)]))
        rows(db, "ledger", iter([(f"{i:012d}", link)]))
        rows(db, "telemetry", iter([(f"{i:036d}", ENCODE(said[2]))]))
        db.execute("commit")


@contextmanager
def kfm_house(folder: str, name: str, kind: str, n: int) -> Iterator[Any]:
    place = os.path.join(folder, name)
    os.makedirs(place)
    path = kfm_cases.installation(place, kfm_cases.dataset("data", kind))
    with kfm_cases.session(path) as home:
        dataset_updater(home, "data").steps = n
        yield home


def walked(kind: str) -> Callable[[str, int], None]:
    def work(folder: str, n: int) -> None:
        with kfm_house(folder, "kfm", kind, n) as home:
            trigger = new_trigger(home, "data")
            clock.restart()
            assert run_trigger(home, trigger).steps == n

    return work


def skipped(folder: str, n: int) -> None:
    with kfm_house(folder, "kfm", "Wide", 1) as home:
        trigger = new_trigger(home, "data")
        run_trigger(home, trigger)
        clock.restart()
        for _ in range(n):
            assert run_trigger(home, trigger).outcome == "noop"
        home.state.sync()


class Clock:
    """What is made ready beforehand does not count."""

    def restart(self) -> None:
        self.begun, self.used = time.perf_counter(), time.process_time()

    def told(self) -> tuple[float, float]:
        return time.perf_counter() - self.begun, time.process_time() - self.used


clock = Clock()
WORKS: dict[str, dict[str, tuple[Callable[[str, int], None], int]]] = {
    "chain": {"raw": (raw, RAW), "least": (least_chain, CHAIN), "KFM": (walked("Chain"), CHAIN)},
    "wide plan": {"raw": (raw, RAW), "least": (least_wide, WIDE), "KFM": (walked("Wide"), WIDE)},
    "skipped run": {"raw": (raw, RAW), "least": (least_skip, SKIP), "KFM": (skipped, SKIP)},
}


def main(parent: str) -> None:
    for title, who in WORKS.items():
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in who}
        for _ in range(ROUNDS):
            for name, (work, n) in who.items():
                folder = tempfile.mkdtemp(dir=parent)
                try:
                    clock.restart()
                    work(folder, n)
                    wall, used = clock.told()
                    found[name].append((wall / n * 1e6, used / n * 1e6))
                finally:
                    shutil.rmtree(folder)
        print(f"{title:14}{'µs':>10}{'CPU µs':>10}{'of raw':>8}")
        for name, samples in found.items():
            wall, used = (statistics.median(sample[i] for sample in samples) for i in (0, 1))
            ratio = statistics.median(r[0] / own[0] for r, own in zip(found["raw"], samples, strict=True))
            print(f"  {name:12}{wall:10.1f}{used:10.1f}{ratio:8.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
