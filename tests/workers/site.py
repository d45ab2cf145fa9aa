"""An installation with jobs for worker processes, and the processes themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kfm import config
from kfm.app.jobs.job_requests import enqueue, new_envelope
from kfm.app.session.session import Session, open_session
from kfm.model.records import EndedTrigger

PATIENCE_S = 120.0  # a slow machine is no failure
CONFIG = """\
state: sqlite:.kfm/state.db
publish: noop
accept_weak_storage: true
workers: {attempts: 3, backoff_s: 0.1, sweep_s: 0.3}
datasets:
"""
ROWS = """\
  NAME:
    version: "1.0.0"
    sensitivity: public
    sources: {rows: {uri: rows.csv, format: csv}}
    outputs: {rows: {from: rows}}
"""
SLOW = """\
  slow:
    updater: slow.py:Slow
    sensitivity: public
    sources: {rows: {uri: rows.csv, format: csv}}
"""
CODE = '''
import os, time
from kfm import Output, Plan, Step, Updater

HERE = os.path.dirname(os.path.abspath(__file__))


class Slow(Updater):
    """Says that it has begun, and ends when it may."""

    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        with open(os.path.join(HERE, "begun"), "a") as file:
            file.write(f"{os.getpid()}\\n")
        while not os.path.exists(os.path.join(HERE, "may-end")):
            time.sleep(0.02)
        return Output.csv(read.csv(0))
'''


def lay_out(folder: Path, *names: str, queue: str = "", more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    datasets = "".join(SLOW if name == "slow" else ROWS.replace("NAME", name) for name in names)
    head = f"queue: {queue}\n" if queue else ""
    (folder / "kfm.yml").write_text(head + more + CONFIG + datasets)
    (folder / "slow.py").write_text(CODE)
    (folder / "rows.csv").write_text("id,n\na,1\n")
    return folder


def opened(folder: Path) -> Session:
    return open_session(config.load(str(folder / "kfm.yml"), dict(os.environ)))


def add(session: Session, dataset: str, **parameters: object) -> str:
    """Store a job; return the id of its trigger."""
    envelope = new_envelope(session, "ingest.pull_source", dataset, parameters)
    return enqueue(session, envelope, reason="a test").job.trigger.trigger_id


def begun(folder: Path) -> list[int]:
    """The processes that have begun the slow step, in order."""
    file = folder / "begun"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def until(what: Callable[[], object]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def ends(session: Session, ids: list[str]) -> list[EndedTrigger]:
    """Wait until these triggers have ended, and return how."""
    until(lambda: all(session.state.inbox.ended(each) for each in ids))
    return [found for each in ids if (found := session.state.inbox.ended(each)) is not None]


class Worker:
    """One process of `python -m workers run`."""

    def __init__(self, folder: Path, *flags: str, **env: str) -> None:
        self.out, self.err = folder / f"out-{time.monotonic_ns()}", folder / f"err-{time.monotonic_ns()}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KFM_")}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers", "run", *flags], cwd=folder, env={**inherited, **env}, stdout=out,
                stderr=err,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.err.read_text()

    @property
    def lines(self) -> list[str]:
        return self.out.read_text().splitlines()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def children(self) -> list[int]:
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def ready(self) -> None:
        until(lambda: "ready" in self.said or "processes" in self.said or self.process.poll() is not None)
        assert self.process.poll() is None, self.said

    def stop(self) -> int:
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


@contextmanager
def worker(folder: Path, *flags: str, **env: str) -> Iterator[Worker]:
    found = Worker(folder, *flags, **env)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            for pid in found.children():
                os.kill(pid, signal.SIGKILL)
            found.process.kill()
        found.process.wait()
