"""Python and Node hold a source against its contract alike, whatever either of them is."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.node import inspection_samples as samples
from tests.node.fuzz_inspection import run
from tests.node.twin import Twin, encoded


def test_a_thousand_generated_contracts_and_sources_have_one_answer() -> None:
    seen: Counter[str] = Counter()
    assert run(1_000, 20260101, seen) == []
    assert min(seen["held"], seen["changed"], seen["as it came"]) > 50  # it sees every kind of outcome
    assert len([name for name in seen if name.startswith("rule ")]) > 30


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_twelve_thousand_generated_contracts_and_sources_have_one_answer(seed: int) -> None:
    assert run(12_000, seed) == []


def test_a_difference_would_be_seen() -> None:
    """The same contract over another source: the comparison is of what was found, not of whether it ended."""
    pick = random.Random(3)
    answers = set()
    with Twin("./inspection_answers.mjs") as twin:
        for _ in range(40):
            asked = samples.contract(pick)
            for body in (b"a\n1\n", b"a\nx\n", b'{"a":1}\n', b"\xff"):
                answers.add(str(twin.ask("inspect", asked, encoded(body), {})))
    assert len(answers) > 30
