"""The suite notices every bug that is put in on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.bans import ROOT
from tests.seeded.bugs import BUGS, try_out


@pytest.mark.parametrize("name", BUGS)
def test_the_place_of_every_bug_is_still_there(name: str) -> None:
    bug = BUGS[name]
    assert (ROOT / "src" / bug.file).read_text(encoding="utf-8").count(bug.old) >= 1
    assert bug.old != bug.new
    for word in bug.tests.split():
        assert not word.startswith("tests/") or (ROOT / word).exists()


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_every_seeded_bug_is_caught(name: str, tmp_path: Path) -> None:
    assert try_out(name, BUGS[name], tmp_path) == ""


@pytest.mark.long
@pytest.mark.parametrize("tests", sorted({bug.tests for bug in BUGS.values()}))
def test_without_a_bug_the_same_tests_are_green(tests: str, tmp_path: Path) -> None:
    """Else they would notice anything at all."""
    bug = next(bug for bug in BUGS.values() if bug.tests == tests)
    assert try_out("", bug._replace(new=bug.old), tmp_path) == "no test noticed"
