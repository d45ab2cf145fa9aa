"""Counts how much a test really tried: one line on its output, and numbers in its report for the table of promises."""

from __future__ import annotations

from tests.project import recording


def tally(suite: str, part: str, seeds: tuple[int, int] | None = None, failures: int = 0, **counts: int) -> None:
    """Print and record what the test that runs now did. `seeds`: the first one, and the one after the last."""
    told = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())
    print(f"{suite}/{part}: {told}; {failures} failures" + (f"; seeds {seeds[0]}..{seeds[1] - 1}" if seeds else ""))
    for name, n in counts.items():
        recording.note("counted", (name.replace("_", " "), n))
    if failures:
        recording.note("failures", failures)
    if seeds:
        recording.note("seeds", (seeds[0], seeds[1] - 1))
