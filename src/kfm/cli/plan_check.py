"""The second half of `kfm plan --check`: makes the same plan in processes that differ in everything that must not
matter.

A plan that iterates over a set of texts, or keeps a local time from when its module was imported, is the same twice in
one process and differs in the next. This check finds such a plan before it is locked.
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

# Three, because two texts in a set come in the same order again half of the time.
ELSEWHERE = (
    {"PYTHONHASHSEED": "1", "TZ": "AAA-14"},
    {"PYTHONHASHSEED": "2", "TZ": "BBB+11"},
    {"PYTHONHASHSEED": "3", "TZ": "CCC-5:45", "LC_ALL": "C"},
)


class Question(Record, frozen=True):
    """The message to the other process: the pinned inputs of the plan, so that it need not fetch them again."""

    config: str
    dataset: str
    window: str
    partition: str
    inputs: list[SourceRef]


class Answer(Record, frozen=True):
    plan_hash: str = ""
    problem: str = ""


def check_elsewhere(resolved: Resolved, trigger: Trigger, inputs: list[SourceRef], plan_hash: str) -> None:
    """Raise if other processes make another plan of the same inputs."""
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
    # The state does not affect a plan; the places where modules are found do.
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
    """The other process: read a question from stdin, and write its answer to stdout."""
    from kfm import config

    out, sys.stdout = sys.stdout, sys.stderr  # what an updater prints must not mix with the answer
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
