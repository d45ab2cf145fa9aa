"""What is tested in Node's own words: every module, and every vector of conformance/."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from functools import lru_cache
from typing import Any

from tests.node.twin import ROOT, node


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


def test_everything_node_tests_of_itself_passes(count: Any) -> None:
    passed = [test for test in told() if test["passed"]]
    assert len(passed) > 400
    count("tests in Node", len(passed))


def test_every_vector_is_answered_in_node_too(count: Any) -> None:
    """A test of a vector carries its reason in its name: a vector that none carries was not asked."""
    passed = Counter(test["name"] for test in told() if test["passed"])
    asked = 0
    for path in sorted((ROOT / "conformance").glob("*/*.json")):
        for vector in json.loads(path.read_bytes())["vectors"]:
            asked += 1
            assert any(name.endswith(vector["why"]) for name in passed), f"{path.name}: {vector['why']}"
    assert asked > 400
    count("vectors answered by both languages", asked)


def test_a_vector_that_nobody_asks_would_be_noticed() -> None:
    assert not any(test["name"].endswith("a reason that no vector has") for test in told())
