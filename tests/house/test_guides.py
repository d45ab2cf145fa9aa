"""The front page and every guide work as written, and say what really happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.bans import ROOT
from tests.house.guides import blocks, follow, matches

GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


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
