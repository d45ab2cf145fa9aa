"""Several real processes at one installation, started at the same instant, and what must hold whichever wins."""

from __future__ import annotations

import gc
import json
import mmap
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.app.runs.run_control import resume_runs
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import Mode, Session, open_session
from kfm.config import load
from kfm.engine.verify import verify
from kfm.errors import KfmError
from kfm.model.records import Receipt
from tests.crash.oracle import check
from tests.crash.points import Points, die, install
from tests.engine.site_under_test import SOURCE

STATES = {"sqlite": "sqlite:.kfm/state.db", "jsonl": "jsonl:.kfm/state.jsonl"}
LARGE = 70_000  # more than INLINE_MAX: such an output is a file
PATIENCE_S = 300  # a child that takes longer hangs, and is ended by its own alarm


class Parts(Updater):
    """Ten small steps and a large one, in windows of four: several durable writes before the commit."""

    id = "parts"
    version = "1.0.0"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("rows")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=f"part-{n}", key=("part", str(n)), params={"n": n}) for n in range(11)])

    def perform(self, step: Step, read: Any) -> Output:
        time.sleep(0.001)
        text = f"{read.text('rows')}{step.params['n']}\n"
        return Output.text(text * (LARGE // len(text)) if step.params["n"] == 10 else text)


class Installation:
    """A folder with a configuration and a source a dataset."""

    def __init__(self, folder: Path, state: str, datasets: Sequence[str] = ("demo",), lease_s: float = 60) -> None:
        self.folder = folder
        self.state = state
        folder.mkdir(parents=True, exist_ok=True)
        text = (
            f"accept_weak_storage: true\nstate: {STATES[state]}\n"
            f"execute: {{threads: 2, window: 4, lease_s: {lease_s}}}\ndatasets:\n"
        )
        for name in datasets:
            text += (
                f"  {name}:\n    updater: tests.engine.crowds:Parts\n    title: T\n    license: CC0-1.0\n"
                "    sensitivity: public\n    sources:\n"
                f"      rows: {{uri: {name}.csv, {SOURCE}}}\n"
            )
            self.source(f"{name} 0", name)
        (folder / "kfm.yml").write_text(text)

    def source(self, text: str, dataset: str = "demo") -> None:
        """What the dataset's source holds from now on; whole at any instant."""
        new = self.folder / f"{dataset}.{os.getpid()}.new"
        new.write_text(f"value\n{text}\n")
        new.replace(self.folder / f"{dataset}.csv")

    def open(self, mode: Mode = "write") -> Session:
        return open_session(load(str(self.folder / "kfm.yml"), {}), mode=mode)

    def sound(self) -> None:
        """Everything that holds at any instant, whatever was killed."""
        with self.open() as session:
            check(session, str(self.folder), {})
            verify(session.state, session.objects)

    def finish(self) -> list[Receipt]:
        """What an operator does in the end."""
        with self.open() as session:
            receipts = list(resume_runs(session))
            settle_session(session)
        return receipts


class Told(NamedTuple):
    """How one attempt ended: the outcome of its receipt, or the code of its error."""

    outcome: str
    run_id: str
    exit_code: int
    message: str


def attempt(work: Callable[[], Receipt]) -> Told:
    """As the command line would tell it."""
    from kfm.cli.session import code_of

    try:
        receipt = work()
    except KfmError as problem:
        return Told(problem.code, "", problem.exit_code, str(problem))
    message = receipt.errors[0].message if receipt.errors else ""
    return Told(receipt.outcome, receipt.run_id, code_of(receipt), message)


class Deaths(Points):
    """Whoever of a crowd comes to one of these places dies there. The places are those of all of them together,
    numbered as they are come to: every byte of the file is one."""

    def __init__(self, counted: Path, numbers: Collection[int]) -> None:
        super().__init__()
        self._numbers = numbers
        self._counted = os.open(counted, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def here(self, label: str) -> None:
        with self._lock:
            os.write(self._counted, b".")
            number = os.lseek(self._counted, 0, os.SEEK_CUR)  # right after our own byte, whoever else wrote
        if number in self._numbers:
            die(label)


def mortal(work: Callable[[], Any], counted: Path, numbers: Collection[int] = ()) -> Callable[[], Any]:
    def dying() -> Any:
        install(Deaths(counted, numbers))
        return work()

    return dying


class Ended(NamedTuple):
    killed: bool
    answer: Any


class Crowd:
    """Children that all begin at once."""

    def __init__(self, works: Sequence[Callable[[], Any]]) -> None:
        self._gate, go = os.pipe()
        self._go = go
        self.children = [self._fork(work) for work in works]
        os.close(self._gate)

    def _fork(self, work: Callable[[], Any]) -> tuple[int, int]:
        read, write = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            os.close(write)
            return pid, read
        code = 70
        try:
            gc.disable()
            signal.alarm(PATIENCE_S)
            os.close(self._go)
            os.close(read)
            os.read(self._gate, 1)  # ends when the parent closes its side
            with open(write, "w") as pipe:
                try:
                    json.dump(["answer", work()], pipe)
                    code = 0
                except BaseException:
                    json.dump(["failure", traceback.format_exc()], pipe)
        finally:
            os._exit(code)

    def begin(self) -> None:
        os.close(self._go)

    def kill(self, n: int) -> None:
        os.kill(self.children[n][0], signal.SIGKILL)

    def end(self, first: int | None = None) -> list[Ended]:
        """Wait for all that are left, or for the first few of them."""
        awaited, self.children = self.children[:first], self.children[len(self.children[:first]) :]
        ended, failures = [], []
        for pid, read in awaited:
            with open(read) as pipe:
                body = pipe.read()
            _, status = os.waitpid(pid, 0)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            kind, said = json.loads(body) if body and not killed else ("nothing", "")
            if not killed and kind != "answer":
                failures.append(said or f"a child ended with {status} and said nothing")
            ended.append(Ended(killed, said if kind == "answer" else None))
        assert not failures, "\n".join(failures)
        return ended


def wait_until(so: Callable[[], bool]) -> None:
    """However busy the machine is: until it is so, or until something must hang."""
    end = time.monotonic() + PATIENCE_S
    while not so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.002)


class Looks:
    """How often each of those who look has looked: shared with the children."""

    def __init__(self, lookers: int) -> None:
        self._counts = mmap.mmap(-1, 8 * lookers)
        self._lookers = range(0, 8 * lookers, 8)

    def _count(self, at: int) -> int:
        return int.from_bytes(self._counts[at : at + 8], "little")

    def looked(self, looker: int = 0) -> None:
        at = 8 * looker
        self._counts[at : at + 8] = (self._count(at) + 1).to_bytes(8, "little")

    def wait(self) -> None:
        """Until all of them have begun to look after this was called, and are done with it."""
        before = [self._count(at) for at in self._lookers]
        wait_until(lambda: all(self._count(at) > was + 1 for at, was in zip(self._lookers, before, strict=True)))


def together(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """All at once, undisturbed; what each answers."""
    crowd = Crowd(works)
    crowd.begin()
    return [ended.answer for ended in crowd.end()]


def disturbed(works: Sequence[Callable[[], Any]], rng: random.Random, longest: float, kills: int) -> list[Ended]:
    """All at once, with some killed on the way."""
    crowd = Crowd(works)
    crowd.begin()
    for n in rng.sample(range(len(works)), kills):
        time.sleep(rng.uniform(0, longest / kills))
        crowd.kill(n)
    return crowd.end()
