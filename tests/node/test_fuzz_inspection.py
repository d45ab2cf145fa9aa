"""Python and Node check a source against its contract alike, for any source and contract."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.node import inspection_samples as samples
from tests.node.fuzz_inspection import compare_patterns, run
from tests.node.twin import Twin, encoded
from tests.parsing.test_patterns import HOSTILE
from tests.sampling import stride, tries


def test_a_thousand_generated_contracts_and_sources_have_one_answer() -> None:
    seen: Counter[str] = Counter()
    assert run(tries(1_000), 20260101, seen) == []
    assert min(seen["held"], seen["changed"], seen["as it came"]) > tries(100)  # it sees every kind of outcome
    assert len([name for name in seen if name.startswith("rule ")]) > tries(30)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_twelve_thousand_generated_contracts_and_sources_have_one_answer(seed: int) -> None:
    assert run(12_000, seed) == []


def patterns(count: int, seed: int) -> list[str]:
    pick = random.Random(seed)
    with Twin("./inspection_answers.mjs") as twin:
        return [text for _ in range(0, count, 250) for text in compare_patterns(twin, pick, 250)]


def test_a_thousand_generated_patterns_take_the_same_twelve_thousand_values() -> None:
    assert patterns(1_000, 20260102) == []


def test_no_value_keeps_a_pattern_busy_in_node() -> None:
    with Twin("./inspection_answers.mjs") as twin:
        for pattern, value in HOSTILE[:: stride(3)]:
            assert twin.ask("pattern", pattern, [value])["ok"] == [[False, False]], pattern


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_twenty_thousand_generated_patterns_take_the_same_values(seed: int) -> None:
    assert patterns(20_000, seed) == []


def test_a_difference_would_be_seen() -> None:
    """The same contract over another source: the comparison is of what was found, not of whether it ended."""
    pick = random.Random(3)
    answers = set()
    with Twin("./inspection_answers.mjs") as twin:
        for _ in range(40):
            asked = samples.contract(pick)
            for body in (b"a\n1\n", b"a\nx\n", b'{"a":1}\n', b"\xff"):
                answers.add(str(twin.ask("inspect", asked, encoded(body), {})))
    assert len(answers) > 40
