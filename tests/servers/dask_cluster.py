"""A Dask scheduler and its workers on this machine, each a process of its own, for one installation."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engine.installations import environment

LONGEST_S = 60.0


class Cluster:
    """The processes. A worker does its steps in a process without a guard, so that a kill ends it for good."""

    def __init__(self, config: Path, logs: Path, env: Mapping[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._logs = logs
        self._env = {**environment(), **env, "KFM_CONFIG": str(config)}
        self.scheduler = self._started("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        self.workers: list[subprocess.Popen[bytes]] = []

    def begin_worker(self) -> subprocess.Popen[bytes]:
        words = ("dask_worker", self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny")
        self.workers.append(self._started(*words, "--local-directory", str(self._logs)))
        return self.workers[-1]

    def _started(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", *words, "--no-dashboard"]
        with (self._logs / f"{program}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self._logs, env=self._env, stdout=log, stderr=log)

    def await_workers(self, count: int) -> None:
        """Wait until the scheduler has registered so many workers."""
        since = time.monotonic()
        while (self._logs / "dask_scheduler.log").read_text().count("Register worker") < count:
            assert time.monotonic() - since < LONGEST_S, (self._logs / "dask_worker.log").read_text()
            time.sleep(0.05)

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def running(config: Path, logs: Path, *, workers: int = 2, env: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    logs.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(config, logs, env or {})
    try:
        for _ in range(workers):
            cluster.begin_worker()
        cluster.await_workers(workers)
        yield cluster
    finally:
        cluster.end()
