"""The suite notices every bug that is put in on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeded.bugs import BUGS
from tests.seeded.planting import misplaced, try_out


@pytest.mark.parametrize("name", BUGS)
def test_the_place_of_every_bug_is_still_there(name: str) -> None:
    assert misplaced(BUGS[name]) == ""


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_every_seeded_bug_is_caught(name: str, tmp_path: Path) -> None:
    assert try_out(BUGS[name], tmp_path) == ""


@pytest.mark.long
@pytest.mark.parametrize("tests", sorted({bug.tests for bug in BUGS.values()}))
def test_without_a_bug_the_same_tests_are_green(tests: str, tmp_path: Path) -> None:
    """Else they would notice anything at all."""
    bug = next(bug for bug in BUGS.values() if bug.tests == tests)
    assert try_out(bug._replace(new=bug.old), tmp_path) == "no test noticed"
