"""Asks a process that differs in all that must not matter (hash seed, time zone, locale) to run the same updater."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec

from kfm.testing.temporary_installation import Made, Room

OTHERWISE = {"PYTHONHASHSEED": "1", "TZ": "AAA-14", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}


class Question(msgspec.Struct, frozen=True):
    root: str
    dataset: str
    window: str
    partition: str
    module: str  # of a class: where it is found; empty: the configuration says it
    file: str
    name: str


class Answer(msgspec.Struct, frozen=True):
    made: Made | None = None
    problem: str = ""


def ask(room: Room) -> Answer:
    kind = room.kind
    found = ("", "", "") if kind is None else (kind.__module__, file_of(kind), kind.__qualname__)
    question = Question(room.root, room.dataset, room.window, room.partition, *found)
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kfm.testing.variation_child"],
        input=msgspec.json.encode(question),
        env={**os.environ, **OTHERWISE, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    try:
        return msgspec.json.decode(done.stdout, type=Answer)
    except msgspec.MsgspecError:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return Answer(problem="the process ended without an answer: " + "".join(last))


def file_of(kind: type) -> str:
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__ + ".py"
