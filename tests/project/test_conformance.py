"""docs/conformance.md lists every requirement, claims only what is there, and each claim can be refuted by its test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.project.bans import ROOT
from tests.seeded.claims import CLAIMS, row_of
from tests.seeded.planting import misplaced, try_out

PAGE = ROOT / "docs" / "conformance.md"
REQUIREMENTS = {"U": 18, "D": 17, "O": 16, "W": 10, "P": 12}
_ROW = re.compile(r"^\| ([UDOWP]\d+) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", re.M)
_LINK = re.compile(r"\[[^\]]*\]\(\.\./([^)]+)\)")
_TEST = re.compile(r"\(\.\./(tests/[^)]+)\)(?: `(test_\w+)`)?")


class Row(NamedTuple):
    id: str
    requirement: str
    status: str
    code: str
    tests: str

    @property
    def claims(self) -> bool:
        return self.status != "not yet"


def rows() -> list[Row]:
    return [Row(*(cell.strip() for cell in found)) for found in _ROW.findall(PAGE.read_text(encoding="utf-8"))]


def named(tests: str) -> set[tuple[str, str]]:
    """Path and function of every test of a claim; what chooses among the parameters of one is left out."""
    words = [word.partition("::") for word in tests.split() if word.startswith("tests/")]
    return {(path, name.partition("[")[0]) for path, _, name in words}


def test_every_requirement_has_its_row_and_an_honest_status() -> None:
    found = rows()
    assert [row.id for row in found] == [
        f"{letter}{n}" for letter, last in REQUIREMENTS.items() for n in range(1, last + 1)
    ]
    for row in found:
        assert re.fullmatch(r"done|not yet|partly: \S.*", row.status), f"{row.id}: {row.status}"
        assert len(row.requirement) > 10, row.id


def test_what_is_claimed_names_its_code_and_its_test_and_the_rest_names_none() -> None:
    for row in rows():
        for cell in (row.code, row.tests):
            links = _LINK.findall(cell)
            assert bool(links) is row.claims, f"{row.id}: {cell!r}"
            for link in links:
                assert (ROOT / link).exists(), f"{row.id}: {link} does not exist"
        for path, name in _TEST.findall(row.tests):
            assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), (
                f"{row.id}: no {name} in {path}"
            )


def test_every_claim_of_the_page_is_broken_once_and_noticed_by_the_test_it_names() -> None:
    page = {row.id: set(_TEST.findall(row.tests)) for row in rows() if row.claims}
    broken: dict[str, set[tuple[str, str]]] = {}
    for claim, bug in CLAIMS.items():
        broken.setdefault(row_of(claim), set()).update(named(bug.tests))
    assert page == broken


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_place_of_every_claim_is_still_there(claim: str) -> None:
    assert misplaced(CLAIMS[claim]) == ""


@pytest.mark.long
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_that_is_broken_turns_the_test_of_its_row_red(claim: str, tmp_path: Path) -> None:
    assert try_out(CLAIMS[claim], tmp_path) == ""


@pytest.mark.long
@pytest.mark.parametrize("tests", sorted({bug.tests for bug in CLAIMS.values()}))
def test_unbroken_the_same_tests_are_green(tests: str, tmp_path: Path) -> None:
    """Else they would notice anything at all."""
    bug = next(bug for bug in CLAIMS.values() if bug.tests == tests)
    assert try_out(bug._replace(new=bug.old), tmp_path) == "no test noticed"


# Tests of this repository, and of single modules that no promise names by itself.
UNITS = ("project", "parsing", "config", "telemetry")


def test_every_test_folder_is_named_on_a_page() -> None:
    pages = PAGE.read_text(encoding="utf-8") + (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    for folder in (ROOT / "tests").rglob("*"):
        if folder.is_dir() and any(folder.glob("test_*.py")) and folder.name not in UNITS:
            name = folder.relative_to(ROOT).as_posix()
            assert name in pages, f"{name} proves nothing that is written down"


def test_the_ids_of_requirements_are_not_used_for_promises() -> None:
    """P ids are the toolkit's; a promise is written in full: promise 12."""
    told = re.compile(r"\bP(\d+)\b")
    for file in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]:
        if file == PAGE or file.name in ("claims.py", "test_conformance.py"):
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            assert not told.search(line) or "toolkit" in line, f"{file.relative_to(ROOT)}: {line.strip()[:80]}"
