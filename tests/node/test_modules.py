"""Runs Node's own tests: every module, and every vector of conformance/."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest

from tests.node.twin import ROOT, node

pytestmark = pytest.mark.xdist_group("node")  # what they share is made once

NOT_IN_NODE = ("conformance/plans/diff.json",)  # how two plans differ is shown by `kfm plan`


@lru_cache(maxsize=1)
def told() -> list[dict[str, Any]]:
    """Every test in node/tests, and what became of it."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "node/tests").glob("*.test.mjs"))
    assert files
    done = subprocess.run(
        [node(), "--test", "--test-reporter=./node/tests/reporter.mjs", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found, done.stderr
    failed = "\n".join(f"{test['name']}: {test['why']}" for test in found if not test["passed"] and not test["skipped"])
    assert done.returncode == 0, failed or done.stderr
    assert not failed
    return found


def vectors() -> list[str]:
    """What the test of each vector is called: its file and its reason, which no other vector of the file has."""
    found = [
        f"{path.parent.name}/{path.stem}: {vector['why']}"
        for path in sorted((ROOT / "conformance").glob("*/*.json"))
        if path.relative_to(ROOT).as_posix() not in NOT_IN_NODE
        for vector in json.loads(path.read_bytes())["vectors"]
    ]
    assert [name for name, times in Counter(found).items() if times > 1] == []
    return found


def unasked(names: list[str], tests: list[dict[str, Any]]) -> list[str]:
    """Those that were not asked, or whose test did not pass."""
    passed = Counter(test["name"] for test in tests if test["passed"])
    return [name for name in names if passed[name] != 1]


def test_everything_node_tests_of_itself_passes(count: Any) -> None:
    passed = [test for test in told() if test["passed"]]
    assert len(passed) > 400
    count("tests in Node", len(passed))


def test_every_vector_is_answered_in_node_too(count: Any) -> None:
    there = vectors()
    assert len(there) > 1000
    assert unasked(there, told()) == []
    count("vectors answered by both languages", len(there))


def test_a_vector_that_node_does_not_ask_or_skips_is_noticed() -> None:
    """Each in its turn: there is none whose name another one would do for."""
    tests = told()
    skipped = [{**test, "passed": False, "skipped": True} for test in tests]
    for name in vectors():
        at = next(n for n, test in enumerate(tests) if test["name"] == name)
        for without in (tests[:at] + tests[at + 1 :], [*tests[:at], skipped[at], *tests[at + 1 :]]):
            assert unasked([name], without) == [name]
