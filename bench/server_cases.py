"""KFM with its state in Postgres, and with its steps on a Dask cluster: python server_cases.py CASE N FOLDER

BENCH_POSTGRES_PORT, BENCH_POSTGRES_PASSWORD and BENCH_REDIS say where the servers are. Every case has its own schema.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from kfm_cases import HERE, change, dataset, session
from probe import Stopwatch

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger

DECLARED = """\
  {name}:
    version: "1.0.0"
    sources: {{body: {{uri: body.csv, format: csv, contract: {{columns: [{{name: a}}]}}}}}}
    outputs: {{all: {{from: body}}}}
"""


def installation(folder: str, datasets: str, extra: str = "") -> str:
    """A kfm.yml whose state lies in Postgres, in a schema of its own; returns its path."""
    os.environ["KFM_SECRET_POSTGRES"] = os.environ["BENCH_POSTGRES_PASSWORD"]
    shutil.copy(os.path.join(HERE, "kfm_updaters.py"), os.path.join(folder, "updaters.py"))
    path = os.path.join(folder, "kfm.yml")
    state = f"state: postgresql://kfm@127.0.0.1:{os.environ['BENCH_POSTGRES_PORT']}/postgres\n"
    secret = f"postgres: {{password: 'env:KFM_SECRET_POSTGRES', schema: b{uuid4().hex[:12]}}}\n"
    with open(path, "w") as file:
        file.write(f"kfm: 1\naccept_weak_storage: true\n{state}{secret}{extra}datasets:\n{datasets}")
    return path


# -- round trips


def counted(n: int, home: Any, one: Callable[[int], Any]) -> None:
    """Time n runs, and count how often each waited for the server."""
    one(-1)
    before = home.tables.round_trips
    with Stopwatch() as watch:
        for number in range(n):
            receipt = one(number)
            assert receipt.status in ("SUCCESS", "SKIPPED"), receipt
    watch.report(n, trips=(home.tables.round_trips - before) / n)


def trips_one(n: int, folder: str) -> None:
    """Runs of one step, each other work than the one before."""
    os.environ["BENCH_STEPS"] = "1"
    with session(installation(folder, dataset("data", "Wide"))) as home:
        counted(n, home, lambda i: run_trigger(home, new_trigger(home, "data", window=f"P{i + 2}D")))


def trips_declared(n: int, folder: str) -> None:
    """Runs of one declared step over a source that is another one each time."""
    with session(installation(folder, DECLARED.format(name="data"))) as home:

        def one(i: int) -> Any:
            change(folder, f"a,b\n{i},{i}\n", "body.csv")
            return run_trigger(home, new_trigger(home, "data"))

        counted(n, home, one)


def trips_noop(n: int, folder: str) -> None:
    """Runs that find nothing to do."""
    change(folder, "a,b\n1,1\n", "body.csv")
    with session(installation(folder, DECLARED.format(name="data"))) as home:
        counted(n, home, lambda _i: run_trigger(home, new_trigger(home, "data")))


def trips_chain(n: int, folder: str) -> None:
    """One run of n steps, each needing the one before: round trips of a step."""
    os.environ["BENCH_STEPS"] = str(n)
    with session(installation(folder, dataset("data", "Chain"))) as home:
        trigger = new_trigger(home, "data")
        before = home.tables.round_trips
        with Stopwatch() as watch:
            receipt = run_trigger(home, trigger)
        assert receipt.status == "SUCCESS" and receipt.steps == n, receipt
        watch.report(n, trips=(home.tables.round_trips - before) / n)


# -- steps on a cluster


def same(body: bytes, run: bytes) -> bytes:
    """What a step costs without KFM: bytes in, bytes out."""
    return body[-300:] + run[:0]


class Workers:
    """A scheduler and two worker processes for this folder."""

    def __init__(self, folder: str) -> None:
        from tests.servers.dask_cluster import running

        self._running = running
        self._folder = folder

    def __enter__(self) -> str:
        from pathlib import Path

        places = os.pathsep.join((HERE, os.path.dirname(HERE)))
        env = {"PYTHONPATH": places, "BENCH_STEPS": os.environ.get("BENCH_STEPS", "1")}
        self._cluster = self._running(Path(self._folder, "kfm.yml"), Path(self._folder, "logs"), env=env)
        return self._cluster.__enter__().address

    def __exit__(self, *_problem: object) -> None:
        self._cluster.__exit__(None, None, None)


def dask_map(n: int, folder: str) -> None:
    """n calls through `client.map`, with answers of 300 bytes, gathered."""
    import server_cases
    from distributed import Client

    with Workers(folder) as address, Client(address) as client:
        bodies = [b"%0400d" % i for i in range(n)]
        client.gather(client.map(server_cases.same, bodies[:50], run=b"r" * 500, pure=False))
        with Stopwatch() as watch:
            made = client.gather(client.map(server_cases.same, bodies, run=b"r" * 500, pure=False))
        assert len(made) == n and len(made[0]) == 300
        watch.report(n)


def dask_steps(n: int, folder: str) -> None:
    """One run of n ready steps with outputs of 300 bytes, from the trigger to the receipt. The workers have loaded the
    code before."""
    from kfm_cases import installation as local

    os.environ["BENCH_STEPS"] = str(n)
    path = local(folder, dataset("data", "Wide"))
    with Workers(folder) as address:
        os.environ["KFM_EXECUTE__CLUSTER"] = address
        with _opened(path) as home:
            run_trigger(home, new_trigger(home, "data"))
            trigger = new_trigger(home, "data", window="P5D")
            with Stopwatch() as watch:
                receipt = run_trigger(home, trigger)
            assert receipt.status == "SUCCESS" and receipt.steps == n, receipt
            watch.report(n)


def _opened(path: str) -> Any:
    from kfm.app.session.session import open_session
    from kfm.config import load

    return open_session(load(path, os.environ))


# -- jobs

WARM = 8  # jobs before the clock runs


def jobs(n: int, folder: str) -> None:
    """n jobs that find nothing to do, each of a dataset of its own: equal work would be one run. The clock runs from
    the first request to the last receipt; the workers wait before."""
    change(folder, "a,b\n1,1\n", "body.csv")
    _jobs(n, folder, lambda name: DECLARED.format(name=name), done=True)


def slow_jobs(n: int, folder: str) -> None:
    """n jobs, each of which waits 50 ms in its one step."""
    _jobs(n, folder, lambda name: dataset(name, "Waiting"), done=False)


def _jobs(n: int, folder: str, declared: Callable[[str], str], *, done: bool) -> None:
    from kfm.app.jobs.job_requests import enqueue, new_envelope

    processes = sys.argv[4]
    names = [f"d{i:04}" for i in range(n)]
    warm = [f"w{i:04}" for i in range(WARM)]
    queue = f"queue: {os.environ['BENCH_REDIS']}\nredis: {{name: b{uuid4().hex[:12]}}}\n"
    path = installation(folder, "".join(map(declared, names + warm)), queue)

    def ask(home: Any, name: str) -> None:
        made = enqueue(home, new_envelope(home, "ingest.pull_source", name))
        home.wake_up.ring([made.job.trigger])

    with session(path) as home:
        for name in names + warm if done else []:
            assert run_trigger(home, new_trigger(home, name)).status == "SUCCESS"
        settle_session(home)
        with open(os.path.join(folder, "log"), "w") as log:
            command = [sys.executable, "-m", "workers", "run", "--concurrency", processes]
            workers = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            for name in warm:
                ask(home, name)
            _await_end(home, folder)
            time.sleep(2)
            before = len(list(home.state.ledger.entries()))
            with Stopwatch() as watch:
                for name in names:
                    ask(home, name)
                _await_end(home, folder)
            assert len(list(home.state.ledger.entries())) == before + n
            watch.report(n)
        finally:
            workers.terminate()
            workers.wait()


def _await_end(home: Any, folder: str) -> None:
    since = time.monotonic()
    while any(True for _ in home.state.jobs.open()):
        if time.monotonic() - since > 200:
            with open(os.path.join(folder, "log")) as log:
                raise SystemExit(f"jobs did not end: {log.read()[-300:]}")
        time.sleep(0.02)


CASES: dict[str, Callable[[int, str], None]] = {
    case.__name__: case
    for case in (trips_one, trips_declared, trips_noop, trips_chain, dask_map, dask_steps, jobs, slow_jobs)
}

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(HERE))
    CASES[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
