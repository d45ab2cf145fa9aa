"""Installations in which datasets are made of each other, and a process that keeps one up.

    python -m tests.app.dependencies.web CONFIG

It looks again and again until it is killed.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from kfm import config
from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.errors import Conflict, KfmError
from kfm.model.records import Run

CODE = """\
import time
from kfm import Output, Plan, Step, Updater

class First(Updater):
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("body")]
    def plan(self, inputs):
        return Plan([Step(id="one", key=("one",))])
    def perform(self, step, read):
        return Output(read.bytes(0), media_type="text/plain")

class Below(First):
    above = ()
    slow = 0
    def inputs(self, trigger, sources):
        return [sources.pin(name) for name in self.above]
    def perform(self, step, read):
        time.sleep(self.slow)
        text = " ".join(sorted({part for name in self.above for part in read.text(name).split()}))
        if f"fail-{self.id}" in text:
            raise ValueError("as it was told to")
        return Output(text.encode(), media_type="text/plain")
"""
ENV = {"KFM_ACCEPT_WEAK_STORAGE": "true", "KFM_WATCH__POLL_S": "0"}


def laid_out(folder: Path, edges: dict[str, list[str]], *, slow: float = 0, more: dict[str, str] | None = None) -> Path:
    """A dataset for each name; those with something above them read it."""
    code, said = [CODE], ["publish: noop", "datasets:"]
    for number, (name, above) in enumerate(edges.items()):
        base = "Below" if above else "First"
        code.append(f"class Made{number}({base}):\n    id = {name!r}\n    above = {above!r}\n    slow = {slow}\n")
        said.append(f"  {name}:\n    updater: made.py:Made{number}\n    sensitivity: public")
        if more and name in more:
            said.append(f"    {more[name]}")
        read = ", ".join(f"{other}: {{dataset: {other}}}" for other in above)
        said.append(f"    sources: {{{read or 'body: {uri: body.txt}'}}}")
    (folder / "made.py").write_text("\n".join(code))
    (folder / "kfm.yml").write_text("\n".join(said) + "\n")
    (folder / "body.txt").write_text("0")
    return folder / "kfm.yml"


class Site:
    """One installation, looked at and kept up from here."""

    def __init__(self, path: Path, session: Session) -> None:
        self.folder = path.parent
        self.session = session
        self.problems: list[str] = []
        self.upkeep = Daemon(
            session, sorted(session.config.datasets), lambda name, problem: self.problems.append(f"{name}: {problem}")
        )

    def settled(self) -> int:
        """Rounds until nothing is made any more."""
        for n in range(200):
            if not list(self.upkeep.turn(patient=False)):
                assert not self.problems
                return n
        raise AssertionError("it never ends")

    def changed(self, text: str, dataset: str = "top") -> None:
        (self.folder / "body.txt").write_text(text)
        run_trigger(self.session, new_trigger(self.session, dataset, actor="tester"))

    def versions(self) -> Counter[str]:
        """How many versions each dataset has had."""
        return Counter(
            entry.dataset
            for entry in self.session.state.ledger.entries()
            if any(move.ref.startswith("processed/") for move in entry.moves)
        )

    def runs(self, dataset: str) -> list[Run]:
        """Those of it that made a version, the first one first."""
        found = []
        for entry in reversed(list(self.session.state.ledger.entries_of(dataset))):
            run = self.session.state.runs.get(entry.run_id)
            if run is not None and run.status == "COMMITTED":
                found.append(run)
        return found

    def sets(self, dataset: str) -> list[tuple[str, ...]]:
        """The versions that each of its runs read."""
        return [tuple(ref.content_hash for ref in run.inputs) for run in self.runs(dataset)]

    def text(self, dataset: str) -> str:
        version = self.session.state.refs.at(f"processed/{dataset}")
        from kfm.model import manifests

        (entry,) = manifests.entries(self.session.objects, version)
        return self.session.objects.read(entry.digest).decode()


def opened(path: Path) -> Site:
    return Site(path, open_session(config.load(str(path), ENV), clock=FixedClock()))


def main() -> None:
    with open_session(config.load(sys.argv[1], ENV)) as session:
        upkeep = Daemon(session, sorted(session.config.datasets), lambda _name, _problem: None)
        list(_tried(upkeep.begin))
        sys.stdout.write("up\n")
        sys.stdout.flush()
        while True:
            list(_tried(lambda: upkeep.turn(patient=False)))
            time.sleep(0.005)


def _tried(work):  # type: ignore[no-untyped-def]
    try:
        yield from work()
    except Conflict:  # another is at it
        return
    except KfmError as problem:
        sys.stderr.write(f"{problem}\n")
        raise


if __name__ == "__main__":
    main()
