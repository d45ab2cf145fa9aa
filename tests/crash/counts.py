"""How much was really done: counted while the tests run, and written down for the table of promises.

Every test process adds its part to build/promises/crash.json when it ends. The session it belongs to is
in the file, so that numbers of an earlier session are never mixed in.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import kfm

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "build" / "promises" / "crash.json"
KINDS = ("singles", "pairs", "random kills", "stops", "faults", "upgrades", "differences")
SESSION = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())

_counted: Counter[str] = Counter()
_seeds: list[int] = []


def add(kind: str, n: int = 1) -> None:
    assert kind in KINDS, kind
    _counted[kind] += n


def so_far() -> Counter[str]:
    return _counted.copy()


def seed(number: int) -> None:
    """A seed that was used, so that a failure can be had again."""
    _seeds.append(number)


def write_down() -> None:
    """Add what this process counted to the file of the session; once."""
    if not _counted or not Path(kfm.__file__).is_relative_to(ROOT):  # another kfm, with bugs put in on purpose
        return
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with open(FILE.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = read()
        counts = {kind: found["counts"].get(kind, 0) + _counted[kind] for kind in KINDS}
        body = {
            "session": SESSION,
            "commit": _commit(),
            "counts": counts,
            "failures": counts["differences"],
            "seeds": sorted(found["seeds"] + _seeds),
        }
        FILE.write_text(json.dumps(body, indent=2) + "\n", encoding="ascii")
    _counted.clear()
    _seeds.clear()


def read() -> dict[str, Any]:
    """What this session has written down so far."""
    try:
        found: dict[str, Any] = json.loads(FILE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        found = {}
    return found if found.get("session") == SESSION else {"counts": {}, "seeds": []}


def line() -> str:
    counts = read()["counts"]
    return "crash: " + ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS) if counts else ""


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip()
