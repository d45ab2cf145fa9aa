"""The front page and every guide work as written, and say what really happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kfm.cli.parser import Usage, parse
from tests.house.bans import ROOT, repository_files
from tests.house.guides import blocks, follow, matches

FOLDERS = ("guides", "patterns", "specs", "checklists")
GUIDES = [ROOT / "README.md", *(page for name in FOLDERS for page in sorted((ROOT / "docs" / name).glob("*.md")))]
GUIDES += sorted((ROOT / "docs" / "runbooks").rglob("*.md"))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_works_as_written(page: Path, tmp_path: Path) -> None:
    assert follow(page, tmp_path) >= 3


@pytest.mark.parametrize(
    ("said", "answer", "fits"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("a…c\n", "abbc\n", True),
        ("a…c\n", "ab\nbc\n", False),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("…\nz\n", "a\nz", True),
        ("a.c\n", "abc\n", False),
    ],
)
def test_an_answer_is_compared_line_by_line(said: str, answer: str, fits: bool) -> None:
    assert matches(said, answer) is fits


def follow_text(text: str, folder: Path) -> int:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return follow(page, folder / "run")


def test_a_page_that_is_wrong_is_found(tmp_path: Path) -> None:
    wrong = (
        "```sh\nfalse\n```\n",
        "```sh exit=3\ntrue\n```\n",
        "```sh\necho a\n```\n```text\nb\n```\n",
        "```python\nfrom kfm import Nothing\n```\n",
        "```ruby\nputs 1\n```\n",
        "```\nkfm run\n```\n",
    )
    for n, text in enumerate(wrong):
        (tmp_path / str(n)).mkdir()
        with pytest.raises(AssertionError):
            follow_text(text, tmp_path / str(n))


def test_files_and_folders_are_where_the_reader_stands(tmp_path: Path) -> None:
    text = "```sh\nmkdir a && cd a\n```\n```csv file=x.csv\n1\n```\n```sh\ncat x.csv\n```\n```text\n1\n```\n"
    assert follow_text(text, tmp_path) == 2
    assert [block.file for block in blocks(text)] == ["", "x.csv", "", ""]


_INLINE = re.compile(r"`((?:KFM_\w+=\S+ )*)kfm ([^`|]+)`")
PAGES = [ROOT / name for name in repository_files() if name.endswith(".md") and name != "docs/performance.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_command_in_the_text_of_a_page_is_one_that_can_be_typed(page: Path) -> None:
    wrong = []
    for _, words in _INLINE.findall(page.read_text(encoding="utf-8")):
        if problem := untypable(words):
            wrong.append(f"kfm {words}: {problem}")
    assert wrong == []


def untypable(words: str) -> str:
    """Why it cannot be typed; that something has to be added is no reason."""
    try:
        parse(shlex.split(words))
    except Usage as problem:
        return "" if "are required" in problem.message or "expected one argument" in problem.message else str(problem)
    except SystemExit:  # --help
        pass
    return ""


def test_a_command_that_is_none_is_found() -> None:
    assert untypable("rollback wells --to nothing") == untypable("promote") == untypable("run DATASET --force") == ""
    assert "no command" in untypable("relase wells")
    assert "--too" in untypable("rollback wells --too nothing")
