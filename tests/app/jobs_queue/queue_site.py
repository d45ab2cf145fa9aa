"""An installation with datasets whose runs can be made to fail, and workers over it."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from kfm import config
from kfm.app.jobs.job_requests import Enqueued, enqueue, new_envelope
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.session.session import Session, open_session
from kfm.clock import Clock, FixedClock
from kfm.errors import KfmError
from tests.servers import postgres

BEGIN_MS = 1_780_000_000_000
HEAD = """\
state: STATE
publish: noop
workers: {attempts: 3, backoff_s: 10, sweep_s: 1}
datasets:
"""
DATASET = """\
  NAME:
    version: "1.0.0"
    title: Rows
    license: CC0-1.0
    sensitivity: public
    sources: {rows: {uri: NAME.csv, format: csv, contract: {columns: [{name: n, type: integer}]}}}
    outputs: {rows: {from: rows}}
"""
CODE = '''
import os, signal
from kfm import Output, Plan, Step, Updater


class Moody(Updater):
    """Does what the file `mood` next to it says."""

    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        mood = open(os.path.join(os.path.dirname(__file__), "mood")).read().strip()
        if mood == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if mood == "raise":
            raise ValueError("canary-7f")
        return Output.csv(read.csv(0))
'''
MOODY = """\
  moody:
    updater: moody.py:Moody
    sensitivity: public
    sources: {rows: {uri: moody.csv, format: csv}}
"""


def lay_out(folder: Path, *names: str, state: str = "sqlite", more: str = "", head: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    datasets = "".join(DATASET.replace("NAME", name) for name in names if name != "moody")
    moody = MOODY if "moody" in names else ""
    place = on_postgres(folder) if state == "postgres" else f"{state}:.kfm/state"
    text = (head + HEAD).replace("STATE", place) + datasets + moody + more
    (folder / "kfm.yml").write_text(text)
    (folder / "moody.py").write_text(CODE)
    for name in names:
        (folder / f"{name}.csv").write_text("n\n1\n")
    mood(folder, "well")
    return folder


def on_postgres(folder: Path) -> str:
    """The address of a schema that belongs to this folder, and the section that goes with it."""
    dsn, schema = postgres.place(folder / "postgres")
    os.environ["KFM_SECRET_STATE"] = postgres.PASSWORD
    url = f"postgresql://{dsn['user']}@{dsn['host']}:{dsn['port']}/{dsn['dbname']}"
    return f"{url}\npostgres: {{password: 'env:KFM_SECRET_STATE', schema: {schema}, wait_s: 30}}"


def mood(folder: Path, said: str) -> None:
    (folder / "mood").write_text(said)


def change(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.csv").write_text(text)


def opened(folder: Path, now_ms: int = BEGIN_MS, clock: Clock | None = None) -> Session:
    resolved = config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true", **_secrets()})
    return open_session(resolved, clock=clock or FixedClock(now_ms))


def _secrets() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("KFM_SECRET")}


class Team:
    """A worker of a session, and the problems that it told."""

    def __init__(self, session: Session, pools: Collection[str] | None = ()) -> None:
        self.problems: list[tuple[str, KfmError]] = []
        self.worker = JobWorker(session, pools=pools, tell=self._tell)

    def _tell(self, about: str, problem: KfmError) -> None:
        self.problems.append((about, problem))


def asked(session: Session, dataset: str, by: str = "user:ann", **more: object) -> Enqueued:
    """A job of this dataset, stored."""
    return enqueue(session, new_envelope(session, "ingest.pull_source", dataset, requested_by=by), **more)  # type: ignore[arg-type]


def later(session: Session, seconds: float) -> None:
    session.clock.sleep(seconds)
