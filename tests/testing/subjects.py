"""A good updater, and bad ones: each breaks one promise."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from kfm import Output, Plan, SourceRef, Step, Updater

WELLS = "api,county,depth\n1,Stanton,5661\n2,Reno,3310\n3,Reno,120\n"
BESIDE = os.path.join(os.path.dirname(__file__), "written-by-a-bad-updater")


class Good(Updater):
    id = "wells"
    version = "1.0.0"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("wells")]

    def plan(self, inputs: Any) -> Plan:
        return Plan([Step(id=f"part-{n}", key=("part", str(n)), params={"n": n}) for n in range(3)])

    def perform(self, step: Step, read: Any) -> Output:
        row = list(read.csv("wells"))[step.params["n"]]
        return Output.csv([row])


class ImpurePlan(Good):
    def plan(self, inputs: Any) -> Plan:
        return Plan([Step(id="now", key=("now",), params={"at": int(time.time())})])


class PlanByHashSeed(Good):
    def plan(self, inputs: Any) -> Plan:
        names = {f"county-{n}" for n in range(20)}
        return Plan([Step(id="all", key=("all",), params={"names": list(names)})])

    def perform(self, step: Step, read: Any) -> Output:
        return Output.text("all")


class CountingPlan(Good):
    made = 0

    def plan(self, inputs: Any) -> Plan:
        type(self).made += 1
        return Plan([Step(id="all", key=("all",), params={"n": self.made})])


class RandomOutput(Good):
    def perform(self, step: Step, read: Any) -> Output:
        return Output.text(str(random.random()))


class OutputByHashSeed(Good):
    def perform(self, step: Step, read: Any) -> Output:
        return Output.text(",".join({row["county"] + str(n) for row in read.csv("wells") for n in range(9)}))


class WritesBeside(Good):
    def perform(self, step: Step, read: Any) -> Output:
        with open(BESIDE, "w") as file:
            file.write("x")
        os.unlink(BESIDE)
        return super().perform(step, read)


class WritesInInputs(Good):
    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        os.makedirs(BESIDE, exist_ok=True)
        os.rmdir(BESIDE)
        return super().inputs(trigger, sources)


class StreamsBeside(Good):
    """Does it while its output is read, after perform() has returned."""

    def perform(self, step: Step, read: Any) -> Output:
        def pieces() -> Any:
            with open(BESIDE, "w"):
                pass
            os.unlink(BESIDE)
            yield b"x"

        return Output(pieces())


class StartsAProgram(Good):
    def perform(self, step: Step, read: Any) -> Output:
        import subprocess

        subprocess.run(["true"], check=True)
        return super().perform(step, read)


class Remembers(Good):
    """Keeps the sum of what came before in the process, which is gone after a crash."""

    def __init__(self) -> None:
        self.total = 0

    def perform(self, step: Step, read: Any) -> Output:
        self.total += int(list(read.csv("wells"))[step.params["n"]]["depth"])
        return Output.text(str(self.total))


class OtherInputs(Good):
    asked = 0

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        type(self).asked += 1
        return [sources.pin("wells", partition=(str(self.asked),))]


class Raises(Good):
    def perform(self, step: Step, read: Any) -> Output:
        raise ValueError("no such well")


class Scratch(Good):
    """Is fine: scratch files are allowed."""

    def perform(self, step: Step, read: Any) -> Output:
        import tempfile

        with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "x"), "w+") as file:
            file.write("x")
            file.seek(0)
            return Output.text(file.read())
