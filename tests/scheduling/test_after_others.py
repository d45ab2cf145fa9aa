"""Datasets that come after others: one run for each set of versions they are made of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kfm import config
from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.runs.due_schedules import schedules_of
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.errors import BadInput

CODE = """\
from kfm import Output, Plan, Step, Updater

class First(Updater):
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("body")]
    def plan(self, inputs):
        return Plan([Step(id="one", key=("one",))])
    def perform(self, step, read):
        return Output(read.bytes(0), media_type="text/plain")

class After(First):
    above = ()
    def inputs(self, trigger, sources):
        return [sources.ref(f"processed/{name}") for name in self.above]
    def plan(self, inputs):
        text = " ".join(each.content_hash or "none" for each in inputs)
        return Plan([Step(id="one", key=("one",), params={"of": text})])
    def perform(self, step, read):
        return Output(step.params["of"].encode(), media_type="text/plain")
"""


def laid_out(folder: Path, edges: dict[str, list[str]]) -> Path:
    """A dataset for each name; those with something above them come after it."""
    code, said = [CODE], ["publish: noop", "datasets:"]
    for number, (name, above) in enumerate(edges.items()):
        kind = f"Made{number}"
        base = "After" if above else "First"
        code.append(
            f"class {kind}({base}):\n    id = {name!r}\n    dataset = 'kfm://dataset/{name}'\n    above = {above!r}\n"
        )
        said.append(f"  {name}:\n    updater: made.py:{kind}")
        if above:
            said.append(f"    schedule: {{after: [{', '.join(above)}]}}")
        else:
            said.append("    sources: {body: {uri: body.txt, format: text}}")
    (folder / "made.py").write_text("\n".join(code))
    (folder / "kfm.yml").write_text("\n".join(said) + "\n")
    (folder / "body.txt").write_text("0")
    return folder / "kfm.yml"


class Site:
    def __init__(self, path: Path, session: Session) -> None:
        self.folder = path.parent
        self.session = session
        self.problems: list[str] = []
        self.upkeep = Daemon(
            session, sorted(session.config.datasets), lambda name, problem: self.problems.append(str(problem))
        )

    def settled(self) -> int:
        """Rounds until nothing is made any more."""
        for n in range(100):
            if not list(self.upkeep.turn(patient=False)):
                assert not self.problems
                return n
        raise AssertionError("it never ends")

    def changed(self, text: str) -> None:
        (self.folder / "body.txt").write_text(text)
        run_trigger(self.session, new_trigger(self.session, "top", actor="tester"))

    def versions(self) -> Counter[str]:
        """How many versions each dataset has had."""
        return Counter(
            entry.dataset
            for entry in self.session.state.ledger.entries()
            if any(move.ref.startswith("processed/") for move in entry.moves)
        )


def opened(folder: Path, edges: dict[str, list[str]]) -> Site:
    path = laid_out(folder, edges)
    resolved = config.load(str(path), {"KFM_ACCEPT_WEAK_STORAGE": "true", "KFM_WATCH__POLL_S": "0"})
    site = Site(path, open_session(resolved, clock=FixedClock()))
    site.settled()  # followed from here on
    return site


def test_a_diamond_is_made_once_for_each_version_of_its_top(tmp_path: Path) -> None:
    site = opened(tmp_path, {"top": [], "left": ["top"], "right": ["top"], "foot": ["left", "right"]})
    for n in range(1, 4):
        site.changed(str(n))
        site.settled()
        assert site.versions() == dict.fromkeys(("top", "left", "right", "foot"), n)
    site.session.close()


def test_a_chain_of_ten_is_followed_to_its_end(tmp_path: Path) -> None:
    chain = ["top", *(f"d{n}" for n in range(1, 10))]
    site = opened(tmp_path, {name: chain[n - 1 : n] for n, name in enumerate(chain)})
    site.changed("1")
    site.settled()
    assert site.versions() == dict.fromkeys(chain, 1)
    site.session.close()


@pytest.mark.parametrize("width", [20, pytest.param(100, marks=pytest.mark.long)])
def test_all_that_come_after_one_are_made(tmp_path: Path, width: int) -> None:
    site = opened(tmp_path, {"top": [], **{f"d{n}": ["top"] for n in range(width)}})
    site.changed("1")
    site.settled()
    assert site.versions() == {"top": 1, **{f"d{n}": 1 for n in range(width)}}
    site.session.close()


def test_a_storm_of_versions_makes_one_run(tmp_path: Path) -> None:
    site = opened(tmp_path, {"top": [], "below": ["top"]})
    for n in range(50):
        site.changed(str(n + 1))
    site.settled()
    assert site.versions() == {"top": 50, "below": 1}
    asked = [each for each in site.session.state.inbox.all_ended() if each.trigger.kind == "event"]
    assert len(asked) == 1
    site.session.close()


def test_nothing_is_made_where_nothing_changed(tmp_path: Path) -> None:
    site = opened(tmp_path, {"top": [], "below": ["top"]})
    site.changed("1")
    site.settled()
    before = site.versions()
    run_trigger(site.session, new_trigger(site.session, "top", actor="tester"))  # a NOOP
    assert site.settled() == 0
    assert site.versions() == before
    site.session.close()


def test_a_circle_is_refused_by_its_names(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"top": [], "a": ["top", "c"], "b": ["a"], "c": ["b"]})
    with pytest.raises(BadInput, match="a comes after c comes after b comes after a"):
        schedules_of(config.load(str(path), {}))


def test_one_that_is_not_there_is_refused_with_its_place(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"top": [], "a": ["tap"]})
    with pytest.raises(BadInput, match=r"kfm.yml:\d+:\d+: after names no dataset 'tap'") as caught:
        schedules_of(config.load(str(path), {}))
    assert "did you mean top?" in caught.value.hint
