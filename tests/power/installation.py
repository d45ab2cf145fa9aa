"""A small installation over any tables and objects: days of ingest, a promotion, a rollback, a day of nothing.

It is operated as a person would: after a restart first what is unfinished, then the first thing on the
list that has no receipt. All of it happens at one instant, so that two walks through the list end in the
same bytes however often they were interrupted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from kfm.clock import FixedClock
from kfm.delivery.public_files import deliver
from kfm.engine.guards import Guards
from kfm.engine.run import run
from kfm.engine.run_context import RunContext, Work
from kfm.engine.world import Settings, World
from kfm.model.canonical import canonical
from kfm.model.keys import GENESIS, digest
from kfm.model.manifests import entries
from kfm.model.ports import Objects, Publisher, Tables
from kfm.model.records import (
    Checkpoint,
    Decision,
    Fetched,
    FetchRequest,
    Receipt,
    RefMove,
    Run,
    SourceRef,
    Step,
    Trigger,
)
from kfm.model.updater import Output, Plan, Updater
from kfm.model.zone_requests import Asking, StepUp
from kfm.operations.registry import operations
from kfm.store.state import StoredState
from kfm.telemetry.log import NullLog
from tests.store.compared import compared

DATASET = "river-gauges"
ITEMS = ("ingest 1", "promote", "ingest 2", "ingest 2 again", "promote again", "rollback")
NOBODY = f"{os.uname().nodename}:{1 << 23}:1"  # a holder that is known to be dead: its lease is free at once


class Gauges(Updater):
    """A chain, a fan and a join; outputs small enough for a row and large enough for a file."""

    id = "gauges"
    version = "1.0.0"
    dataset = DATASET

    def inputs(self, trigger: Trigger, sources: Any) -> list[SourceRef]:
        return [sources.pin(f"https://example.org/{trigger.window}")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        fan = [Step(id=f"g{n}", key=("gauge", str(n)), params={"n": n}, needs=("read",)) for n in range(4)]
        return Plan([Step(id="read"), *fan, Step(id="all", key=("all",), needs=("g0", "g1", "g2", "g3"))])

    def perform(self, step: Step, read: Any) -> Output:
        seed = b"".join(read.bytes(need) for need in step.needs) + read.bytes(0) + step.id.encode()
        line = hashlib.sha256(seed).hexdigest().encode()
        if step.params.get("n") == 1:
            return Output(line * 20)
        if step.id == "all":
            return Output(iter([line * 3, line * 15]))
        return Output(line[:40])


class Counties(Gauges):
    """So many keys that the manifest is a tree of several levels; the second day changes a few."""

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        first = inputs[0].uri.endswith("1")
        keys = range(800) if first else (7, 300, 800)
        return Plan([Step(id=f"{i:04d}", key=("c", f"{i:04d}"), params={"first": first}) for i in keys])

    def perform(self, step: Step, read: Any) -> Output:
        return Output(f"{step.id} {step.params['first']}".encode())


class Upstream:
    """The outside: the same bytes for the same address, for ever."""

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        del known
        body = hashlib.sha256(request.uri.encode()).hexdigest().encode() * (2 if "1" in request.uri else 9)
        name, size = objects.put_stream([body[:70], body[70:]])
        return Fetched(
            ref=SourceRef(uri=request.uri, content_hash=name, size=size, complete=True),
            checkpoint=Checkpoint(
                uri=request.uri, content_hash=name, size=size, media_type="", etag="", last_modified="",
                fetched_ms=request.now_ms, checked_ms=request.now_ms,
            ),
            not_modified=False,
            bytes_on_wire=size,
        )  # fmt: skip


def yes(_state: object, _objects: object, move: RefMove, *, asking: Asking, correction: object = None) -> Decision:
    assert asking.who and correction is None
    return Decision(gate="test", allow=True, subject=move.after, policy_digest=GENESIS)


def step_yes(step: StepUp) -> Decision:
    return Decision(gate="test", allow=True, subject=step.subject, policy_digest=GENESIS)


class Installation:
    def __init__(
        self,
        tables: Tables,
        make_objects: Callable[[StoredState], Objects],
        holder: str = NOBODY,
        publisher: Publisher | None = None,
        gauges: type[Gauges] = Gauges,
    ) -> None:
        clock = FixedClock()
        self.gauges = gauges
        self.publisher = publisher
        self.state = StoredState(tables, clock.now_ms)
        self.objects = make_objects(self.state)
        self.guards = Guards(gate=yes, step_gate=step_yes)
        self.world = World(
            state=self.state,
            objects=self.objects,
            clock=clock,
            log=NullLog(),
            open_source=lambda _uri: Upstream(),
            settings=Settings(threads=1, window=3 if gauges is Gauges else 512, holder=holder),
        )

    def work(self, told: Callable[[Receipt], None]) -> None:
        """Everything on the list that is not done yet. `told` hears of each receipt once it is durable."""
        for unfinished in list(self.state.runs.unfinished()):
            self._tell(self._run(unfinished.trigger, unfinished), told)
        for item in ITEMS:
            if item not in self.done():
                trigger = self._trigger(item)
                self._tell(self._run(trigger), told)
        self.settle()

    def _run(self, trigger: Trigger, unfinished: Run | None = None) -> Receipt:
        work = Work(trigger, self._updater(trigger), {"title": "River gauges"}, unfinished=unfinished)
        return run(RunContext(work, self.world, self.guards))

    def _tell(self, receipt: Receipt, told: Callable[[Receipt], None]) -> None:
        assert receipt.status in ("SUCCESS", "SKIPPED"), receipt.errors
        self.settle()
        told(receipt)

    def settle(self) -> None:
        """As a session does before it acknowledges anything."""
        if self.publisher is None:
            self.state.sync()
        else:
            for _, problem in deliver(self.state, self.objects, self.publisher, NullLog(), sync=True):
                raise problem

    def done(self) -> set[str]:
        return {entry.reason for entry in self.state.ledger.entries()}

    def _trigger(self, item: str) -> Trigger:
        name, _, rest = item.partition(" ")
        if name == "ingest":
            return Trigger(kind="manual", updater_id=Gauges.id, dataset=DATASET, window=f"day-{rest[0]}", reason=item)
        operation = operations()[name]
        return Trigger(kind="operation", updater_id=operation.id, dataset=DATASET, reason=item)

    def _updater(self, trigger: Trigger) -> Updater:
        for operation in operations().values():
            if operation.id == trigger.updater_id:
                return operation()
        return self.gauges()

    # -- what must be the same in the end

    def result(self) -> dict[str, bytes]:
        """Every row that is compared, by table and key."""
        return {f"{table}/{key}": body for table, key, body in compared(self.state.tables)}

    def check(self) -> None:
        """Refs lead to bytes, the ledger is whole, receipts are in it, journals are unbroken."""
        for name, target in self.state.refs.all():
            assert digest(self.objects.read(target)) == target, f"{name} leads to other bytes"
            if name.startswith(("processed/", "published/")):
                for entry in entries(self.objects, target):
                    body = self.objects.read(entry.digest)
                    assert (digest(body), len(body)) == (entry.digest, entry.size)
        previous = GENESIS
        for n, link in enumerate(self.state.ledger.entries(), 1):
            assert (link.index, link.prev) == (n, previous), f"link {n} of the ledger is broken"
            previous = digest(canonical(link))
            receipt = self.state.ledger.receipt(link.run_id)
            assert receipt is not None and digest(canonical(receipt)) == link.receipt_digest
            for _ in self.state.journal.segments(link.run_id):
                pass
        assert self.state.ledger.head() in (previous, "")
        for unfinished in self.state.runs.unfinished():
            for segment, _ in self.state.journal.segments(unfinished.run_id):
                for _, name, size, _ in segment.done:
                    assert self.objects.size(name) == size, "a step that is DONE has no output"
