"""What is left to the long suite is known: the sample is part of the whole, and the whole is all there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import sampling
from tests.sampling import sampled, stride, tries

ROOT = Path(__file__).resolve().parents[2]


def kept(values: list[object]) -> list[object]:
    return [value for value in values if not isinstance(value, type(pytest.param()))]


def test_the_first_ones_or_each_nth_are_tried_with_every_commit_and_nothing_is_dropped() -> None:
    assert kept(sampled(range(5))) == [0] and kept(sampled(range(5), keep=2)) == [0, 1]
    assert kept(sampled(range(7), every=3)) == [0, 3, 6]
    pairs = sampled([("a", 1), ("b", 2)])
    assert kept(pairs) == [("a", 1)] and tuple(pairs[1].values) == ("b", 2)
    assert [mark.name for mark in pairs[1].marks] == ["long"] and len(sampled(range(7), every=3)) == 7


def test_what_is_drawn_and_what_is_swept_is_whole_in_the_long_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "everything", True)
    assert (tries(300), stride(3), list(range(6))[:: stride(3)]) == (300, 1, [0, 1, 2, 3, 4, 5])
    monkeypatch.setattr(sampling, "everything", False)
    assert (tries(300), tries(1), stride(3), list(range(6))[:: stride(3)]) == (75, 1, 3, [0, 3])


TESTS = """
import pytest
from tests.sampling import sampled, tries

@pytest.mark.parametrize("state", ["sqlite", "jsonl"])
def test_state(state): pass

@pytest.mark.parametrize("runner", ["python", "node"])
def test_runner(runner): pass

@pytest.mark.parametrize("n", sampled(range(3)))
def test_part(n): pass

def test_tries(record_property): assert tries(8) == TRIES
"""


@pytest.mark.parametrize(("words", "passed", "number"), sampled([(["-m", "not long"], 4, 2), ([], 8, 8)]))
def test_only_a_run_that_leaves_out_what_is_long_samples(
    words: list[str], passed: int, number: int, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_it.py").write_text(TESTS.replace("TRIES", str(number)))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and f"{passed} passed" in done.stdout, done.stdout
