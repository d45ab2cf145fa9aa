"""Kills at every boundary of a run that has a slot, or waits for one: what it held is free, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kfm.app.session.pools
from kfm import config
from kfm.app.authority.run_setup import context_of
from kfm.app.runs.run_control import resume_runs, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.errors import Full
from kfm.scheduling.triggers import keep
from tests.crash.harness import Voice, answer_of, end
from tests.crash.harness import begin as forked
from tests.crash.points import Points, boundary, die, install
from tests.sampling import sampled

BEGIN_MS = 1_780_000_000_000
LEASE_MS = 60_000
SLICES = 11  # no multiple of the two places a call has
CONFIG = """\
state: STATE
publish: noop
pools: {gpu: 1}
datasets:
"""
DATASET = """\
  NAME:
    version: "1.0.0"
    sensitivity: public
    pool: gpu
    sources: {rows: {uri: rows.csv, format: csv}}
    outputs: {rows: {from: rows}}
"""


def lay_out(folder: Path, state: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    text = CONFIG.replace("STATE", f"{state}:.kfm/state")
    (folder / "kfm.yml").write_text(text + "".join(DATASET.replace("NAME", name) for name in ("one", "two")))
    (folder / "rows.csv").write_text("id,n\na,1\n")


def opened(folder: Path, now_ms: int = BEGIN_MS) -> Session:
    resolved = config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
    return open_session(resolved, clock=FixedClock(now_ms))


def elsewhere() -> None:
    """In a child: it is a process of another machine, of which nobody here sees whether it lives."""
    kfm.app.session.pools.this_process = lambda: f"elsewhere:{os.getpid()}:1:2:3"  # type: ignore[attr-defined]


def run_once(folder: Path) -> None:
    with opened(folder) as session:
        kept = next(session.state.inbox.waiting("one"), None)
        run_trigger(session, kept or keep(session.state, new_trigger(session, "one", actor="tester")), patient=False)
        settle_session(session)


def wait_once(folder: Path) -> None:
    """Somebody has the slot for as long as another looks for one; then it is its turn."""
    with opened(folder) as session:
        waiting = keep(session.state, new_trigger(session, "one", actor="tester"))
        with kfm.app.session.pools.slot(
            session, context_of(session, new_trigger(session, "two"), dataset_updater(session, "two")), patient=False
        ):
            for _ in range(3):
                with pytest.raises(Full):
                    run_trigger(session, waiting, patient=False)
                session.clock.sleep(4)
        run_trigger(session, waiting, patient=False)
        settle_session(session)


def cut(folder: Path, at: int, work: Callable[[Path], None], *, far: bool) -> tuple[bool, list[str]]:
    def child(_voice: Voice) -> list[str]:
        if far:
            elsewhere()
        points = Points(at, die, only=boundary)
        install(points)
        work(folder)
        return points.labels

    ended = end(*forked(child))
    assert ended.killed or ended.code == 0, ended.failure
    return ended.killed, [] if ended.killed else ended.answer


def after(folder: Path, now_ms: int) -> Any:
    """Is the slot free, and can what was asked for be finished?"""

    def child(_voice: Voice) -> Any:
        with opened(folder, now_ms) as session:
            (gpu,) = kfm.app.session.pools.pool_statuses(session, ["gpu"])
            try:
                with kfm.app.session.pools.slot(
                    session,
                    context_of(session, new_trigger(session, "two"), dataset_updater(session, "two")),
                    patient=False,
                ):
                    got = True
            except Full:
                return [gpu.free, False, "", ""]
            list(resume_runs(session))
            if not session.state.refs.at("processed/one"):  # it died before it had asked
                run_trigger(session, new_trigger(session, "one", actor="tester"))
            settle_session(session)
            (gpu,) = kfm.app.session.pools.pool_statuses(session, ["gpu"])
            assert (gpu.free, gpu.waiting) == (1, [])
            assert not any(session.state.runs.unfinished()) and not any(session.state.inbox.waiting())
            return [gpu.free, got, session.state.refs.at("processed/one")]

    return answer_of(child)


@pytest.mark.parametrize("part", sampled(range(SLICES)))
@pytest.mark.parametrize("work", [run_once, wait_once])
@pytest.mark.parametrize("state", ["sqlite", "jsonl"])
def test_a_slot_is_free_within_one_lease_wherever_its_holder_is_killed(
    tmp_path: Path, state: str, work: Callable[[Path], None], part: int
) -> None:
    folder = tmp_path / "house"
    lay_out(folder, state)
    killed, labels = cut(folder, 0, work, far=False)
    assert not killed and len(labels) > 10
    whole = after(folder, BEGIN_MS)[2]
    kills = held = 0
    for far in (False, True):
        for at in range(1 + part, len(labels) + 1, SLICES):
            lay_out(folder, state)
            assert cut(folder, at, work, far=far)[0]
            kills += 1
            said = f"killed at {at} ({labels[at - 1]}), far: {far}"
            if far and (found := after(folder, BEGIN_MS))[1] is False:
                held += 1  # nobody here can know that it is dead: not before its lease is over
                assert found[0] == 0, said
            later = BEGIN_MS + (LEASE_MS + 20_000 if far else 20_000 if work is wait_once else 0)
            assert after(folder, later)[1:] == [True, whole], said
    assert kills and held
