"""What a retried call costs that succeeds at once, and what the check of a shared breaker and budget costs.

    python bench/retries.py [--calls 200000] [--rounds 5]

The contestants take turns, each in a process of its own; a peer that does not install is named as absent. The shared
check is compared with a plain read of the same state. Seconds of the processor, so that other work counts little.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers

from kfm.errors import BudgetSpent
from kfm.retries import BudgetRules, Retrying, SharedBreaker, SharedBudget
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState

PEER = Path(__file__).resolve().parent / "peer_retries.py"
OURS = ("no retry", "kfm", "kfm with breaker and budget")
THEIRS = ("stamina", "tenacity")


def spent(work: Callable[[], object], times: int) -> float:
    begun = time.process_time_ns()
    for _ in range(times):
        work()
    return (time.process_time_ns() - begun) / times


def calls(times: int, rounds: int) -> None:
    absent = peers.install("stamina")
    pythons = dict.fromkeys(OURS, sys.executable)
    if absent:
        print(f"stamina and tenacity are absent: {absent}")
    else:
        pythons |= dict.fromkeys(THEIRS, str(peers.python_of("stamina")))
    found: dict[str, list[float]] = {name: [] for name in pythons}
    for _ in range(rounds):
        for name, python in pythons.items():
            answer = subprocess.run(
                [python, str(PEER), name, str(times)], capture_output=True, text=True, check=True
            ).stdout
            found[name].append(float(answer))
    plain = statistics.median(found["kfm"])
    print(f"{'a call that succeeds at once':<34}{'ns':>8}{'of kfm':>9}")
    for name, numbers in found.items():
        median = statistics.median(numbers)
        print(f"{name:<34}{median:>8.0f}{median / plain:>8.2f}x", flush=True)


def checks(times: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        tables = SqliteTables(str(Path(folder, "state.db")))
        state = StoredState(tables, lambda: time.time_ns() // 1_000_000)
        breaker, budget = SharedBreaker(state, "it"), SharedBudget(state, "it", BudgetRules(tokens=1, per_minute=0))
        budget.take("unavailable")
        guarded = Retrying(breaker=SharedBreaker(state, "other"), budget=SharedBudget(state, "other"))

        def refused() -> None:
            try:
                budget.take("unavailable")
            except BudgetSpent:
                return
            raise AssertionError("a spent budget granted a retry")

        refused()
        works: dict[str, Callable[[], object]] = {
            "a plain read of a row": lambda: state.budgets.get("it"),
            "the check of a shared breaker": breaker.admit,
            "the check of a spent shared budget": refused,
            "a call with both that succeeds": lambda: guarded.call(int),
        }
        found: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(rounds):
            for name, work in works.items():
                found[name].append(spent(work, times))
        read = statistics.median(found["a plain read of a row"])
        print(f"\n{'with the state of all processes':<36}{'ns':>8}{'of a read':>11}")
        for name, numbers in found.items():
            median = statistics.median(numbers)
            print(f"{name:<36}{median:>8.0f}{median / read:>10.2f}x", flush=True)
        state.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    calls(options.calls, options.rounds)
    checks(max(1000, options.calls // 20), options.rounds)


if __name__ == "__main__":
    main()
