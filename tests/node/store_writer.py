"""Writes to a state and prints what was acknowledged: the twin of node/tests/store_writer.mjs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from kfm.clock import SystemClock
from kfm.errors import Busy, KfmError
from kfm.store.jsonl import JsonlTables
from kfm.store.process_identity import this_process
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState

T = TypeVar("T")


class Left(Exception):
    pass


def patiently(what: Callable[[], T]) -> T:
    while True:
        try:
            return what()
        except Busy:
            time.sleep(0.002)


def work(kind: str, place: str, name: str, rounds: int, durability: str) -> None:
    tables = patiently(lambda: SqliteTables(place) if kind == "sqlite" else JsonlTables(place))
    state = StoredState(tables, SystemClock().now_ms)
    me = this_process()
    print("open", flush=True)
    for i in range(rounds):
        if durability == "mixed":
            time.sleep(0.001)  # let the other one in
        lease = patiently(lambda: state.leases.acquire("counter", me, 600_000))
        try:
            with state.transaction(lease, durable=durability == "durable" or i % 2 == 0) as tx:
                n = int(tables.get("runs", "n") or 0) + 1
                tables.put("runs", "n", b"%d" % n)
                tables.put("refs", f"{name}/{i:06d}", b"%d %d" % (n, lease.token))
                tx.leases.release(lease)
                if durability == "mixed" and i % 5 == 0:
                    raise Left
        except Left:
            patiently(lambda held=lease: state.leases.release(held))  # type: ignore[misc]
            continue
        print(n, lease.token, flush=True)
    tables.close()
    print("closed", flush=True)


if __name__ == "__main__":
    try:
        work(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
    except KfmError as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(problem.exit_code)
