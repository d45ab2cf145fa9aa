"""Declared steps in both languages: generated declarations over generated sources, and the vectors Node answers."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from tests.node import fuzz_transforms
from tests.node.twin import ROOT, node
from tests.sampling import tries

WAYS_TO_END = {"made", "case.json", "is held", "there is no column", "already", "same key", "no match"}


def test_generated_declarations_are_done_alike() -> None:
    outcomes: Counter[str] = Counter()
    number = tries(1600)
    assert fuzz_transforms.run(number, 20, outcomes) == []
    assert outcomes["made"] > number * 0.4
    assert outcomes.keys() >= WAYS_TO_END


@pytest.mark.long
def test_a_hundred_thousand_declarations_are_done_alike() -> None:
    assert fuzz_transforms.run(100_000, 21) == []


def test_node_answers_every_vector() -> None:
    command = [node(), "--test", str(ROOT / "node/tests/transforms.test.mjs")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stdout[-3000:]
    vectors = sum(path.read_text().count('"why"') for path in (ROOT / "conformance/transforms").glob("*.json"))
    assert f"# pass {vectors}" in told.stdout


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_transforms, "answer", lambda case, _room: {"made": {}, "case": len(case)})
    assert len(fuzz_transforms.run(3, 22)) == 3
