"""DBOS over SQLite: python peer_dbos.py CASE N FOLDER [default|wal]; `postgres` is the server of BENCH_POSTGRES

A step's output is durable when the step returns (one commit); nothing is journaled before it.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import Any

from probe import Stopwatch, kill_and_resume, mark, payload


def launch(folder: str, mode: str) -> Any:
    """Start DBOS on its own file; in wal mode the file is switched before DBOS opens it."""
    from dbos import DBOS

    path = os.path.join(folder, "dbos.sqlite")
    if mode == "wal":
        db = sqlite3.connect(path)
        db.execute("pragma journal_mode=wal")
        db.close()
    address = os.environ["BENCH_POSTGRES"] if mode == "postgres" else f"sqlite:///{path}"
    DBOS(config={"name": "bench", "system_database_url": address, "run_admin_server": False,
                 "log_level": "ERROR", "executor_id": "bench"})  # fmt: skip
    return DBOS


def define(DBOS: Any) -> dict[str, Any]:
    @DBOS.step()  # type: ignore[untyped-decorator]
    def step(i: int, before: str) -> str:
        return payload(i).decode()

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def chain(n: int) -> int:
        before = ""
        for i in range(n):
            before = step(i, before)
        return n

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def slow_chain(n: int, marks: str) -> int:
        """Writes a mark per performed step, so that the harness sees when new work begins."""
        before = ""
        for i in range(n):
            before = marked(i, before, marks)
        return n

    @DBOS.step()  # type: ignore[untyped-decorator]
    def marked(i: int, before: str, marks: str) -> str:
        mark(marks, i)
        return payload(i).decode()

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def nothing(i: int) -> int:
        return i

    return {"chain": chain, "slow_chain": slow_chain, "nothing": nothing}


def main() -> None:
    case, n, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    mode = sys.argv[4] if len(sys.argv) > 4 else "default"
    if case == "resume":
        victim = [sys.executable, __file__, "victim", str(n), folder, mode]
        kill_and_resume(victim, victim, os.path.join(folder, "marks"), n // 2, n)
        return
    DBOS = launch(folder, mode)
    work = define(DBOS)
    DBOS.launch()
    from dbos import SetWorkflowID

    if case in ("chain", "wide"):  # wide: gathered steps (4, 32 at once) were slower than one after another
        with Stopwatch() as watch:
            work["chain"](n)
    elif case == "one":
        with Stopwatch() as watch:
            for _ in range(n):
                work["chain"](1)
    elif case == "jobs":  # a queue of workflows without steps, as wide and as often looked at as it may be
        queue = DBOS.register_queue("jobs", polling_interval_sec=0.01)
        queue.enqueue(work["nothing"], -1).get_result()
        with Stopwatch() as watch:
            for handle in [queue.enqueue(work["nothing"], i) for i in range(n)]:
                handle.get_result()
    elif case == "skip":
        with SetWorkflowID("finished"):
            work["chain"](100)
        with Stopwatch() as watch:
            for _ in range(n):
                with SetWorkflowID("finished"):
                    work["chain"](100)
    elif case == "victim":
        with SetWorkflowID("victim"):
            work["slow_chain"](n, os.path.join(folder, "marks"))
        os._exit(0)
    else:
        raise SystemExit(f"unknown case {case}")
    watch.report(n)
    os._exit(0)  # DBOS keeps threads that poll; nothing of ours is pending


if __name__ == "__main__":
    main()
