"""Takes generated declarations over generated sources in Python and in Node: the same bytes, or the same words.

`python -m tests.node.fuzz_transforms [COUNT] [SEED]` prints what they differ in.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kfm.validation import text_blocks as inspect_text
from tests.conformance.transforms import answer
from tests.node.transform_samples import Case, case_of
from tests.node.twin import Twin, batches

# How much may be held at once: what it really is, or so little that everything is laid aside and merged.
ROOMS: tuple[dict[str, int] | None, ...] = (None, {"budget": 0, "keys": 0}, {"budget": 200, "keys": 2})
BLOCKS = (1 << 16, 1 << 16, 1, 7, 40)

MARKS = (
    "case.json", "is held", "there is no column", "already", "is not an integer", "is not a number", "same key",
    "is not true or false", "no match", "has no column", "not an object", "cannot be a feature",
)  # fmt: skip


@contextmanager
def blocks_of(size: int) -> Iterator[None]:
    """Tables read in blocks of so many bytes: what they are cut into may not show."""
    before, inspect_text.BLOCK = inspect_text.BLOCK, size
    try:
        yield
    finally:
        inspect_text.BLOCK = before


def room_of(room: dict[str, int] | None) -> dict[str, int]:
    return room or {"budget": 256 << 20, "keys": 1 << 20}


def run(count: int, seed: int, outcomes: Counter[str] | None = None) -> list[str]:
    """Cases in which the two differ, if any."""
    pick = random.Random(seed)
    differences = []

    def cases() -> Iterator[tuple[Case, dict[str, int] | None, int]]:
        for _ in range(count):
            yield case_of(pick), pick.choice(ROOMS), pick.choice(BLOCKS)

    with Twin("./transform_answers.mjs") as twin:
        for some in batches(cases()):
            theirs = twin.ask_all([("transform", case, room_of(room)) for case, room, _ in some])
            for (case, room, block), told in zip(some, theirs, strict=True):
                with blocks_of(block):
                    ours = answer(case, room)
                if outcomes is not None:
                    outcomes[kind_of(ours)] += 1
                if essence(ours) != essence(told.get("ok")):
                    differences.append(f"{json.dumps(case, ensure_ascii=False)}\n  {ours} here\n  {told} in Node")
    return differences


def essence(found: Case) -> Case | str:
    """What is wrong with a declaration each language says in its own words."""
    return "case.json" if "refused" in found and str(found["refused"]).startswith("case.json: ") else found


def kind_of(found: Case) -> str:
    """How a case ended, to see that all ends are met."""
    if "made" in found:
        return "made"
    words = str(found["refused"])
    return next((mark for mark in MARKS if mark in words), words)


if __name__ == "__main__":
    counts: Counter[str] = Counter()
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    found = run(asked, int(sys.argv[2]) if len(sys.argv) > 2 else 1, counts)
    for difference in found[:10]:
        sys.stdout.write(difference[:3000] + "\n")
    for kind, number in counts.most_common(40):
        sys.stdout.write(f"{number:8} {kind[:150]}\n")
    sys.stdout.write(f"{asked} cases, {len(found)} differences\n")
    sys.exit(bool(found))
