"""The suite notices every bug that is put in on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeded.bugs import BUGS
from tests.seeded.planting import Bug, Misplaced, misplaced, planted, try_out

MODULE = """\
LIMIT = 1


class Door:
    limit = 1

    @property
    def shut(self):
        def inner():
            return 1
        return inner


def shut():
    return 1, 1
"""


@pytest.mark.parametrize("name", BUGS)
def test_the_place_of_every_bug_is_still_there(name: str) -> None:
    assert misplaced(BUGS[name]) == ""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "kfm").mkdir(parents=True)
    (tmp_path / "src" / "kfm" / "door.py").write_text(MODULE)
    (tmp_path / "src" / "kfm" / "__init__.py").write_text("LIMIT = 1\n")
    (tmp_path / "door.sql").write_text("SELECT 1;\n")
    return tmp_path


@pytest.mark.parametrize(
    ("place", "old", "line"),
    [
        ("kfm.door:LIMIT", "1", "LIMIT = 2"),
        ("kfm.door:Door.limit", "1", "    limit = 2"),
        ("kfm.door:Door.shut", "@property", "    2"),
        ("kfm.door:Door.shut.inner", "1\n", "            return 2        return inner"),
        ("kfm.door:shut", "1, 1", "    return 2"),
        ("kfm.door:", "class Door:", "2"),
        ("kfm:LIMIT", "1", "LIMIT = 2"),
        ("door.sql", "1", "SELECT 2;"),
    ],
)
def test_a_bug_is_put_into_its_place_and_nowhere_else(root: Path, place: str, old: str, line: str) -> None:
    file, text = planted(Bug(place, old, "2", ""), root)
    before = file.read_text()
    assert line in text.splitlines() and line not in before.splitlines()
    assert len(text) == len(before) - len(old) + 1


@pytest.mark.parametrize(
    ("place", "old", "why"),
    [
        ("kfm.gate:shut", "1", "there is no kfm.gate"),
        ("kfm.door:open", "1", "open is 0 times in kfm.door"),
        ("kfm.door:inner", "1", "inner is 0 times in kfm.door"),
        ("kfm.door:shut", "3", "its text is 0 times in kfm.door:shut"),
        ("kfm.door:shut", "1", "its text is 2 times in kfm.door:shut"),
        ("kfm/door.py", "LIMIT", "name the function"),
        ("gate.sql", "1", "there is no gate.sql"),
        ("door.sql", "3", "its text is 0 times in door.sql"),
    ],
)
def test_a_bug_without_its_place_says_what_is_missing(root: Path, place: str, old: str, why: str) -> None:
    with pytest.raises(Misplaced, match=why):
        planted(Bug(place, old, "2", ""), root)


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
