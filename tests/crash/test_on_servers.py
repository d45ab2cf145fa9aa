"""The same kills and stops where nothing is a file of this machine: the state in Postgres, objects and public files in
S3, the queue in Redis. It ends as undisturbed, and a worker that was replaced changes neither the state nor the bucket.
"""

from __future__ import annotations

import pytest

from tests.crash import counts
from tests.crash.harness import cut_run
from tests.crash.points import boundary
from tests.crash.test_kills import random_kills
from tests.crash.test_stops import publishing, stop_everywhere
from tests.crash.trial import SERVERS, Trial
from tests.crash.updaters import FAN, SCRIPTS, SMALLEST, STATIONS, Script
from tests.sampling import sampled
from tests.servers.seaweed import seaweed

__all__ = ["seaweed"]

pytestmark = [pytest.mark.xdist_group("seaweed"), pytest.mark.usefixtures("seaweed")]
SLICES = 17


@pytest.mark.parametrize(("name", "part"), sampled([(name, part) for name in SCRIPTS for part in range(SLICES)]))
def test_a_kill_at_any_boundary_changes_nothing_in_the_end(scratch: str, name: str, part: int) -> None:
    trial = Trial(scratch, SERVERS, SCRIPTS[name], boundary)
    assert any(label.startswith("tables.commit") for label in trial.labels)
    assert any(label.startswith("bucket.create") for label in trial.labels)
    for at in range(1 + part, len(trial.labels) + 1, SLICES):
        trial.empty()
        ended = trial.cut(at)
        trial.judge(f"killed at {at} ({trial.labels[at - 1]})", ended.acks)
        counts.add("singles")


@pytest.mark.long
@pytest.mark.parametrize("part", range(SLICES))
def test_a_second_kill_during_the_recovery_changes_nothing_either(scratch: str, part: int) -> None:
    trial = Trial(scratch, SERVERS, SMALLEST, boundary)
    for first in range(1 + part, len(trial.labels) + 1, SLICES):
        for second in range(1, 10_000):
            trial.empty()
            acks = trial.cut(first).acks
            ended = cut_run(second, trial.folder, SMALLEST, boundary, recovering=True)
            if not ended.killed:
                assert ended.code == 0, ended.failure
                break
            trial.judge(f"killed at {first} ({trial.labels[first - 1]}) and at {second} again", {**acks, **ended.acks})
            counts.add("pairs")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("script", [FAN, STATIONS], ids=lambda script: script.name)
def test_a_kill_at_any_time_changes_nothing_in_the_end(scratch: str, script: Script, seed: int) -> None:
    random_kills(scratch, SERVERS, script, seed=40_000 + seed, wanted=20)


@pytest.mark.parametrize("every", sampled([4, 1]))
def test_a_worker_that_was_replaced_changes_nothing(scratch: str, every: int) -> None:
    seen = stop_everywhere(scratch, SERVERS, SMALLEST, boundary, every=every)
    assert seen["done, then fenced"] and (seen["busy, then done"] or every > 1), seen


@pytest.mark.long
def test_a_publisher_that_was_overtaken_moves_no_pointer_back(scratch: str) -> None:
    seen = stop_everywhere(scratch, SERVERS, STATIONS, publishing)
    assert seen["done, then done"], seen


@pytest.mark.long
def test_a_worker_of_operations_that_was_replaced_changes_nothing(scratch: str) -> None:
    seen = stop_everywhere(scratch, SERVERS, STATIONS, boundary, may_begin_later=True, every=3)
    assert seen["done, then fenced"], seen
