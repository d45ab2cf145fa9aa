"""Random histories of everything that people do to an installation: every reader sees what a small model says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

from tests.app.interventions.years import Years
from tests.app.move.carried import kfm
from tests.app.move.conftest import environment, scratch
from tests.sampling import sampled

__all__ = ["environment", "scratch"]

STEPS = 12
HISTORIES = int(os.environ.get("TESTED_HISTORIES", "100"))


@pytest.mark.parametrize("seed", sampled(range(HISTORIES), every=25))
def test_every_reader_sees_what_the_model_says(scratch: str, seed: int, count: Callable[..., None]) -> None:
    history = Years(os.path.join(scratch, "site"), seed, count)
    history.publish()
    for _ in range(STEPS):
        history.random.choice(history.acts)()
        history.check()
    assert kfm(history.folder, "doctor", "--deep").code == 0
    count("histories of corrections and rollbacks")
    shutil.rmtree(history.folder)
