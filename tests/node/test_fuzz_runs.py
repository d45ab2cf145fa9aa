"""A sample of generated datasets through both runners as processes; the long tests run the promised number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node import fuzz_runs
from tests.sampling import tries

Count = Callable[..., None]
ENDS = {"done", "noop", "held", "failed", "refused", "files published"}


def test_whole_runs_of_generated_datasets_are_the_same(tmp_path: Path, count: Count) -> None:
    outcomes: Counter[str] = Counter()
    number = tries(48)
    assert fuzz_runs.run(number, 111, tmp_path, outcomes) == []
    assert outcomes["done"] and outcomes["held"], outcomes
    count("generated datasets run whole by both languages", number)


@pytest.mark.long
@pytest.mark.parametrize("seed", [108, 109, 110])
def test_many_whole_runs_of_generated_datasets_are_the_same(seed: int, tmp_path: Path, count: Count) -> None:
    outcomes: Counter[str] = Counter()
    assert fuzz_runs.run(200, seed, tmp_path, outcomes) == []
    assert {end for end, number in outcomes.items() if number} >= ENDS, outcomes
    count("generated datasets run whole by both languages", 200)
