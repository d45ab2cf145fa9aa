"""A trial accepts a good updater, and says what is wrong with a bad one so that a newcomer knows what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kfm.errors import BadInput
from kfm.testing import Trial, UpdaterFailed
from tests.testing import subjects

SOURCES = {"wells": {"text": subjects.WELLS, "format": "csv"}}


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Callable[[type], Trial]]:
    made: list[Trial] = []

    def make(kind: type) -> Trial:
        made.append(Trial(kind, str(tmp_path), sources=SOURCES))
        return made[-1]

    yield make
    for each in made:
        each.close()


Maker = Callable[[type], Trial]


def test_a_good_updater_passes_and_was_killed_at_every_boundary(trial: Maker) -> None:
    tried = trial(subjects.Good)
    tried.check()
    assert tried.outputs() == {
        "part/0": b"api,county,depth\n1,Stanton,5661\n",
        "part/1": b"api,county,depth\n2,Reno,3310\n",
        "part/2": b"api,county,depth\n3,Reno,120\n",
    }
    for place in (
        *(f"{when} step part-{n}" for n in range(3) for when in ("before", "after")),
        "before the commit of a transaction",
        "after the commit of a transaction",
        "before telling the outside",
    ):
        assert place in tried.tried, place
    assert len(tried.tried) > 15


def test_scratch_files_may_be_written(trial: Maker) -> None:
    trial(subjects.Scratch).check_dry_run()


BAD = [
    (subjects.ImpurePlan, "plan.impure", "time.time"),
    (subjects.CountingPlan, "plan.impure", "two different plans"),
    (subjects.PlanByHashSeed, "plan.varies", "hash seed"),
    (subjects.RandomOutput, "output.varies", "key part/0 was sha256:"),
    (subjects.OutputByHashSeed, "output.varies", "hash seed"),
    (subjects.WritesBeside, "effect.outside", "subjects.py:"),
    (subjects.WritesInInputs, "effect.outside", "made the folder"),
    (subjects.StreamsBeside, "effect.outside", "wrote the file"),
    (subjects.StartsAProgram, "effect.outside", "started the program true"),
    (subjects.Remembers, "crash.differs", "then resumed by another process"),
    (subjects.OtherInputs, "inputs.vary", "different inputs"),
    (subjects.Raises, "run.failed", "no such well"),
]


@pytest.mark.parametrize(("kind", "rule", "told"), BAD, ids=[kind.__name__ for kind, _, _ in BAD])
def test_a_bad_updater_is_reported_with_what_it_did(trial: Maker, kind: type, rule: str, told: str) -> None:
    with pytest.raises(UpdaterFailed) as caught:
        trial(kind).check()
    message = str(caught.value)
    assert caught.value.rule == rule, message
    first, _, *rest = message.splitlines()
    assert first.startswith("updater wells ") and first.endswith(f"({rule})")
    assert [line.split(":")[0].strip() for line in rest] == ["tried", "found", "why", "do"]
    assert told in message
    assert not os.path.lexists(subjects.BESIDE)


def test_what_cannot_be_tried_is_refused(tmp_path: Path) -> None:
    class Local(subjects.Good):
        pass

    with pytest.raises(BadInput, match="inside a function"):
        Trial(Local, str(tmp_path / "a"))
    with pytest.raises(BadInput, match="not an updater"):
        Trial(str, str(tmp_path / "b"))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="next to or above the test"):
        Trial("wells", str(tmp_path / "c"), near="/")
