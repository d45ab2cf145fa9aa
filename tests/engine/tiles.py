"""An installation whose one dataset is built by partitions, and updaters for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

import kfm.engine.upsert as engine
from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.model.manifests import entries
from kfm.model.records import Column, DataContract, Receipt
from tests.engine.crowds import Installation, Told, attempt

PARTS = ("East", "West")


class Tiles(Updater):
    """A partition is a file of its own; every line of it is an output."""

    id = "tiles"
    version = "1.0.0"
    lease_by = "partition"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        parts = [trigger.partition] if trigger.partition else PARTS
        return [sources.pin(f"./{part}.csv", partition=(part,), complete=True) for part in parts]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        steps = [
            Step(id=f"{source.partition[0]}-{n}", key=(source.partition[0], f"{n:04d}"), params={"at": at, "n": n})
            for at, source in enumerate(inputs)
            for n in range(source.size // 100)
        ]
        return Plan(steps, complete=True)

    def perform(self, step: Step, read: Any) -> Output:
        line = read.bytes(step.params["at"])[100 * step.params["n"] :][:99]
        return Output(line, "text/plain")


class OneAtATime(Tiles):
    lease_by = "dataset"


class Astray(Tiles):
    """Makes a key that is not of its partition."""

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id="one", key=("tiles", inputs[0].partition[0]), params={"at": 0, "n": 0})])


class Counted(Tiles):
    """A row is held unless it is a number, and a fifth fewer rows hold the whole partition."""

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        contract = DataContract(format="csv", columns=(Column(name="n", type="integer", mode="discard-row"),))
        parts = [trigger.partition] if trigger.partition else PARTS
        return [sources.pin(f"./{part}.csv", partition=(part,), contract=contract) for part in parts]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=each.partition[0], key=each.partition, params={"n": n}) for n, each in enumerate(inputs)])

    def perform(self, step: Step, read: Any) -> Output:
        return Output(read.bytes(step.params["n"]), "text/csv")


class CountedLoosely(Counted):
    """However few there are."""

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        contract = DataContract(format="csv", columns=(Column(name="n", type="integer"),), shrink_limit=1.0)
        return [sources.pin(f"./{trigger.partition}.csv", partition=(trigger.partition,), contract=contract)]


class CountedTwice(Counted):
    """A partition of both files."""

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        contract = DataContract(format="csv", columns=(Column(name="n", type="integer"),))
        return [sources.pin(f"./{part}.csv", partition=(trigger.partition, part), contract=contract) for part in PARTS]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=each.partition[1], key=each.partition, params={"n": n}) for n, each in enumerate(inputs)])


class CountedWest(Counted):
    """Only one of them has a contract."""

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        contract = DataContract(format="csv", columns=(Column(name="n", type="integer", mode="discard-row"),))
        parts = [trigger.partition] if trigger.partition else PARTS
        return [
            sources.pin(f"./{part}.csv", partition=(part,), contract=contract if part == "West" else None)
            for part in parts
        ]


class Stumbling(Tiles):
    """Does not get to its last step, for a while."""

    stumbles = False
    performed: ClassVar[list[str]] = []

    def perform(self, step: Step, read: Any) -> Output:
        if self.stumbles and step.params["n"] == 2:
            raise ValueError("stumbled")
        self.performed.append(step.id)
        return super().perform(step, read)


class Site(Installation):
    """One dataset, tiles, with a file a partition."""

    def __init__(self, folder: Path, state: str = "sqlite", updater: str = "Tiles", lease_s: float = 60) -> None:
        super().__init__(folder, state, (), lease_s)
        with (folder / "kfm.yml").open("a") as file:
            file.write(
                f"  tiles:\n    updater: tests.engine.tiles:{updater}\n    title: T\n    license: CC0-1.0\n"
                "    sensitivity: public\ndeletion_budget: 0.5\n"
            )
        for part in PARTS:
            self.lines(part, 3, "first")

    def lines(self, part: str, count: int, text: str) -> None:
        """A hundred bytes each, so that plan() can count them."""
        body = "".join(f"{part} {n} {text}".ljust(99) + "\n" for n in range(count))
        new = self.folder / f"{part}.new"
        new.write_text(body)
        new.replace(self.folder / f"{part}.csv")

    def run(self, part: str, **asked: Any) -> Receipt:
        with self.open() as session:
            receipt = run_trigger(session, new_trigger(session, "tiles", partition=part, **asked))
            settle_session(session)
            return receipt

    def typed(self, part: str) -> Told:
        return attempt(partial(self.run, part))

    def content(self) -> dict[str, str]:
        with self.open("read") as session:
            version = session.state.refs.at("processed/tiles")
            found = entries(session.objects, version) if version else ()
            return {"/".join(each.key): session.objects.read(each.digest).decode().strip() for each in found}

    def version(self) -> str:
        with self.open("read") as session:
            return session.state.refs.at("processed/tiles")


def between(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> list[int]:
    """Do something once, when a version is put together and not committed; tells how often one was put together."""
    turns: list[int] = []
    assemble = engine.assemble

    def assembled(*given: Any) -> Any:
        made = assemble(*given)
        turns.append(1)
        if len(turns) == 1:
            what()
        return made

    monkeypatch.setattr(engine, "assemble", assembled)
    return turns


def rows(site: Site, part: str, *values: object) -> None:
    (site.folder / f"{part}.csv").write_text("\n".join(["n", *map(str, values), ""]))


class Power(BaseException):
    """The process dies."""


def left_unfinished(site: Site, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies() -> None:
        raise Power

    with monkeypatch.context() as patch:
        between(patch, dies)
        with pytest.raises(Power):
            site.run(part)
