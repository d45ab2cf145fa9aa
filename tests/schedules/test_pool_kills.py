"""Kills at every boundary of a run that has a slot, or waits for one: what it held is free, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kfm.house.pools
from kfm import config
from kfm.clock import FixedClock
from kfm.errors import Full
from kfm.house.opening import House, open_house
from kfm.orchestration.triggers import keep
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


def opened(folder: Path, now_ms: int = BEGIN_MS) -> House:
    resolved = config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
    return open_house(resolved, clock=FixedClock(now_ms))


def elsewhere() -> None:
    """In a child: it is a process of another machine, of which nobody here sees whether it lives."""
    kfm.house.pools.this_process = lambda: f"elsewhere:{os.getpid()}:1:2:3"  # type: ignore[attr-defined]


def run_once(folder: Path) -> None:
    with opened(folder) as house:
        kept = next(house.state.inbox.waiting("one"), None)
        house.run(kept or keep(house.state, house.trigger("one", actor="tester")), patient=False)
        house.settle()


def wait_once(folder: Path) -> None:
    """Somebody has the slot for as long as another looks for one; then it is its turn."""
    with opened(folder) as house:
        waiting = keep(house.state, house.trigger("one", actor="tester"))
        with kfm.house.pools.slot(house, house.trigger("two"), house.ports("two"), None, patient=False):
            for _ in range(3):
                with pytest.raises(Full):
                    house.run(waiting, patient=False)
                house.clock.sleep(4)
        house.run(waiting, patient=False)
        house.settle()


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
        with opened(folder, now_ms) as house:
            (gpu,) = kfm.house.pools.shown(house, ["gpu"])
            try:
                with kfm.house.pools.slot(house, house.trigger("two"), house.ports("two"), None, patient=False):
                    got = True
            except Full:
                return [gpu.free, False, "", ""]
            list(house.resume())
            if not house.state.refs.at("processed/one"):  # it died before it had asked
                house.run(house.trigger("one", actor="tester"))
            house.settle()
            (gpu,) = kfm.house.pools.shown(house, ["gpu"])
            assert (gpu.free, gpu.waiting) == (1, [])
            assert not any(house.state.runs.unfinished()) and not any(house.state.inbox.waiting())
            return [gpu.free, got, house.state.refs.at("processed/one")]

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
