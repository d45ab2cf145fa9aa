"""The front page and every guide work as written, and say what really happens."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from kfm import config
from kfm.cli.parser import Usage, parse
from kfm.errors import BadInput
from kfm.model.source_formats import Format
from kfm.model.transform_config import OutputFormat
from tests.abilities import lacking, needs_confinement
from tests.policy.tools import Absent, built
from tests.project import quickly, terminal
from tests.project.bans import ROOT, repository_files
from tests.project.guides import blocks, follow, matches

FOLDERS = ("start", "guides", "patterns", "specs", "checklists")
GUIDES = [ROOT / "README.md", *(page for name in FOLDERS for page in sorted((ROOT / "docs" / name).glob("*.md")))]
# Pages followed at a terminal of 80 columns, as a newcomer sees them.
AT_A_TERMINAL = {ROOT / name for name in ("README.md", "docs/start/tutorial.md", "docs/guides/first-updater.md")}
NARROW = {*AT_A_TERMINAL, ROOT / "docs/guides/protect-a-table.md"}
CONFINING = ROOT / "docs" / "guides" / "formats.md"  # reads what is read only by a confined reader
ON_SERVERS = ROOT / "docs" / "guides" / "scaling.md"  # tests/app/servers runs it
SLOWEST = ROOT / "docs" / "guides" / "testing-updaters.md"  # tests/testing tries what it shows with every commit
DEPLOYING = ROOT / "docs" / "guides" / "deploy.md"
GUIDES += [*sorted((ROOT / "docs" / "runbooks").rglob("*.md")), ROOT / "docs/receipts.md"]


def works(page: Path, folder: Path, kfm: str = "") -> None:
    if page == CONFINING:
        needs_confinement()
    columns = terminal.COLUMNS if page in NARROW else 0
    assert follow(page, folder, columns=columns, kfm=kfm, programs=programs_of(page)) >= 3


def programs_of(page: Path) -> dict[str, Path]:
    """The programs that a page needs and most machines lack."""
    try:
        return {"helm": built("helm")} if page == DEPLOYING else {}
    except Absent as problem:
        lacking(str(problem))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long) if page == SLOWEST else page
        for page in GUIDES
        if page not in (CONFINING, ON_SERVERS)
    ],
    ids=lambda page: page.stem,
)
def test_a_guide_works_as_written(page: Path, tmp_path: Path) -> None:
    works(page, tmp_path, kfm="" if page in AT_A_TERMINAL else quickly.script())


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in GUIDES if page not in (*AT_A_TERMINAL, ON_SERVERS)], ids=lambda page: page.stem
)
def test_a_guide_works_with_a_process_for_every_command(page: Path, tmp_path: Path) -> None:
    works(page, tmp_path)


def test_a_command_that_is_typed_ends_as_its_child_does(tmp_path: Path) -> None:
    """The quick way: its words, folder, environment, files, exit code and signals are the child's."""
    follow_quickly = partial(follow_text, kfm=quickly.script())
    assert follow_quickly("```sh exit=2\nkfm nonsense 'a b'\n```\n", tmp_path / "a") == 1
    typed = "```sh\nmkdir x && cd x && kfm init && test -f kfm.yml && KFM_ACTOR=me kfm config show | grep -c me\n```\n"
    assert follow_quickly(typed, tmp_path / "b") == 1
    with pytest.raises(AssertionError, match="ended with 3"):
        follow_quickly("```sh\nkfm status\n```\n", tmp_path / "c")


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


def follow_text(text: str, folder: Path, kfm: str = "") -> int:
    folder.mkdir(exist_ok=True)
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return follow(page, folder / "run", kfm=kfm)


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


# Pages of the site with blocks that nobody runs, and why.
NOT_RUN = {
    "docs/performance.md": "it measures for minutes, and wants the machine to itself",
    "docs/reference/errors.md": "the tree of errors, made of the code",
    "docs/reference/transforms.md": "a declaration without its data; below it is taken as a configuration",
}
_OPENING = re.compile(r"^[ \t>]*(?:[-*+]|\d+[.)])?[ \t]*(?:`{3,}|~{3,})", re.M)


def escaping(text: str, run: bool) -> str:
    """Why blocks of a page would be read but not run; "" if they are run, or there are none."""
    fences = len(_OPENING.findall(text))
    if run:
        return "" if fences == 2 * len(blocks(text)) else "has a block that `follow` does not see"
    return f"has {fences // 2} blocks and nobody runs it" if fences else ""


def site_pages() -> list[Path]:
    top = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    return [ROOT / name for name in repository_files() if name in top or name.startswith("docs/")]


def test_every_block_of_every_page_of_the_site_is_run_or_says_why_not() -> None:
    pages = [page for page in site_pages() if page.suffix == ".md"]
    assert len(pages) > 60 and set(GUIDES) <= set(pages)
    found = {
        page.relative_to(ROOT).as_posix(): why
        for page in pages
        if (why := escaping(page.read_text(encoding="utf-8"), page in GUIDES))
    }
    assert set(found) == set(NOT_RUN), found


def test_a_page_that_is_not_run_and_a_block_that_is_not_seen_are_found() -> None:
    command = "```sh\nkfm run\n```\n"
    assert escaping(command, run=True) == "" and escaping("no block, `kfm run` in the text\n", run=False) == ""
    assert "nobody runs it" in escaping(command, run=False)
    hidden = ("- ```sh\n  kfm run\n  ```\n", "~~~sh\nkfm run\n~~~\n", "1. so\n\n    ```sh\n    kfm run\n    ```\n")
    for text in hidden:
        assert "does not see" in escaping(command + text, run=True)
        assert "nobody runs it" in escaping(text, run=False)


def test_the_declaration_in_the_reference_is_a_configuration(tmp_path: Path) -> None:
    (block,) = blocks((ROOT / "docs" / "reference" / "transforms.md").read_text(encoding="utf-8"))
    (tmp_path / "kfm.yml").write_text(block.body, encoding="utf-8")
    found = config.load(str(tmp_path / "kfm.yml"), {}).config
    assert set(found.datasets["usgs-earthquakes"].outputs) == {"strong"}


_INLINE = re.compile(r"`((?:KFM_\w+=\S+ )*)kfm ([^`|]+)`")
# Their texts name commands as they were at the time they tell of.
OF_THEIR_TIME = {"docs/performance.md", "CHANGELOG.md"}
PAGES = [ROOT / name for name in repository_files() if name.endswith(".md") and name not in OF_THEIR_TIME]


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


def made_into(page: str) -> dict[str, set[str]]:
    """What the reference says that each format can be made into."""
    table = page.partition("## Formats of sources and outputs\n")[2].partition("\n## ")[0]
    found: dict[str, set[str]] = {}
    for sources, outputs in re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.M):
        wanted = {*re.findall(r"`(\w+)`", outputs), *(["itself"] if outputs.startswith("itself") else [])}
        for form in re.findall(r"`(\w+)`", sources):
            found[form] = wanted
    return found


def test_the_reference_says_what_every_format_can_be_made_into(tmp_path: Path) -> None:
    said = made_into((ROOT / "docs" / "reference" / "transforms.md").read_text(encoding="utf-8"))
    allowed: dict[str, set[str]] = {}
    for form, made in product(get_args(Format), ("itself", *get_args(OutputFormat))):
        how = "" if made == "itself" else f", format: {made}, steps: [{{select: [id, geometry]}}]"
        lines = f"sources: {{s: {{uri: s, format: {form}}}}}\n    outputs: {{o: {{from: s{how}}}}}\n"
        (tmp_path / "kfm.yml").write_text(f'datasets:\n  d:\n    version: "1.0.0"\n    {lines}')
        allowed.setdefault(form, set())
        with suppress(BadInput):
            config.load(str(tmp_path / "kfm.yml"), {})
            allowed[form].add(made)
    assert said == allowed
