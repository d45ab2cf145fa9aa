"""Behind `make promises`: takes the runs of parts in build/promises into docs/promises.json, writes docs/promises.md.

docs/promises.json keeps the last run of every part of the long suite, so that the page can be built again at any time
and a run of one part leaves the rows of all others as they are. The page has a row for every test that
docs/guarantees.md names: the promise, the test, how much it tried, with which seeds, how often it failed, and the
commit and the day of the run.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tests.project import parts
from tests.project.recording import FOLDER, ROOT, merged, read

GUARANTEES = ROOT / "docs" / "guarantees.md"
PAGE = ROOT / "docs" / "promises.md"
KEPT = ROOT / "docs" / "promises.json"
NOTICE = "<!-- Made by `make promises` from docs/promises.json, the last run of each part; do not edit this page. -->\n"
NOT_RUN = "**not run**"
_ROW = re.compile(r"^\| \*\*(.+?)\*\* \|.*\| `pytest ([^`]+)` \|$", re.M)
_TRIED = re.compile(r"^\| (.+?) \| \[(tests/[^\]]+)\]\(.*\|$", re.M)


class Row(NamedTuple):
    count: str
    seeds: str
    failures: str
    age: str


def promised(text: str) -> list[tuple[str, list[str]]]:
    """Every promise of the page of guarantees, with the tests it names."""
    return [(name, tests.split()) for name, tests in _ROW.findall(text)]


def tried(text: str) -> list[tuple[str, str]]:
    """The promise and the test of every row of a page of promises."""
    return _TRIED.findall(text)


def files_at(path: str) -> list[str]:
    """The test files there are now at this path."""
    here = ROOT / path
    return sorted(f.relative_to(ROOT).as_posix() for f in here.rglob("test_*.py")) if here.is_dir() else [path]


def runs_of(file: str, kept: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The runs that tell of this file, by part. Runs of parts that went count only until a part of today has run."""
    found = {name: run for name, run in kept.get("parts", {}).items() if file in run["files"]}
    return {name: run for name, run in found.items() if name in parts.parts_of(file)} or found


def told_of(path: str, kept: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Every test file at this path, with the runs that tell of it."""
    return {file: runs_of(file, kept) for file in files_at(path)}


def missing(file: str, kept: dict[str, Any]) -> list[str]:
    """The parts of this file that have not run."""
    return [name for name in parts.parts_of(file) if name not in kept.get("parts", {})]


def row(path: str, kept: dict[str, Any]) -> Row:
    """The row of one test or folder of tests, from all runs that tell of it."""
    files = told_of(path, kept)
    if not any(files.values()):
        earlier = kept.get("earlier", {}).get(path)
        return Row(**earlier) if earlier else Row(NOT_RUN, "", "", "")
    tests, counted = Counter[str](), Counter[str]()
    seeds: list[list[int]] = []
    ages: set[str] = set()
    for file, runs in files.items():
        for run in runs.values():
            result = run["files"][file]
            tests.update({name: n for name, n in result.items() if isinstance(n, int)})
            counted.update(result["counted"])
            seeds += result["seeds"]
            ages.add(age(run))
    told = [f"{tests['passed'] + tests['failed']:,} tests"]
    told += [f"{n:,} {name}" for name, n in sorted(counted.items()) if n]
    told += [f"**{tests['skipped']:,} skipped**"] if tests["skipped"] else []
    absent = sorted({name for file, runs in files.items() if runs for name in missing(file, kept)})
    unseen = [file for file, runs in files.items() if not runs]
    told += [f"**part {name} not run**" for name in absent]
    told += [f"**{unseen[0]} not run**" if len(unseen) == 1 else f"**{len(unseen)} files not run**"] if unseen else []
    failed = tests["failed"] + tests["differences"]
    return Row(", ".join(told), ranges(seeds), f"**{failed:,}**" if failed else "0", ", ".join(sorted(ages)))


def age(run: dict[str, Any]) -> str:
    """The commit and the day of a run; a `+` if there were changes that were not committed."""
    return f"{run['commit'][:12]}{'+' if run['changed'] else ''} {run['finished'][:10]}"


def ranges(seeds: list[list[int]]) -> str:
    """0-5999, 7000: seeds that follow each other as one range; if there are very many, the first few."""
    told = [str(first) if first == last else f"{first}-{last}" for first, last in merged(seeds)]
    return ", ".join(told[:8]) + (f" and {len(told) - 8} more" if len(told) > 8 else "")


def page(guarantees: str, kept: dict[str, Any]) -> str:
    """The whole page."""
    rows = [
        f"| {promise} | [{path}](../{path}) | " + " | ".join(row(path, kept)) + " |"
        for promise, tests in promised(guarantees)
        for path in tests
    ]
    about = (
        "Each promise of [the guarantees](guarantees.md), the test that tries to refute it, how much that test tried, "
        "and the commit and the day of the run. A promise whose row says *not run*, or counts a failure, is not shown "
        "by it. A `+` after a commit: with changes that were not committed.\n"
    )
    header = "| promise | test | count | seeds | failures | commit and day |\n|---|---|---|---|---|---|"
    return "\n".join([NOTICE, "# Promises, and what was tried\n", about, header, *rows, "", *table(kept)]) + "\n"


def table(kept: dict[str, Any]) -> list[str]:
    """One line for the last run of every part of the long suite."""
    said = [
        "## The parts of the long suite\n",
        "`make test-long PART=`*part* runs one part, `make promises` takes its numbers into this page.\n",
        "| part | finished | commit | minutes | Python | system | files | passed | failed | skipped |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    runs = kept.get("parts", {})
    for name in [*parts.PARTS, *sorted(set(runs) - set(parts.PARTS))]:
        if name not in runs:
            said.append(f"| {name} | {NOT_RUN} |  |  |  |  |  |  |  |  |")
            continue
        run = runs[name]
        sums = [sum(file[what] for file in run["files"].values()) for what in ("passed", "failed", "skipped")]
        numbers = [f"{n:,}" for n in (len(run["files"]), *sums)]
        cells = [name, run["finished"], age(run).split()[0], str(run["minutes"]), run["python"], run["system"]]
        said.append("| " + " | ".join(cells + numbers) + " |")
    return said


def take(kept: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What is kept, with the newer runs of a folder in it, and the parts that were taken.

    A run of a part that went stays until parts of today tell of all its files; so does a row from before the parts.
    """
    runs = dict(kept.get("parts", {}))
    taken = []
    for file in sorted(folder.glob("*.json")):
        run = read(file)
        if run and file.stem in parts.PARTS and run["finished"] >= runs.get(file.stem, run)["finished"]:
            runs[file.stem] = run
            taken.append(file.stem)
    for name in set(runs) - set(parts.PARTS):
        if all(set(parts.parts_of(file)) & set(runs) for file in runs[name]["files"]):
            del runs[name]
    now = {"parts": runs}
    earlier = {path: one for path, one in kept.get("earlier", {}).items() if not any(told_of(path, now).values())}
    return {"earlier": earlier, **now}, taken


def current() -> str:
    """The page as docs/promises.json and docs/guarantees.md make it now."""
    return page(GUARANTEES.read_text(encoding="utf-8"), read(KEPT))


def main() -> int:
    kept, taken = take(read(KEPT), FOLDER)
    if not taken:
        print("no run is recorded: run `make test-long PART=…` first", file=sys.stderr)
        return 1
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(current(), encoding="utf-8")
    print(f"docs/promises.md: {', '.join(taken)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
