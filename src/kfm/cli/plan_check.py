"""The second half of `kfm plan --check`: the same plan, in processes that differ in all that must not matter.

A plan that walks through a set of texts, or keeps a local time from when its module was imported, is
the same twice in one process and another one in the next. Here it meets the next one before it is locked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec

from kfm.app.runs.queries import replan
from kfm.app.session.session import open_session
from kfm.errors import KfmError, PlanImpure
from kfm.model.records import Record, SourceRef, Trigger

if TYPE_CHECKING:
    from kfm.config import Resolved

# Three of them, as two texts in a set have even odds to come in the same order again.
ELSEWHERE = (
    {"PYTHONHASHSEED": "1", "TZ": "AAA-14"},
    {"PYTHONHASHSEED": "2", "TZ": "BBB+11"},
    {"PYTHONHASHSEED": "3", "TZ": "CCC-5:45", "LC_ALL": "C"},
)


class Question(Record, frozen=True):
    """What a process is asked: the plan of these very inputs, so that it need not fetch them again."""

    config: str
    dataset: str
    window: str
    partition: str
    inputs: list[SourceRef]


class Answer(Record, frozen=True):
    plan_hash: str = ""
    problem: str = ""


def check_elsewhere(resolved: Resolved, trigger: Trigger, inputs: list[SourceRef], plan_hash: str) -> None:
    """Refuse a plan that other processes make otherwise."""
    dataset = trigger.dataset
    question = Question(
        config=resolved.path, dataset=dataset, window=trigger.window, partition=trigger.partition, inputs=inputs
    )
    for answer in _ask(msgspec.json.encode(question)):
        if answer.problem:
            raise PlanImpure(
                f"the plan of {dataset} cannot be made in another process: {answer.problem}",
                hint="it must not depend on this process, its time zone or its locale",
            )
        if answer.plan_hash != plan_hash:
            raise PlanImpure(
                f"the plan of {dataset} depends on the hash seed or time zone: another process makes another one",
                hint="sort what comes out of a set, and keep no local time in the module",
            )


def _ask(question: bytes) -> list[Answer]:
    # The state has no part in a plan; where modules are found has.
    same = {"KFM_STATE": "memory", "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    children: list[subprocess.Popen[bytes]] = []
    try:
        for other in ELSEWHERE:
            children.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-B", "-m", "kfm.cli.plan_check"],
                    env={**os.environ, **same, **other},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            )
        return [_read(child.communicate(question)[0]) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def _read(body: bytes) -> Answer:
    try:
        return msgspec.json.decode(body, type=Answer)
    except msgspec.MsgspecError:
        return Answer(problem="the process ended without an answer")


def main() -> None:
    """The other process: a question on stdin, its answer on stdout."""
    from kfm import config

    out, sys.stdout = sys.stdout, sys.stderr  # what an updater prints is no answer
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    try:
        with open_session(config.load(asked.config, os.environ), mode="dry") as session:
            answer = Answer(plan_hash=replan(session, asked.dataset, asked.inputs, asked.window, asked.partition))
    except KfmError as problem:
        answer = Answer(problem=problem.message)
    out.buffer.write(msgspec.json.encode(answer))
    out.flush()


if __name__ == "__main__":
    main()
