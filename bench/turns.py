"""Two trees of KFM in turn, each with an environment of its own: `python bench/turns.py PYTHON [--rounds N] [CASE …]`.

PYTHON is the interpreter of the other tree, whose bench/ lies next to its environment, for example that of an older
commit. A case is one of kfm_cases.py. The ratio compares two samples that were taken one after the other, so that a
machine that is busy for a minute is busy for both: 1.1 says that a unit costs a tenth more here than there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import shim
from contest import ChildFailed, Contestant, Setting, adopt_orphans, run_child

HERE = Path(__file__).resolve().parent
WORK = HERE / ".work"
CASES = {"one": 300, "one_declared": 150, "chain": 1000, "wide": 10_000, "skip": 2000, "noop_files": 5}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/turns.py", description=__doc__)
    parser.add_argument("python", help="the interpreter of the other tree")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE", help="write the result to this file, too")
    asked = parser.parse_args()
    other = Path(asked.python).absolute()
    bench = other.parents[2] / "bench"
    adopt_orphans()
    WORK.mkdir(exist_ok=True)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        room = Path(name)
        setting = Setting(room=room, python_of=lambda one: str(other) if one.peer else sys.executable)
        setting.library = shim.build(room)
        print(f"load {os.getloadavg()[0]:.1f} at the start, {os.cpu_count()} cores, {asked.rounds} rounds")
        for case in asked.cases or CASES:
            size = CASES.get(case, 1000)
            here = Contestant(case, (str(HERE / "kfm_cases.py"), case), size)
            there = Contestant(case, (str(bench / "kfm_cases.py"), case), size, peer="other")
            try:
                found[case] = compared(setting, here, there, asked.rounds)
            except ChildFailed as problem:
                print(f"{case:14} {problem}")
                continue
            print(shown(case, found[case]), flush=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    if asked.json:
        Path(asked.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0


def compared(setting: Setting, here: Contestant, there: Contestant, rounds: int) -> dict[str, Any]:
    """Take samples of both in turn; who begins changes with every round."""
    taken: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for turn in range(rounds):
        for is_here in (True, False) if turn % 2 else (False, True):
            one = here if is_here else there
            taken[is_here].append(run_child(setting, one, one.n))
    said: dict[str, Any] = {"units": here.n, "rounds": rounds}
    for key, of in (("cpu_us", _busy), ("us", _took), ("syncs", _syncs)):
        ours, theirs = [of(sample) for sample in taken[True]], [of(sample) for sample in taken[False]]
        pairs = [mine / other for mine, other in zip(ours, theirs, strict=True) if other]
        said[key] = {
            "here": statistics.median(ours),
            "there": statistics.median(theirs),
            "ratio": statistics.median(pairs) if pairs else None,
            "spread": [min(pairs), max(pairs)] if pairs else None,
        }
    return said


def _busy(sample: dict[str, Any]) -> float:
    return 1e6 * sample.get("cpu_seconds", 0.0) / sample["units"]


def _took(sample: dict[str, Any]) -> float:
    return 1e6 * sample["seconds"] / sample["units"]


def _syncs(sample: dict[str, Any]) -> float:
    return (sample["syncs"] or 0) / sample["units"]


def shown(case: str, said: dict[str, Any]) -> str:
    parts = [f"{case:14}"]
    for key in ("cpu_us", "us", "syncs"):
        one = said[key]
        if one["ratio"] is not None:
            low, high = one["spread"]
            parts.append(f"{key} {one['there']:.4g} -> {one['here']:.4g} ({one['ratio']:.3f}, {low:.2f}-{high:.2f})")
    return "  ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
