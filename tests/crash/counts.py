"""Counts how much a test really did, and adds the numbers to its report for the table of promises."""

from __future__ import annotations

from collections import Counter

from tests.project import recording

KINDS = ("singles", "pairs", "random kills", "stops", "faults", "upgrades", "differences")

_counted: Counter[str] = Counter()


def add(kind: str, n: int = 1) -> None:
    assert kind in KINDS, kind
    _counted[kind] += n


def so_far() -> Counter[str]:
    return _counted.copy()


def seed(number: int) -> None:
    """Record a seed that was used, so that a failure can be repeated."""
    recording.note("seeds", (number, number))


def record(before: Counter[str]) -> None:
    """Add to the report of the test that runs now everything that was counted since `before`."""
    for kind, n in sorted((so_far() - before).items()):
        if kind == "differences":
            recording.note("failures", n)
        else:
            recording.note("counted", (f"crash {kind}", n))
