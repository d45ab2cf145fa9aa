"""Run the same updater in a process with another hash seed, time zone and locale, none of which may matter."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec

from kfm.testing.temporary_installation import RunResult, TrialInstallation

OTHERWISE = {"PYTHONHASHSEED": "1", "TZ": "AAA-14", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}


class VariationRequest(msgspec.Struct, frozen=True):
    root: str
    dataset: str
    window: str
    partition: str
    module: str  # module of a class; empty: the configuration names the updater
    file: str
    name: str


class VariationResult(msgspec.Struct, frozen=True):
    made: RunResult | None = None
    problem: str = ""


def ask(room: TrialInstallation) -> VariationResult:
    kind = room.kind
    found = ("", "", "") if kind is None else (kind.__module__, file_of(kind), kind.__qualname__)
    question = VariationRequest(room.root, room.dataset, room.window, room.partition, *found)
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kfm.testing.variation_child"],
        input=msgspec.json.encode(question),
        env={**os.environ, **OTHERWISE, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    try:
        return msgspec.json.decode(done.stdout, type=VariationResult)
    except msgspec.MsgspecError:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return VariationResult(problem="the process ended without an answer: " + "".join(last))


def file_of(kind: type) -> str:
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__ + ".py"
