"""Behind `make promises`: writes docs/promises.md from what the last whole run of the tests wrote down.

A row for every test that docs/guarantees.md names: the promise, the test, how much was tried, with which seeds,
how often it failed, and at which commit. The page says which run it comes from; where that was more than one, or the
code was not as committed, it says that too. A row of which the last runs say nothing stays as it was, with its run.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.project.recording import RESULTS, ROOT, read

GUARANTEES = ROOT / "docs" / "guarantees.md"
PAGE = ROOT / "docs" / "promises.md"
NOTICE = (
    "<!-- Made by `make promises` from the last run of `make test-long`; run them again, do not edit this page. -->\n"
)

# The one suite that is not told part by part: its counts come with its tests, its seeds are those of the kills.
CRASH, KILLS = "crash", "tests/crash/test_kills.py"
_ROW = re.compile(r"^\| \*\*(.+?)\*\* \|.*\| `pytest ([^`]+)` \|$", re.M)
_TRIED = re.compile(r"^\| (.+?) \| \[(tests/[^\]]+)\]\(.*\|$", re.M)
_RUN = re.compile(r"^\| (\d{4}-\S+Z) \| ([0-9a-f]{12})\b.*\|$", re.M)
NOT_RUN = "**not run**"


class Row(NamedTuple):
    promise: str
    test: str
    count: str
    seeds: str
    failures: str
    commit: str


def promised(text: str) -> list[tuple[str, list[str]]]:
    """Every promise of the page, with the tests it names."""
    return [(name, tests.split()) for name, tests in _ROW.findall(text)]


def below(results: dict[str, Any], path: str) -> dict[str, Any]:
    """The results of a test file, or of all files of a folder."""
    return {file: found for file, found in results.items() if file == path or file.startswith(path + "/")}


def files_at(path: str) -> list[str]:
    """The test files there are now."""
    here = ROOT / path
    return [file.relative_to(ROOT).as_posix() for file in here.rglob("test_*.py")] if here.is_dir() else [path]


def row(promise: str, path: str, results: dict[str, Any], suites: dict[str, Any]) -> Row:
    found = below(results, path)
    if not found:
        return Row(promise, path, NOT_RUN, "", "", "")
    total: Counter[str] = Counter()
    failures, seeds = 0, set[int]()
    tests: Counter[str] = Counter()
    absent = sorted(set(files_at(path)) - set(found))
    notes = [f"**{len(absent)} files not run**" if len(absent) > 1 else f"**{absent[0]} not run**"] if absent else []
    for file, result in sorted(found.items()):
        tests.update({outcome: result[outcome] for outcome in ("passed", "failed", "skipped")})
        total.update(result["counted"])
        for suite, part in parts_of(suites, file):
            if suites[suite].get("session") != result["session"]:
                notes.append(f"the numbers of {suite} are of another run and left out")
                continue
            total.update({name.replace("_", " "): n for name, n in part["counts"].items()})
            failures += part["failures"]
            seeds |= set(part["seeds"]) if suite == CRASH else set(range(*part["seeds"] or (0,)))
    notes = sorted(set(notes))
    told = [f"{tests['passed'] + tests['failed']:,} tests"]
    told += [f"{n:,} {name}" for name, n in sorted(total.items()) if n]
    told += [f"**{tests['skipped']:,} skipped**"] if tests["skipped"] else []
    failed = failures + tests["failed"]
    commits = sorted({result["commit"][:12] + ("+" if result["changed"] else "") for result in found.values()})
    return Row(
        promise, path, ", ".join(told + notes), ranges(seeds), f"**{failed:,}**" if failed else "0", " ".join(commits)
    )


def parts_of(suites: dict[str, Any], file: str) -> list[tuple[str, dict[str, Any]]]:
    """What the suites say of this test file, each with its name. Seeds: the first, and the one after the last."""
    found = [(CRASH, {**suites[CRASH], "counts": {}})] if file == KILLS and CRASH in suites else []
    return found + [
        (suite, part)
        for suite, body in sorted(suites.items())
        for part in body.get("parts", {}).values()
        if part.get("test") == file
    ]


def ranges(seeds: Iterable[int]) -> str:
    """0-5999, 7000: numbers that follow each other as one; of very many, the first few."""
    found: list[list[int]] = []
    for seed in sorted(seeds):
        if found and seed == found[-1][1] + 1:
            found[-1][1] = seed
        else:
            found.append([seed, seed])
    told = [str(first) if first == last else f"{first}-{last}" for first, last in found]
    return ", ".join(told[:8]) + (f" and {len(told) - 8} more" if len(told) > 8 else "")


def page(guarantees: str, results: dict[str, Any], suites: dict[str, Any], before: str = "") -> str:
    known = tried(before)
    rows, stayed = [], ""
    for promise, tests in promised(guarantees):
        for path in tests:
            new = row(promise, path, results, suites)
            rows.append(line(new))
            if new.count == NOT_RUN and (promise, path) in known:
                rows[-1] = known[promise, path]
                stayed += rows[-1]
    kept = [found for found in _RUN.finditer(before) if f"| {found[2]}" in stayed]
    parts = [NOTICE, "# Promises, and what was tried\n"]
    parts.append(
        "Each promise of [the guarantees](guarantees.md), the test that tries to refute it, and how much it tried "
        "in the run named here. A promise whose row says *not run*, or counts a failure, is not shown by it. A `+` "
        "after a commit: with changes that were not committed.\n"
    )
    parts += head(results, {found[0]: found[1] for found in kept})
    parts.append("| promise | test | count | seeds | failures | commit |\n|---|---|---|---|---|---|")
    return "\n".join(parts + rows) + "\n"


def line(cells: Row) -> str:
    return f"| {cells.promise} | [{cells.test}](../{cells.test}) | " + " | ".join(cells[2:]) + " |"


def tried(text: str) -> dict[tuple[str, str], str]:
    """Every row of a page that was written: its promise and test, and the row."""
    return {(found[1], found[2]): found[0] for found in _TRIED.finditer(text)}


def refitted(guarantees: str, text: str) -> str:
    """The page with a row for each promise and test of today: those there are as they are, new ones as not run.

    So that the two pages never speak of different things between two whole runs. It claims nothing: only a run does.
    """
    known = tried(text)
    before = _TRIED.search(text)
    head = text[: before.start()] if before else text
    lines = [
        known.get((promise, path)) or line(Row(promise, path, NOT_RUN, "", "", ""))
        for promise, tests in promised(guarantees)
        for path in tests
    ]
    return head + "\n".join(lines) + "\n"


def head(results: dict[str, Any], kept: dict[str, str]) -> list[str]:
    """`kept`: what an earlier page said of runs that rows of it are from, and when they ended."""
    if not results and not kept:
        return ["No run is recorded: `make test-long` makes one, `make promises` then fills this table.\n"]
    runs: dict[str, list[dict[str, Any]]] = {}
    for result in results.values():
        runs.setdefault(result["session"], []).append(result)
    said = [
        "| finished | commit | Python | system | files | passed | failed | skipped |\n|---|---|---|---|---|---|---|---|"
    ]
    told = dict(kept)
    for of in runs.values():
        one = of[0]
        commit = one["commit"][:12] + (" with uncommitted changes" if one["changed"] else "")
        numbers = [sum(result[outcome] for result in of) for outcome in ("passed", "failed", "skipped")]
        cells = [one["finished"], commit, one["python"], one["system"], len(of), *numbers]
        told["| " + " | ".join(f"{c:,}" if isinstance(c, int) else c for c in cells) + " |"] = str(one["finished"])
    many = f"**Not from one run, but from {len(told)}**:\n"
    return ["From one run of the tests:\n" if len(told) == 1 else many, *said, *sorted(told, key=told.__getitem__), ""]


def current() -> str:
    """The page in the repository, brought in line with the guarantees of today."""
    return refitted(GUARANTEES.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8"))


def suites_in(folder: Path) -> dict[str, Any]:
    return {file.stem: read(file) for file in sorted(folder.glob("*.json"))}


def main() -> int:
    results = read(RESULTS)
    guarantees, before = (file.read_text(encoding="utf-8") for file in (GUARANTEES, PAGE))
    PAGE.write_text(page(guarantees, results, suites_in(RESULTS.parents[1]), before), encoding="utf-8")
    if not results:
        print("no run is recorded: run `make test-long` first", file=sys.stderr)
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
