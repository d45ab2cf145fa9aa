"""The policies hold under the tools that others use: OPA's own checks and tests, and Conftest."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from kfm.model import labels
from tests.policy.examples import EXAMPLES, ROOT, example
from tests.policy.servers import tool

POLICIES = ROOT / "policies"


def said(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def test_what_is_installed_is_what_is_written() -> None:
    installed = {path.name: path.read_text() for path in (ROOT / "src/kfm/policy/rego").iterdir()}
    written = {path.name: path.read_text() for path in POLICIES.glob("*.rego") if not path.name.endswith("_test.rego")}
    assert installed == written and len(written) == 10


def test_each_policy_has_its_test() -> None:
    for path in POLICIES.glob("*.rego"):
        if not path.name.endswith("_test.rego") and path.name not in ("facts.rego", "words.rego"):
            assert (POLICIES / f"{path.stem}_test.rego").is_file()


def test_every_word_of_a_label_that_a_policy_knows_is_one_that_labels_have() -> None:
    known = {"sensitivity": {**labels.SENSITIVITY, "unsaid": ""}, "care": labels.CARE, "access": labels.ACCESS}
    found = []
    for path in POLICIES.glob("*.rego"):
        for field, said in re.findall(r"label\.(\w+) (?:==|in) (\"\w+\"|\{.*?\})", path.read_text()):
            found += [(field, word) for word in re.findall(r'"(\w+)"', said)]
    in_words = [(field, word) for field, word in found if field in known]
    assert {field for field, _ in in_words} == set(known)
    assert [pair for pair in in_words if pair[1] not in known[pair[0]]] == []


def test_opa_finds_nothing_to_say_about_them() -> None:
    assert said(tool("opa"), "check", "--strict", "policies") == (0, "")
    assert said(tool("opa"), "fmt", "--list", "policies") == (0, "")


def test_opa_passes_their_tests_and_each_rule_is_reached() -> None:
    status, told = said(tool("opa"), "test", "--timeout=120s", "--coverage", "--format=json", "policies")
    assert status == 0, told
    files = json.loads(told)["files"]
    missed = {name: found["not_covered"] for name, found in files.items() if found.get("not_covered")}
    # Only a server or decide() gives the digest of the policies, and asks for the verdict.
    for name, places in missed.items():
        lines = Path(ROOT / name).read_text().splitlines()
        for place in places:
            text = "\n".join(lines[place["start"]["row"] - 1 : place["end"]["row"]])
            assert any(word in text for word in ("policy", "verdict", "obligations := set()", "warn := set()")), (
                name,
                text,
            )


def test_a_test_that_fails_is_seen(tmp_path: Path) -> None:
    for path in POLICIES.glob("*.rego"):
        text = path.read_text()
        if path.name == "promotion.rego":
            assert "allow if count(missing) == 0" in text
            text = text.replace("allow if count(missing) == 0", "allow if count(missing) < 2")
        (tmp_path / path.name).write_text(text)
    status, told = said(tool("opa"), "test", "--timeout=120s", str(tmp_path))
    assert status != 0 and "test_deny_is_empty_exactly_when_allow_is_true" in told


@pytest.mark.parametrize("name", EXAMPLES)
def test_conftest_says_the_same(name: str, tmp_path: Path) -> None:
    conftest = tool("conftest")
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(example(name)))
    bad.write_text(json.dumps(example(name) | {"subjects": ["sha256:" + "b" * 64]}))
    arguments = ("test", "--policy", "policies", "--namespace", f"kfm.{EXAMPLES[name]}", "--no-color")
    assert said(conftest, *arguments, str(good))[0] == 0
    assert said(conftest, *arguments, str(bad))[0] == 1


@pytest.mark.long
def test_conftest_passes_their_tests() -> None:
    # It gives each test five seconds and cannot be told otherwise: on a busy machine that is no verdict.
    for _ in range(10):
        status, told = said(tool("conftest"), "verify", "--policy", "policies", "--no-color")
        if "context deadline exceeded" not in told:
            break
    assert status == 0 and " 0 failures" in told and not told.strip().startswith("0 tests"), told
