"""Writes what a run of one part of the long suite tried into build/promises/<part>.json, for the table of promises.

Only a run that leaves nothing out is recorded: a run with `-k`, without the long tests or of single tests says less
about a file than the run before it.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kfm
from tests.project import parts

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "promises"

# The test that runs now in this process, set by tests/conftest.py: a function that counts adds to its report.
current: pytest.Item | None = None


def note(kind: str, value: Any) -> None:
    """Add a fact to the report of the test that runs now. It reaches the recorder from any worker."""
    if current is not None:
        current.user_properties.append((kind, value))


def merged(ranges: Iterable[Sequence[int]]) -> list[list[int]]:
    """Ranges of seeds (the first and the last) in order, those that touch or overlap as one."""
    found: list[list[int]] = []
    for first, last in sorted(map(tuple, ranges)):
        if found and first <= found[-1][1] + 1:
            found[-1][1] = max(last, found[-1][1])
        else:
            found.append([first, last])
    return found


class Recorder:
    """Adds up the reports of all tests, in the process that started the workers or in the only one."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._outcomes: dict[str, Counter[str]] = {}
        self._counted: dict[str, Counter[str]] = {}
        self._seeds: dict[str, list[tuple[int, int]]] = {}

    def hear(self, report: Any) -> None:
        """Take one report of pytest. A test that failed keeps its failures and loses its other counts."""
        file = report.nodeid.partition("::")[0]
        outcomes = self._outcomes.setdefault(file, Counter())
        if report.when == "call" or report.outcome != "passed":  # a setup that failed or skipped is a result too
            outcomes[report.outcome] += 1
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == "failures":
                outcomes["differences"] += value
            elif name == "counted" and report.outcome == "passed":
                self._counted.setdefault(file, Counter())[value[0]] += value[1]
            elif name == "seeds" and report.outcome == "passed":
                self._seeds.setdefault(file, []).append((value[0], value[1]))

    def results(self, *, commit: str, changed: bool, finished: str) -> dict[str, Any]:
        """What the run found: when, at which commit, how long it took, and its numbers by test file."""
        return {
            "commit": commit,
            "changed": changed,
            "finished": finished,
            "minutes": round((time.monotonic() - self._began) / 60, 1),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "files": {
                file: {
                    **{outcome: outcomes[outcome] for outcome in ("passed", "failed", "skipped", "differences")},
                    "counted": dict(sorted(self._counted.get(file, {}).items())),
                    "seeds": merged(self._seeds.get(file, [])),
                }
                for file, outcomes in sorted(self._outcomes.items())
            },
        }

    def write_down(self, part: str, folder: Path = FOLDER) -> None:
        """Write the file of this part. The files of other parts stay as they are."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changed = bool(_git("status", "--porcelain", "--untracked-files=no"))
        found = self.results(commit=_git("rev-parse", "HEAD"), changed=changed, finished=now)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(found, indent=1, sort_keys=True)
        (folder / f"{part}.json").write_text(text + "\n", encoding="utf-8")


def leaves_nothing_out(option: Any, arguments: list[str]) -> bool:
    """True if this run is one of a part and runs every test of it."""
    chosen = option.keyword or getattr(option, "lf", False) or getattr(option, "deselect", None) or option.collectonly
    part = parts.PARTS.get(option.part or "")
    return part is not None and not chosen and option.markexpr == parts.EVERYTHING and arguments == parts.files_of(part)


def ours() -> bool:
    """False in a worker of another process, and for a copy of kfm with bugs put in on purpose."""
    return "PYTEST_XDIST_WORKER" not in os.environ and Path(kfm.__file__).is_relative_to(ROOT)


def read(file: Path) -> dict[str, Any]:
    """The record in a file; empty if there is none, or none that can be read."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
