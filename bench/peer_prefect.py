"""Prefect with its own server on SQLite: python peer_prefect.py CASE N FOLDER

Results are persisted as files; task states are sent to the server in the background, so a task's
end is not durable when the next one begins.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from probe import Stopwatch, payload, report


@contextmanager
def server(folder: str) -> Iterator[None]:
    """A Prefect server of our own on a free port, stopped at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(
        PREFECT_HOME=os.path.abspath(folder),
        PREFECT_API_URL=f"http://127.0.0.1:{port}/api",
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        PREFECT_SERVER_UI_ENABLED="false",
        DO_NOT_TRACK="1",
        PREFECT_LOGGING_LEVEL="CRITICAL",
        PREFECT_LOGGING_TO_API_ENABLED="false",
        PREFECT_RESULTS_PERSIST_BY_DEFAULT="true",
    )
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with open(os.path.join(folder, "server.log"), "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                raise SystemExit("the Prefect server did not start; its log is in server.log")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    case, n, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with server(folder):
        measure(case, n)


def measure(case: str, n: int) -> None:
    from prefect import flow, task
    from prefect.cache_policies import INPUTS, NO_CACHE
    from prefect.task_runners import ThreadPoolTaskRunner

    @task(cache_policy=NO_CACHE)  # type: ignore[untyped-decorator]
    def step(i: int, before: str) -> str:
        return payload(i).decode()

    @task(cache_policy=INPUTS)  # type: ignore[untyped-decorator]
    def kept(i: int) -> str:
        return payload(i).decode()

    @flow  # type: ignore[untyped-decorator]
    def chain(count: int) -> int:
        before = ""
        for i in range(count):
            before = step(i, before)
        return count

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=16))  # type: ignore[untyped-decorator]
    def wide(count: int) -> int:
        futures = [step.submit(i, "") for i in range(count)]
        return sum(len(future.result()) for future in futures)

    @flow  # type: ignore[untyped-decorator]
    def skipped(count: int) -> int:
        for _ in range(count):
            kept(0)
        return count

    work: dict[str, Any] = {"chain": chain, "wide": wide, "skip": skipped}
    (skipped if case == "skip" else chain)(1)
    with Stopwatch() as watch:
        if case == "one":
            for _ in range(n):
                chain(1)
        else:
            work[case](n)
    report(n, watch.seconds, watch.syncs)  # its server works in another process, so no processor time


if __name__ == "__main__":
    main()
