"""An installation whose dataset is built by partitions, each from its own file, and other datasets that follow it."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfm import config
from kfm.app.session.session import Session, open_session
from kfm.cli.main import main
from kfm.model.manifests import entries

CODE = """\
from kfm import Output, Plan, Step, Updater
from kfm.model.records import Column, DataContract

class Rain(Updater):
    id = "rain"
    version = "1.0.0"
    lease_by = "partition"
    def inputs(self, trigger, sources):
        contract = DataContract(format="csv", columns=(Column(name="n", type="integer"),))
        part = trigger.partition
        return [sources.pin(f"./{part}.csv", partition=(part,), contract=contract)]
    def plan(self, inputs):
        return Plan([Step(id=each.partition[0], key=(each.partition[0], "rows")) for each in inputs])
    def perform(self, step, read):
        return Output(read.bytes(0), "text/csv")

class Sum(Updater):
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.ref("processed/rain")]
    def plan(self, inputs):
        return Plan([Step(id="one", key=("one",), params={"of": inputs[0].content_hash})])
    def perform(self, step, read):
        return Output(step.params["of"].encode(), "text/plain")

class First(Sum):
    id = "first"

class Second(Sum):
    id = "second"
"""
DAYS = [f"2024-01-{day:02d}" for day in range(1, 32)]


class Said(NamedTuple):
    code: int
    data: Any
    words: str


class Site:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, days: int = 5, **said: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        patch.chdir(folder)
        patch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
        patch.setenv("KFM_ACTOR", "tester")
        self.days = DAYS[:days]
        (folder / "rain.py").write_text(CODE)
        for number, day in enumerate(self.days):
            self.rows(day, number, number + 1)
        after = "    sensitivity: public\n    title: T\n    license: CC0-1.0\n"
        (folder / "kfm.yml").write_text(
            f"datasets:\n  rain:\n    updater: rain.py:Rain\n{after}"
            f"  first:\n    updater: rain.py:First\n    schedule: {{after: [rain]}}\n{after}"
            f"  second:\n    updater: rain.py:Second\n    schedule: {{after: [rain]}}\n{after}"
        )
        self.declare(f"{{kind: day, from: {self.days[0]}, to: {self.days[-1]}}}", **said)

    def rows(self, day: str, *values: object) -> None:
        (self.folder / f"{day}.csv").write_text("\n".join(["n", *map(str, values), ""]))

    def declare(self, partitions: str, **said: str) -> None:
        place = self.folder / "pipelines" / "backfills"
        place.mkdir(parents=True, exist_ok=True)
        more = "".join(f"    {name}: {value}\n" for name, value in said.items())
        (place / "rain.yml").write_text(
            f"version: 1\nbackfills:\n  january:\n    dataset: rain\n    partitions: {partitions}\n{more}"
        )

    def kfm(self, *words: str, code: int | None = 0) -> Said:
        out, told = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(told):
            ended = main([*words, "--json"])
        said = Said(ended, json.loads(out.getvalue()) if out.getvalue() else None, told.getvalue())
        assert code is None or ended == code, said
        return said

    def backfill(self, *words: str, code: int | None = 0) -> Any:
        return self.kfm("backfill", words[0], "january", *words[1:], code=code).data

    def open(self, mode: Any = "read") -> Session:
        return open_session(config.load(str(self.folder / "kfm.yml"), os.environ), mode=mode)

    def content(self) -> dict[str, str]:
        with self.open() as session:
            version = session.state.refs.at("processed/rain")
            found = entries(session.objects, version) if version else ()
            return {each.key[0]: session.objects.read(each.digest).decode() for each in found}

    def version(self) -> str:
        with self.open() as session:
            return session.state.refs.at("processed/rain")

    def runs(self) -> list[tuple[str, str]]:
        """Partition and outcome of every run of rain, in the order of the ledger."""
        with self.open() as session:
            found = [session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries()]
            return [(each.partition, each.outcome) for each in found if each is not None and each.updater_id == "rain"]

    def asked(self) -> list[tuple[str, str]]:
        """Dataset and reason of what waits in the inbox."""
        with self.open() as session:
            return [(each.dataset, each.reason) for each in session.state.inbox.waiting()]

    def kfm_up(self) -> None:
        told = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(told):
            code = main(["up", "--once"])
        assert code == 0, told.getvalue()

    def made(self, dataset: str) -> int:
        """How many versions of it there were."""
        with self.open() as session:
            return sum(1 for _ in session.state.refs.history(f"processed/{dataset}"))

    def released(self, version: str) -> None:
        """Another version of the code, as a process that begins later finds it."""
        path = self.folder / "rain.py"
        path.write_text(
            path.read_text().replace('version = "1.0.0"\n    lease_by', f'version = "{version}"\n    lease_by')
        )
        for name in [name for name in sys.modules if name.startswith("kfm_updater_")]:
            del sys.modules[name]
