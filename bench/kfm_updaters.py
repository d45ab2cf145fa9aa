"""The updaters the KFM cases run. Copied into the installation a case makes, as an author's file would be."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import Trigger
from kfm.model.updater import Reader, Sources

SIZE = int(os.environ.get("BENCH_STEPS", "1000"))
BODY = (b"0123456789abcdef" * 18)[:288]


class Parts(Updater):
    """Made by partitions, a key each."""

    id = "parts"
    version = "1.0.0"
    lease_by = "partition"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("body", partition=(trigger.partition,))]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id="one", key=(inputs[0].partition[0], "one"))])

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(step.id.encode() + BODY, "text/plain")


class Wide(Updater):
    """Steps that need nothing but the plan; each gives 300 bytes of its own."""

    id = "wide"
    version = "1.0.0"
    steps = SIZE

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return []

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan(steps=self._steps())

    def _steps(self) -> Iterator[Step]:
        for i in range(self.steps):
            name = f"{i:07d}"
            yield Step(id=name, key=("row", name), params={"i": i})

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(b"%012d" % step.params["i"] + BODY, "text/plain")


class Waiting(Wide):
    """One step that waits, as for a slow server."""

    id = "waiting"
    steps = 1

    def perform(self, step: Step, read: Reader) -> Output:
        time.sleep(0.05)
        return super().perform(step, read)


class Changing(Wide):
    """All keys while the source is one byte long; then one of them, with what the source says."""

    id = "changing"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("body")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        if inputs[0].size == 1:
            return Plan(steps=self._steps())
        return Plan(steps=[Step(id="one", key=("row", f"{self.steps // 2:07d}"), params={"i": 0})])

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(read.bytes("body"), "text/plain") if step.id == "one" else super().perform(step, read)


class Empty(Wide):
    """The same without a byte of output."""

    id = "empty"

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(b"", "text/plain")


class Chain(Wide):
    """Each step needs the one before it."""

    id = "chain"

    def _steps(self) -> Iterator[Step]:
        before: tuple[str, ...] = ()
        for i in range(self.steps):
            name = f"{i:07d}"
            yield Step(id=name, key=("row", name), params={"i": i}, needs=before)
            before = (name,)


class EmptyChain(Chain):
    id = "empty-chain"

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(b"", "text/plain")


class Halfway(Wide):
    """Dies by SIGKILL in its middle step; the next process notes when its first step begins, and leaves."""

    id = "halfway"

    def perform(self, step: Step, read: Reader) -> Output:
        if mark := os.environ.get("BENCH_MARK"):
            with open(mark, "a") as file:
                file.write(f"{step.params['i']} {time.time()}\n")
            os._exit(0)
        if step.params["i"] == self.steps // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().perform(step, read)


class Source(Updater):
    """One source, one step that only notes its size."""

    id = "source"
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [sources.pin("body")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan(steps=[Step(id="size", key=("size",), params={"size": inputs[0].size})])

    def perform(self, step: Step, read: Reader) -> Output:
        return Output.json(step.params["size"])


if __name__ == "__main__":
    sys.exit("import me")
