"""A freeze at red among many runs, each at another place: all stop at their next step, and nothing is lost."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session
from kfm.engine.execute import FLUSH_S
from kfm.errors import Frozen
from kfm.model.records import Step
from kfm.model.updater import Output
from tests.app.move.carried import kfm
from tests.engine.crowds import Crowd, Installation, Told, attempt, wait_until
from tests.engine.test_freeze_races import moved_while_frozen
from tests.sampling import everything

RUNS = 50 if everything else 14
STEPS = 11  # of each run
TRANSACTIONS = 7  # of a run; a promotion has fewer


class Parked:
    """The place where a run waits until the freeze has returned: a step, or before a transaction."""

    def __init__(self, folder: Path, number: int) -> None:
        self.reached, self._go = folder / f"reached-{number}", folder / "go"
        self.begun_after = 0  # steps

    def wait(self) -> None:
        self.reached.touch()
        while not self._go.exists():
            time.sleep(0.005)

    def in_step(self, session: Session, dataset: str, which: int) -> None:
        def perform(step: Step, read: Any) -> Output:
            self.begun_after += self._go.exists()
            if step.params["n"] == which:
                self.wait()
            return Output.text(step.id)

        dataset_updater(session, dataset).perform = perform  # type: ignore[method-assign]

    def before_transaction(self, session: Session, which: int) -> None:
        begun, transaction = 0, session.state.transaction

        def counted(*words: Any, **named: Any) -> Any:
            nonlocal begun
            begun += 1
            if begun == which:
                self.wait()
            return transaction(*words, **named)

        session.state.transaction = counted  # type: ignore[method-assign]


def worker(site: Installation, number: int) -> Callable[[], tuple[Told, int]]:
    """A process that runs a dataset or promotes it, and is parked at a place of its own on the way."""
    dataset, is_promotion = f"d{number}", number % 5 == 4

    def work() -> tuple[Told, int]:
        with site.open() as session:
            parked = Parked(site.folder, number)
            if is_promotion:
                parked.before_transaction(session, 1 + number // 5 % 4)
                told = attempt(lambda: run_operation(session, "promote", dataset, actor="a"))
            elif number % 2:
                parked.in_step(session, dataset, number // 2 % STEPS)
                told = attempt(lambda: run_trigger(session, new_trigger(session, dataset, actor="a")))
            else:
                parked.before_transaction(session, 1 + number // 2 % TRANSACTIONS)
                told = attempt(lambda: run_trigger(session, new_trigger(session, dataset, actor="a")))
            try:
                settle_session(session)
            except Frozen:
                """What was committed before the freeze is delivered after the thaw."""
            return told, parked.begun_after

    return work


def outside(site: Installation) -> dict[str, str]:
    paths = sorted(path for path in (site.folder / "public").rglob("*") if path.is_file())
    return {os.fspath(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def moving(site: Installation) -> dict[str, str]:
    with site.open() as session:
        return {name: at for name, at in session.state.refs.all() if not name.startswith("switch/")}


def test_every_run_stops_within_a_step_and_the_catch_up_plan_is_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Callable[..., None]
) -> None:
    monkeypatch.setenv("KFM_ACTOR", "tester")
    site = Installation(tmp_path / "site", "sqlite", [f"d{n}" for n in range(RUNS)])
    config = site.folder / "kfm.yml"
    config.write_text("publish: file:public\n" + config.read_text())
    folder = str(site.folder)
    promoted = [f"d{n}" for n in range(RUNS) if n % 5 == 4]
    for name in promoted:
        assert kfm(folder, "run", name).code == 0
    crowd = Crowd([worker(site, number) for number in range(RUNS)])
    crowd.begin()
    wait_until(lambda: all((site.folder / f"reached-{n}").exists() for n in range(RUNS)))

    assert kfm(folder, "freeze", "--reason", "stop").code == 0
    refs, files = moving(site), outside(site)
    busy = kfm(folder, "freeze", "--wait", "--wait-limit", "0", "--reason", "is anyone at work")
    assert busy.code == 69 and "is still at work" in busy.err, busy
    time.sleep(FLUSH_S)  # a run looks at the flags this often while it begins steps
    (site.folder / "go").touch()
    quiet = kfm(folder, "freeze", "--wait", "--reason", "wait for them")
    assert quiet.code == 0, quiet
    measured = re.search(r"no run is at work, ([\d.]+) s after the freeze", quiet.err)
    assert measured, quiet.err
    told = [(Told(*one), steps) for one, steps in (ended.answer for ended in crowd.end())]

    assert moving(site) == refs and outside(site) == files, "something moved after the freeze returned"
    # A run that had committed, and had only its lease to give back, is done: its ref had moved before the freeze.
    done = {f"d{number}" for number, (one, _) in enumerate(told) if one.outcome == "done"}
    assert {f"{'published' if name in promoted else 'processed'}/{name}" for name in done} <= set(refs)
    assert {one.exit_code for one, _ in told if one.outcome != "done"} == {5}, Counter(one for one, _ in told)
    assert len(done) <= RUNS / 5, "too few runs met the freeze"
    assert max(steps for _, steps in told) <= 1, "a run began steps after the freeze"
    with site.open() as session:
        assert not moved_while_frozen(list(session.state.ledger.entries()))
        kept = {trigger.dataset: trigger.trigger_id for trigger in session.state.inbox.waiting()}
        left = {run.dataset: run.run_id[:8] for run in session.state.runs.unfinished()}
    assert len(kept) + len(left) + len(done) == RUNS, "a request was lost, or kept twice"

    plan = kfm(folder, "thaw", "--catch-up", "all", "--dry-run")
    assert plan.code == 0 and moving(site) == refs
    shown = [f"{name}: 1 kept request to run" for name in sorted(kept)]
    shown += [
        f"{name}: interrupted run {run} to go on; `kfm runs cancel` ends it" for name, run in sorted(left.items())
    ]
    assert plan.err.splitlines()[:-1] == shown
    assert kfm(folder, "thaw", "--catch-up", "all", "--reason", "go").code == 0
    with site.open() as session:
        for _ in resume_runs(session):
            """One after the other."""
        settle_session(session)
        assert not list(session.state.inbox.waiting()) and not list(session.state.runs.unfinished())
        ended = [session.state.inbox.ended(trigger) for trigger in kept.values()]
        assert len({one.run_id for one in ended if one is not None}) == len(kept)
    now = moving(site)
    assert {f"processed/d{n}" for n in range(RUNS)} | {f"published/{name}" for name in promoted} <= set(now)
    site.sound()
    count("runs that a freeze met, each at another place", RUNS)
