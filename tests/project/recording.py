"""Writes down what a whole run of the tests found, a line a test file, for the table of promises.

Only runs that leave nothing out are kept: a run with `-k`, without the long tests, or of single tests says less
about a file than the one before it. The numbers of suites that count more finely are beside it, written by
tests/power/tally.py and tests/crash/counts.py under the same session.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kfm

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "promises" / "tests" / "results.json"
EVERYTHING = ("", "long or not long")


class Recorder:
    """Hears every report once: in the process that started the others, or in the only one."""

    def __init__(self) -> None:
        self.session = str(os.getpid())
        self._outcomes: dict[str, Counter[str]] = {}
        self._counted: dict[str, Counter[str]] = {}

    def hear(self, report: Any) -> None:
        self.session = getattr(report, "testrun_uid", self.session)
        file = report.nodeid.partition("::")[0]
        outcomes = self._outcomes.setdefault(file, Counter())
        if report.when == "call" or report.outcome != "passed":  # a setup that failed or skipped is a result too
            outcomes[report.outcome] += 1
        if report.when == "call" and report.outcome == "passed":
            for name, value in report.user_properties:
                if name == "counted":
                    self._counted.setdefault(file, Counter())[value[0]] += value[1]

    def results(self, *, commit: str, changed: bool, finished: str) -> dict[str, Any]:
        run = {
            "session": self.session,
            "commit": commit,
            "changed": changed,
            "finished": finished,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        }
        return {
            file: {
                **run,
                **{outcome: outcomes[outcome] for outcome in ("passed", "failed", "skipped")},
                "counted": dict(sorted(self._counted.get(file, {}).items())),
            }
            for file, outcomes in self._outcomes.items()
        }

    def write_down(self, file: Path = RESULTS) -> None:
        """Over what was known of these files; other files keep their last result, and the run it is from."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changed = bool(_git("status", "--porcelain", "--untracked-files=no"))
        mine = self.results(commit=_git("rev-parse", "HEAD"), changed=changed, finished=now)
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file.with_suffix(".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            text = json.dumps({**read(file), **mine}, indent=2, sort_keys=True)
            file.write_text(text + "\n", encoding="utf-8")


def leaves_nothing_out(option: Any, arguments: list[str]) -> bool:
    """Is every test of the files that were asked for run?"""
    chosen = option.keyword or getattr(option, "lf", False) or getattr(option, "deselect", None) or option.collectonly
    return not chosen and option.markexpr in EVERYTHING and not any("::" in argument for argument in arguments)


def ours() -> bool:
    """Not a worker of another process, and no other kfm than the one beside us, with bugs put in on purpose."""
    return "PYTEST_XDIST_WORKER" not in os.environ and Path(kfm.__file__).is_relative_to(ROOT)


def read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
