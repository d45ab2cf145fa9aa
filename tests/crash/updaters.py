"""Three reference updaters, and what an operator does with each: the scripts that get killed.

Everything they read is a file in the installation's own folder, with a fixed time stamp, so that two
runs of a script differ only where the product makes them differ.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kfm import Output, Plan, SourceRef, Step, Updater
from tests.servers import placement

NOW = "2026-01-01T00:00:00Z"  # the one instant all of this happens at
T0 = 1_767_225_600_000  # the same in milliseconds
LARGE = 70_000  # more than INLINE_MAX: such an output is a file of its own


class Smallest(Updater):
    """One source, three small steps."""

    id = "smallest"
    version = "1.0.0"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("in.csv")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=f"part-{n}", key=("part", str(n)), params={"n": n}) for n in range(3)])

    def perform(self, step: Step, read: Any) -> Output:
        rows = [row for row in read.csv(0) if int(row["id"]) % 3 == step.params["n"]]
        return Output.csv(rows, columns=["id", "name"])


class SmallestNext(Smallest):
    """The same work by the next version of the code."""

    version = "1.1.0"


class SmallestDrifted(Smallest):
    """Another plan under the same version: the author forgot to bump it."""

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=f"part-{n}", key=("part", str(n)), params={"n": n}) for n in range(2)])


class Fan(Updater):
    """A chain that fans out and comes together again; small outputs are rows, large ones are files."""

    id = "fan"
    version = "1.0.0"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("in.csv"), sources.pin("big.bin")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        steps = [Step(id="a"), Step(id="b", needs=("a",)), Step(id="c", needs=("b",))]
        steps += [Step(id=f"fan-{n}", key=("fan", str(n)), params={"n": n}, needs=("c",)) for n in range(7)]
        steps += [
            Step(id="join", key=("join",), needs=tuple(f"fan-{n}" for n in range(7))),
            Step(id="last", key=("last",), needs=("join", "a")),
        ]
        return Plan(steps)

    def perform(self, step: Step, read: Any) -> Output:
        seed = b"".join(hashlib.sha256(read.bytes(need)).digest() for need in step.needs)
        seed += step.id.encode() + hashlib.sha256(read.bytes(0) + read.bytes(1)[:9]).digest()
        if step.params.get("n", 1) % 3 == 0:
            return Output(_stream(seed))
        return Output(hashlib.sha256(seed).hexdigest().encode(), "text/plain")


def _stream(seed: bytes) -> Any:
    """LARGE bytes in pieces, the same for the same seed."""
    block = hashlib.sha256(seed).digest() * 1000
    for start in range(0, LARGE, len(block)):
        yield block[: LARGE - start]


class Stations(Updater):
    """A source with a contract that holds rows back, a complete plan, and a step a row."""

    id = "stations"
    version = "1.0.0"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("stations", partition_by="id")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan(
            [Step(id=f"station-{p}", key=("station", p), params={"id": p}) for p in inputs[0].partitions],
            complete=True,
        )

    def perform(self, step: Step, read: Any) -> Output:
        return Output.csv([row for row in read.csv(0) if row["id"] == step.params["id"]])


class Counties(Updater):
    """So many keys that the manifest is a tree of several levels; only a source that says `whole` is all there is."""

    id = "counties"
    version = "1.0.0"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("counties", partition_by="id")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        rows = [row.partition("-") for row in inputs[0].partitions if row != "whole"]
        steps = [Step(id=key, key=("c", key), params={"value": value}) for key, _, value in rows]
        return Plan(steps, complete="whole" in inputs[0].partitions)

    def perform(self, step: Step, read: Any) -> Output:
        return Output.text(f"{step.id} {step.params['value']}")


class Command(NamedTuple):
    """What the operator types, and what the source holds at that time."""

    verb: str
    dataset: str
    files: dict[str, bytes] = {}
    abandon: bool = False


class Script(NamedTuple):
    name: str
    config: str
    commands: tuple[Command, ...]


def _csv(ids: Sequence[object], name: str = "n") -> bytes:
    return b"id,name\n" + b"".join(f"{i},{name}{i}\n".encode() for i in ids)


_HEAD = """\
{where}
accept_weak_storage: true
execute: {{threads: {threads}, lease_s: 60}}
deletion_budget: 0.5
datasets:
"""

SMALLEST = Script(
    "smallest",
    _HEAD + "  smallest:\n    updater: tests.crash.updaters:{cls}\n",
    (Command("run", "smallest", {"in.csv": _csv(range(9))}),),
)

FAN = Script(
    "fan",
    _HEAD + "  fan:\n    updater: tests.crash.updaters:Fan\n",
    (
        Command("run", "fan", {"in.csv": _csv(range(5)), "big.bin": bytes(range(256)) * 400}),
        Command("run", "fan", {"in.csv": _csv(range(6)), "big.bin": bytes(range(256)) * 400}),
    ),
)

STATIONS = Script(
    "stations",
    _HEAD
    + """\
  stations:
    updater: tests.crash.updaters:Stations
    title: Stations
    license: CC0-1.0
    sensitivity: public
    sources:
      stations:
        uri: in.csv
        complete: true
        format: csv
        contract:
          min_rows: 1
          max_held_share: 1
          shrink_limit: 1
          columns:
            - {{name: id, type: integer, required: true, mode: discard-row}}
            - {{name: name, required: true, mode: discard-row}}
""",
    (  # one row in ten may be quarantined, and be published without
        Command("run", "stations", {"in.csv": _csv([1, 1, 1, 2, 2, "x", 3, 3, 4, 4])}),  # the row x is quarantined
        Command("promote", "stations"),
        Command("run", "stations", {"in.csv": _csv([1, 1, 1, 3, 3, 4, 4, "y", 5, 5], name="m")}),  # 2 goes, y is held
        Command("promote", "stations"),
        Command("run", "stations", {"in.csv": b"id,name\n"}),  # held as a whole: the run fails
        Command("rollback", "stations"),
    ),
)

TREE = Script(
    "tree",
    _HEAD
    + """\
  counties:
    updater: tests.crash.updaters:Counties
    sources:
      counties: {{uri: in.csv, complete: true, format: csv, contract: {{shrink_limit: 1}}}}
""",
    (
        Command("run", "counties", {"in.csv": _csv(["whole", *(f"{i:04d}-a" for i in range(800))])}),
        Command("run", "counties", {"in.csv": _csv(["0007-b", "0500-b", "0500x-b", "0800-b"])}),
        Command("run", "counties", {"in.csv": _csv(["whole", *(f"{i:04d}-a" for i in range(720))])}),
    ),
)

SCRIPTS = {script.name: script for script in (SMALLEST, FAN, STATIONS)}


def settle_in(folder: str, script: Script, state: str, *, cls: str = "Smallest", threads: int = 1) -> None:
    """Write the installation's configuration. `servers` is no kind of state: everything is on the test servers."""
    files = {"sqlite": "state: sqlite:.kfm/state.db\n", "jsonl": "state: jsonl:.kfm/state.jsonl\n"}
    where = files.get(state) or placement.all_servers(Path(folder))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "kfm.yml"), "w", encoding="utf-8") as file:
        # Every process that a test starts would have the default sinks, but the test itself has not.
        file.write('pages: false\ncatalog: ""\n' + script.config.format(where=where, cls=cls, threads=threads))


def lay_out(folder: str, command: Command, n: int) -> None:
    """The source as it is when the n-th command is typed: same bytes, same time stamp, every time."""
    for name, body in command.files.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(body)
        os.utime(path, ns=(1_700_000_000_000_000_000 + n * 10**12,) * 2)
