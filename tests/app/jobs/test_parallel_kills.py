"""A parallel run that is killed anywhere, and resumed, ends as one that ran one after another: nothing twice, nothing
lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfm.app.runs.execution import Undelivered, resume_request, run_request, work
from kfm.app.runs.parallel_runs import work_in_jobs
from kfm.app.session.session import Session
from kfm.config import load
from kfm.errors import KfmError
from kfm.model.records import Receipt
from kfm.testing.kills import Boundaries, ChildKilled, in_child, trial_session
from tests.app.jobs.hosts import NOW, dataset, environment, hosts, installation, reading, rows
from tests.engine.conftest import place as place
from tests.sampling import sampled

KILLS = 200
PARTS = 10
JOBS = 4
NAMES = ("a", "b", "b-again", "c", "steps")
STEPS = """\
from kfm import Output, Plan, Step, Updater

class Steps(Updater):
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("body")]
    def plan(self, inputs):
        return Plan([Step(id=f"s{n}", key=(f"s{n}",), needs=(f"s{n-1}",) if n else ()) for n in range(6)])
    def perform(self, step, read):
        return Output(step.id.encode() * 9000, media_type="text/plain")
"""


class Silent:
    """Hears everything, and keeps nothing."""

    def expects(self, total: int) -> None: ...
    def pauses(self) -> None: ...
    def begins(self, about: str) -> None: ...
    def ended(self, receipt: Receipt) -> None: ...
    def failed(self, about: str, problem: KfmError) -> None: ...
    def settles(self) -> None: ...
    def undelivered(self, what: Undelivered) -> None: ...
    def advanced(self, about: str, stage: str, done: int, total: int) -> None: ...
    def stops(self) -> None: ...
    def ordered(self, about: Sequence[str]) -> None: ...


class Trial(NamedTuple):
    text: str
    serial: Any
    boundaries: int


def laid_out(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "kfm.yml").write_text(text)
    (folder / "steps.py").write_text(STEPS)
    (folder / "body.txt").write_text("x")
    return folder


def opened(site: Path, boundaries: Boundaries | None = None) -> Session:
    return trial_session(load(str(site / "kfm.yml"), environment()), "write", None, boundaries)


def failed(receipts: Sequence[Receipt]) -> list[Any]:
    return [(each.dataset, each.errors) for each in receipts if each.status == "FAILED"]


def run_all(session: Session, jobs: int) -> None:
    done = work_in_jobs(session, [run_request(name, actor="tester") for name in NAMES], Silent(), jobs)
    assert failed(done.receipts) == [] == done.problems


def killed_at(site: Path, at: int) -> list[str]:
    """Run everything in jobs, in a child that kills itself at this boundary; return the boundaries if it did not."""

    def child() -> list[str]:
        boundaries = Boundaries(at)
        with opened(site, boundaries) as session:
            run_all(session, JOBS)
        return boundaries.names

    found: list[str] = in_child(child)
    return found


def result(site: Path, jobs: int) -> Any:
    """Resume what is left, run everything again, and return what must depend neither on kills nor on jobs: refs, which
    runs made something, and the public files."""

    def child() -> Any:
        with opened(site) as session:
            left = work(session, [resume_request()], Silent())
            assert failed(left.receipts) == [] == left.problems
            run_all(session, jobs)
            state = session.state
            assert list(state.runs.unfinished()) == [] == list(state.inbox.waiting())
            made = [entry for entry in state.ledger.entries() if entry.outcome == "done"]
            return [sorted(state.refs.all()), sorted(f"{entry.op_type} {entry.dataset}" for entry in made)]

    public = site / "public" / "datasets"
    said = in_child(child)
    files = {str(path.relative_to(public)): path.read_bytes() for path in public.rglob("*") if path.is_file()}
    return said, sorted(files), {name: body for name, body in files.items() if name.endswith(".csv")}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("jobs")
    with pytest.MonkeyPatch.context() as patch, hosts(3) as server:
        for name, value in {**environment(), "KFM_NOW": NOW}.items():
            if name.startswith("KFM_"):
                patch.setenv(name, value)
        at = f"http://127.0.0.%d:{server.port}"
        server.bodies = {f"/{n}.csv": rows(n, 50) for n in (1, 2, 3)}
        text = dataset("a", f"{at % 1}/1.csv") + dataset("b", f"{at % 2}/2.csv", "promote: auto")
        text += reading("b-again", "b") + dataset("c", f"{at % 3}/3.csv", "promote: auto")
        text += "  steps:\n    updater: steps.py:Steps\n    sensitivity: public\n"
        text += "    sources: {body: {uri: body.txt, format: text}}\n"
        made = (
            installation(folder / "text", server, text, "publish: file:public", "pages: false")
            .joinpath("kfm.yml")
            .read_text()
        )
        serial = laid_out(folder / "serial", made)
        with opened(serial) as session:  # here, so that the children find everything loaded
            run_all(session, 1)
        expected = result(serial, 1)
        whole = laid_out(folder / "whole", made)
        boundaries = len(killed_at(whole, 0))
        assert result(whole, 1) == expected
        yield Trial(made, expected, boundaries)


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_a_killed_parallel_run_is_resumed_to_the_result_of_a_serial_one(place: Path, trial: Trial, part: int) -> None:
    for number in range(part, KILLS, PARTS):
        site = laid_out(place / str(number), trial.text)
        at = 2 + number * (trial.boundaries - 10) // KILLS
        with pytest.raises(ChildKilled):
            killed_at(site, at)
        assert result(site, JOBS) == trial.serial, f"killed at {at}"
