"""A small installation for tests: an updater whose source the test controls, over memory or a folder."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.config import load
from kfm.engine.guards import Guards
from kfm.engine.run import run
from kfm.engine.run_context import RunContext, Work
from kfm.engine.world import Settings, World
from kfm.model.keys import digest
from kfm.model.ports import Objects, Tables
from kfm.model.records import Checkpoint, Fetched, FetchRequest, Receipt, Run, SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader, Sources, Updater
from kfm.operations.registry import operations
from kfm.policy.promotion_gate import promotion_gate, step_gate
from kfm.store.memory import MemoryTables
from kfm.store.objects import DryObjects
from kfm.store.process_identity import this_process
from kfm.store.state import StoredState
from kfm.telemetry.log import NullLog

METADATA = {"title": "Test", "license": "CC0-1.0", "sensitivity": "public"}


class Shelf:
    """A source that holds whatever the test put there."""

    def __init__(self) -> None:
        self.body = b"a,b\n1,2\n"
        self.complete = False

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Any) -> Fetched:
        name = objects.put(self.body)
        ref = SourceRef(
            uri=request.uri, content_hash=name, size=len(self.body), complete=self.complete, contract_hash="x"
        )
        note = Checkpoint(
            uri=request.uri, content_hash=name, size=len(self.body), media_type="", etag="", last_modified="",
            fetched_ms=0, checked_ms=0,
        )  # fmt: skip
        return Fetched(ref=ref, checkpoint=note, not_modified=False)


class Lines(Updater):
    """One output for every line of its source: key = first field, body = the line."""

    id = "lines"
    version = "1.0.0"

    def __init__(self, plan: Callable[[Sequence[SourceRef]], Plan] | None = None, complete: bool = False) -> None:
        self._plan = plan
        self._complete = complete
        self.performed: list[str] = []

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        ref = sources.pin("test://shelf")
        return [msgspec.structs.replace(ref, partitions=tuple(trigger.params.get("keys", "").split()))]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        if self._plan is not None:
            return self._plan(inputs)
        return Plan([Step(id="all", key=("all",))], complete=self._complete)

    def perform(self, step: Step, read: Reader) -> Output:
        self.performed.append(step.id)
        return Output(read.bytes(0), "text/plain")


class MemorySite:
    """The engine over memory: quick enough for hundreds of histories. Tests of a server give it tables and objects."""

    def __init__(
        self, tables: Tables | None = None, objects: Callable[[StoredState], Objects] | None = None, **settings: Any
    ) -> None:
        self.clock = FixedClock()
        self.state = StoredState(tables or MemoryTables(), self.clock.now_ms)
        self.objects = DryObjects(None)
        self.objects._inline = self.state.inline_object  # type: ignore[attr-defined]
        self.shelf = Shelf()
        self.metadata: Mapping[str, Any] = METADATA
        self.guards = Guards(gate=promotion_gate, step_gate=step_gate)
        self.world = World(
            state=self.state,
            objects=objects(self.state) if objects else _StateObjects(self.state),
            clock=self.clock,
            log=NullLog(),
            open_source=lambda _uri: self.shelf,
            settings=Settings(holder=this_process(), **settings),
        )

    def context(self, trigger: Trigger, updater: Updater, unfinished: Run | None = None) -> RunContext:
        return RunContext(Work(trigger, updater, self.metadata, unfinished=unfinished), self.world, self.guards)

    def begin_again(self) -> None:
        """As another process would, when the lease of the one before has run out: nothing is remembered."""
        self.clock.advance(self.world.settings.lease_ms + 1)
        self.state = self.world.state = StoredState(self.state.tables, self.clock.now_ms)

    def run(self, updater: Updater, dataset: str = "demo", **fields: Any) -> Receipt:
        fields = {"allow_deletions": 0, **fields}
        trigger = Trigger(kind="manual", updater_id=updater.id, dataset=dataset, actor="test", **fields)
        return run(self.context(trigger, updater))

    def operate(self, name: str, dataset: str = "demo", reason: str = "", **params: str) -> Receipt:
        updater = operations()[name]()
        trigger = Trigger(
            kind="operation", updater_id=updater.id, dataset=dataset, params=params, actor="test", reason=reason
        )
        return run(self.context(trigger, updater))

    def content(self, ref: str) -> dict[str, bytes]:
        """What a ref points to, key by key."""
        version = self.state.refs.at(ref)
        if not version:
            return {}
        found = {}
        for line in self.world.objects.read(version).splitlines():
            entry = msgspec.json.decode(line)
            found["/".join(entry["key"])] = self.world.objects.read(entry["digest"])
        return found


class _StateObjects(DryObjects):
    """Objects in memory, and in the rows of the state where the engine puts the small ones."""

    def __init__(self, state: StoredState) -> None:
        super().__init__(None)
        self._state = state

    def read(self, name: str) -> bytes:
        body = self._state.inline_object(name)
        if body is None:
            return super().read(name)
        assert digest(body) == name
        return body

    def has(self, name: str) -> bool:
        return self._state.inline_object(name) is not None or super().has(name)


SOURCE = "format: csv, contract: {columns: [{name: id}]}"  # the settings of the source of a folder_site


def folder_site(root: Path, updater: str, source: bytes, *, config: str = "", name: str = "demo") -> Path:
    """A real installation in a folder; `updater` is the text of updaters.py with a class U in it."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "updaters.py").write_text(textwrap.dedent(updater))
    (root / "source.csv").write_bytes(source)
    (root / "kfm.yml").write_text(
        f"accept_weak_storage: true\n{config}\ndatasets:\n  {name}:\n    updater: updaters.py:U\n    title: Test\n"
        "    license: CC0-1.0\n    sensitivity: public\n    sources:\n      source: {uri: source.csv, "
        f"{SOURCE}}}\n"
    )
    return root / "kfm.yml"


def opened(config: Path, mode: Any = "write") -> Session:
    return open_session(load(str(config), {}), mode=mode, clock=FixedClock())
