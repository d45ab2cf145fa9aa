"""Every table at 80 columns: no word and no digest is broken, and one word means one thing."""

from __future__ import annotations

import ast
import inspect
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kfm.cli import render
from kfm.cli.render import Screen

from .conftest import Kfm
from .protected import laid_out

CLI = Path(render.__file__).parent
ROOM = 80
COMMANDS = (
    "run", "run --force --reason again", "run --dry-run --force --reason again", "plan rain-gauges",
    "runs list", "runs steps last", "runs receipts", "runs signals",
    "refs list", "refs history published/rain-gauges", "cat processed/rain-gauges",
    "quarantine rain-gauges", "status", "diff rain-gauges", "config show --resolved", "schedule freshness",
    "schedule list", "schedule show rain-gauges", "schedule next 3", "schedule pools", "schedule trigger rain-gauges",
    "triggers list", "backfill plan parts", "backfill status", "sinks", "doctor", "catalog show",
    "catalog show rain-gauges", "catalog discover data", "labels show", "policy gates rain-gauges",
    "policy explain rain-gauges", "policy test", "why-not rain-gauges", "review list", "preview list",
    "verify rain-gauges", "publish rain-gauges --dry-run", "resume", "reconcile", "keys list", "attest rain-gauges",
    "mask preview sites.csv --mask mask.yml", "mask scan sites.csv --against sites.csv --mask mask.yml",
)  # fmt: skip


def forms(cell: object) -> Iterable[set[str]]:
    """Of each piece of a cell, the ways in which it may be shown whole."""
    for piece in render._pieces(render.clean(cell) or "-"):
        brief = re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}", r"\1", piece)
        brief = re.sub(r"(\dT\d\d:\d\d):\d\d(?:\.\d+)?Z", r"\1Z", brief)
        yield {piece, brief, brief.replace("sha256:", "")}


def broken(columns: Sequence[str], rows: Sequence[Sequence[object]], lines: Sequence[str]) -> list[str]:
    """The pieces of a table that no line shows whole, and lines that are too long although they could be shorter."""
    said = "\n".join(lines)

    def shown(word: str) -> bool:
        before, after = (
            (r"(?<![0-9A-Za-z])" if word[0].isalnum() else ""),
            (r"(?![0-9A-Za-z])" if word[-1].isalnum() else ""),
        )
        return re.search(before + re.escape(word) + after, said) is not None

    found = [str(ways) for row in rows for cell in row for ways in forms(cell) if not any(map(shown, ways))]
    longest = max((len(piece) for row in rows for cell in row for piece in render._pieces(str(cell))), default=0)
    bound = max(ROOM, max(map(len, columns)) + 2 + longest)
    return found + [line for line in lines if len(line) > bound]


class Tables:
    """Takes the place of `Screen.table`, and keeps what was shown and who called."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, Sequence[str], list[Sequence[object]], list[str]]] = []

    def table(
        self, screen: Screen, columns: Sequence[str], rows: Iterable[Sequence[object]], *, width: int = 0
    ) -> None:
        caller = inspect.stack()[2]
        kept, lines, line = [list(row) for row in rows], [], screen.line

        def keep(text: str = "") -> None:
            lines.append(text)
            line(text)

        screen.line = keep  # type: ignore[method-assign]
        try:
            TABLE(screen, columns, kept, width=width)
        finally:
            screen.line = line  # type: ignore[method-assign]
        self.shown.append((f"{Path(caller.filename).stem}.{caller.function}", columns, kept, lines))


TABLE = Screen.table


def calls() -> dict[str, list[tuple[str, ...]]]:
    """Every function of the command line that shows a table, with the columns that are written there."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for path in CLI.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "table":
                    written = found.setdefault(f"{path.stem}.{function.name}", [])
                    if isinstance(node.args[0], ast.Tuple):
                        names = (each.value for each in node.args[0].elts if isinstance(each, ast.Constant))
                        written.append(tuple(map(str, names)))
    return found


# Each of the kinds of cells that tables have.
KINDS = (
    lambda draw: "sha256:" + f"{draw.getrandbits(256):064x}",
    lambda draw: f"{draw.getrandbits(32):08x}",
    lambda draw: f"2026-03-{draw.randint(10, 28)}T05:06:07.{draw.randint(100, 999)}Z",
    lambda draw: " ".join("x" * draw.randint(1, 14) for _ in range(draw.randint(1, 12))),
    lambda draw: "published/" + "-".join("name" for _ in range(draw.randint(1, 12))),
    lambda draw: f"`kfm {'word ' * draw.randint(1, 9)}--flag value`; then see docs/guides/operations.md",
    lambda draw: draw.randint(0, 10**9),
    lambda draw: "",
)


@pytest.mark.parametrize("name", sorted(calls()))
def test_no_table_of_a_command_breaks_a_word_whatever_its_cells_are(name: str) -> None:
    """Tables that need a special installation are tried here, with the columns they have."""
    draw = random.Random(name)
    for columns in calls()[name] or [("name", "state", "what", "found", "why", "until", "version")]:
        for _ in range(40):
            rows = [[draw.choice(KINDS)(draw) for _ in columns] for _ in range(draw.randint(0, 5))]
            lines: list[str] = []
            screen = Screen(json=False, quiet=False, verbose=False, no_color=True, env={"COLUMNS": str(ROOM)})
            screen.line = lambda text="", lines=lines: lines.append(text)  # type: ignore[method-assign,misc]
            screen.table(columns, rows)
            filled = [[cell for cell in row if cell != ""] for row in rows]  # an empty column may be dropped
            assert broken(columns, filled, lines) == [], lines


def test_no_table_breaks_a_word_or_a_digest_at_eighty_columns(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(3)
    with Path("kfm.yml").open("a") as file:
        file.write("\npools: {gpu: 1}\nattest: {sign_with: env:KFM_SECRET_LEDGER}\npolicy: {folder: policies}\n")
    Path("pipelines/schedules").mkdir(parents=True)
    Path("pipelines/schedules/a.yml").write_text(
        'schedules: {rain-gauges: {dataset: rain-gauges, cron: "0 6 * * *"}}\n'
    )
    Path("pipelines/backfills").mkdir()
    Path("pipelines/backfills/a.yml").write_text(
        "backfills: {parts: {dataset: rain-gauges, partitions: {kind: name, keys: [a, b]}}}\n"
    )
    Path("policies").mkdir()
    Path("policies/own.rego").write_text('package main\n\ndeny contains "never" if input.never\n')
    Path("policies/own_test.rego").write_text("package main_test\n\ntest_nothing if count(data.main.deny) == 0\n")
    monkeypatch.setenv("KFM_SECRET_LEDGER", "ab" * 32)
    monkeypatch.setenv("COLUMNS", str(ROOM))
    tables = Tables()
    monkeypatch.setattr(Screen, "table", lambda *a, **k: tables.table(*a, **k))
    for words in COMMANDS:
        answer = ran(*words.split())
        assert answer.code not in (1, 2), (words, answer.err)
    wrong = {name: found for name, heads, rows, lines in tables.shown if (found := broken(heads, rows, lines))}
    assert wrong == {}
    assert len({name for name, *_ in tables.shown}) > 25, "of the commands above"
    cells: dict[str, list[Any]] = {}
    for _, columns, rows, _ in tables.shown:
        for at, column in enumerate(columns):
            cells.setdefault(column, []).extend(row[at] for row in rows)
    assert not [cell for cell in cells["rows"] if cell and not re.fullmatch(r"\d+|\+\d+ ~\d+ -\d+", str(cell))]
    assert cells["line"] and "row" not in cells, "a row's number is called line"


def test_a_broken_word_would_be_noticed() -> None:
    digest = "sha256:" + "a" * 64
    assert broken(("ref", "version"), [("published/a", digest)], ["REF  VERSION", f"published/a  {digest[:19]}"]) == []
    assert broken(("ref",), [(digest,)], ["REF", digest[:40], digest[40:]]) != []
    assert broken(("why",), [("the word",)], ["WHY", "the wo", "rd"]) != []


def test_a_table_that_fits_in_no_way_is_stacked(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen(json=False, quiet=False, verbose=False, no_color=True, env={"COLUMNS": "40"})
    screen.table(("name", "what", "is"), [("x" * 30, "y" * 30, ""), ("short", "two words", "so")])
    assert capfd.readouterr().out.splitlines() == [
        "NAME  " + "x" * 30, "WHAT  " + "y" * 30, "", "NAME  short", "WHAT  two words", "IS    so",
    ]  # fmt: skip
