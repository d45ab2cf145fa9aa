"""How much was really tried: every suite says it in one line and writes it to build/promises/<suite>.json.

The parts of a suite may run in several processes: each adds its own to the file. Numbers of an earlier
session are never mixed in. `python -m tests.power.tally` prints the lines of all suites.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kfm

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "promises"
SESSION = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}"


def tally(suite: str, part: str, seeds: tuple[int, int] | None = None, failures: int = 0, **counts: int) -> None:
    """Write down what one part did. `seeds`: the first one, and the one after the last."""
    told = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())
    print(f"{suite}/{part}: {told}; {failures} failures" + (f"; seeds {seeds[0]}..{seeds[1] - 1}" if seeds else ""))
    if not Path(kfm.__file__).is_relative_to(ROOT):  # another kfm than the one beside us, with bugs put in on purpose
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{suite}.json"
    with open(file.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = read(file)
        if found.get("session") != SESSION:
            found = {"session": SESSION, "commit": commit(), "parts": {}}
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        found["parts"][part] = {"counts": counts, "failures": failures, "seeds": list(seeds or ()), "test": test}
        found["counts"] = sum_of(found["parts"])
        found["failures"] = sum(entry["failures"] for entry in found["parts"].values())
        found["seeds"] = {name: entry["seeds"] for name, entry in found["parts"].items() if entry["seeds"]}
        file.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="ascii")


def sum_of(parts: dict[str, Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts.values():
        for name, count in part["counts"].items():
            total[name] = total.get(name, 0) + count
    return total


def read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return found


def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def lines() -> list[str]:
    found = []
    for file in sorted(FOLDER.glob("*.json")):
        body = read(file)
        told = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in body.get("counts", {}).items())
        found.append(f"{file.stem}: {told}; {body.get('failures', '?')} failures; {body.get('commit', '')[:12]}")
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
