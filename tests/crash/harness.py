"""Runs a script in a child process that may die, and recovers it in another, as an operator would.

Children are forked from a warm process that has no database open. What a child says comes over a
pipe to this process, which shares nothing with it: an acknowledgement read here was given.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec

from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session, open_tables
from kfm.clock import Clock, FixedClock
from kfm.config import load
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Receipt
from kfm.store.postgres.tables import PostgresTables
from tests.crash.points import Points, install
from tests.crash.updaters import T0, Command, Script, lay_out

_encode = msgspec.json.encode


class Ended(NamedTuple):
    """How a child ended, and everything it said."""

    killed: bool
    code: int
    said: list[Any]

    @property
    def acks(self) -> dict[str, str]:
        """run id → digest of its receipt, for every run that was acknowledged."""
        return {run_id: name for kind, run_id, name in self._of("ack") if kind}

    @property
    def answer(self) -> Any:
        return self._of("answer")[-1][1]

    @property
    def failure(self) -> str:
        return "\n".join(line[1] for line in self._of("failure"))

    def _of(self, kind: str) -> list[Any]:
        return [line for line in self.said if line[0] == kind]


class Voice:
    """The child's end of the pipe. One write a line: a line is there whole, or not at all."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def say(self, *line: Any) -> None:
        view = memoryview(_encode(line) + b"\n")
        while view:
            view = view[os.write(self._fd, view) :]

    def ack(self, receipt: Receipt) -> None:
        self.say("ack", receipt.run_id, digest(canonical(receipt)))


def begin(work: Callable[[Voice], Any]) -> tuple[int, int]:
    """Fork a child that does `work` and answers with what it returns; gives its pid and the pipe."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    code = 70
    try:
        gc.disable()  # it would only copy the pages shared with the parent
        os.close(read)
        voice = Voice(write)
        try:
            voice.say("answer", work(voice))
            code = 0
        except BaseException:
            voice.say("failure", traceback.format_exc())
    finally:
        os._exit(code)


def end(pid: int, read: int) -> Ended:
    """Listen until the child is gone."""
    with open(read, "rb") as pipe:
        body = pipe.read()
    _, status = os.waitpid(pid, 0)
    said = [msgspec.json.decode(line) for line in body.split(b"\n")[:-1]]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return Ended(killed, 0 if killed else os.waitstatus_to_exitcode(status), said)


def in_child(work: Callable[[Voice], Any]) -> Ended:
    return end(*begin(work))


def answer_of(work: Callable[[Voice], Any]) -> Any:
    """What a child that must not fail answers."""
    ended = in_child(work)
    assert not ended.killed and ended.code == 0, ended.failure or f"the child ended with {ended.code}"
    return ended.answer


REASON = "a test"  # of every operation, typed or not


def session_in(folder: str, clock: Clock | None = None) -> Session:
    with patch.object(PostgresTables, "now_ms", None):  # leases go by the clock of the test, not by the server's
        return open_session(load(os.path.join(folder, "kfm.yml"), {}), clock=clock or FixedClock(T0))


def perform(session: Session, command: Command) -> Receipt:
    if command.verb == "run":
        reason = "the crash is over" if command.abandon else ""
        trigger = new_trigger(session, command.dataset, actor="operator", abandon=command.abandon, reason=reason)
        return run_trigger(session, trigger)
    return run_operation(session, command.verb, command.dataset, actor="operator", reason=REASON)


def play(folder: str, script: Script, voice: Voice, *, start: int = 0, clock: Clock | None = None) -> None:
    """Type the commands from number `start` on, each in a session of its own."""
    for n, command in enumerate(script.commands[start:], start):
        lay_out(folder, command, n)
        with session_in(folder, clock) as session:
            receipt = perform(session, command)
            settle_session(session)
            voice.ack(receipt)


def recover(folder: str, script: Script, voice: Voice, *, clock: Clock | None = None) -> None:
    """What an operator does after a crash: resume, look how far it came, type the rest.

    Every command ends in one ledger entry, so their number says which command comes next. A command
    that died before it claimed its work left nothing behind, and is simply typed again.
    """
    with session_in(folder, clock) as session:
        receipts = list(resume_runs(session))
        settle_session(session)
        for receipt in receipts:
            voice.ack(receipt)
        done = sum(1 for _ in session.state.ledger.entries())
    play(folder, script, voice, start=done, clock=clock)


def clean_run(folder: str, script: Script, only: Callable[[str], bool] | None = None) -> list[str]:
    """Run a script undisturbed; returns the labels of all its places."""

    def work(voice: Voice) -> list[str]:
        points = Points(only=only)
        install(points)
        play(folder, script, voice)
        return points.labels

    return list(answer_of(work))


def cut_run(
    at: int, folder: str, script: Script, only: Callable[[str], bool] | None = None, *, recovering: bool = False
) -> Ended:
    """Run (or recover) a script and die at place number `at`."""

    def work(voice: Voice) -> list[str]:
        points = Points(at, only=only)
        install(points)
        (recover if recovering else play)(folder, script, voice)
        return points.labels

    return in_child(work)


def rows_as_read(folder: str) -> dict[str, dict[str, bytes]]:
    """The state as someone sees it who only looks, and must not touch a byte."""
    from tests.crash.oracle import rows_of

    tables = open_tables(load(os.path.join(folder, "kfm.yml"), {}), "read")
    try:
        return rows_of(tables)
    finally:
        tables.close()


assert sys.platform.startswith("linux"), "processes are killed and stopped here by their Linux names"
