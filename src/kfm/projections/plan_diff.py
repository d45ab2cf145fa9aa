"""Compare two plans, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import msgspec

from kfm.model.canonical import canonical


def plan_diff(old: bytes, new: bytes, limit: int = 20) -> str:
    """Return the differences between two plans, one per line, at most `limit` lines."""
    before, after = _steps(old), _steps(new)
    lines = []
    for key, was, now in _changes(before[0], after[0], ""):
        lines.append(f"~ {key}: {_short(was)} → {_short(now)}")
    for name in before[1]:
        if name not in after[1]:
            lines.append(f"- step {name}")
    for name, step in after[1].items():
        if name not in before[1]:
            lines.append(f"+ step {name}")
        else:
            for path, was, now in _changes(before[1][name], step, ""):
                lines.append(f"~ step {name}: {path} {_short(was)} → {_short(now)}")
    if not lines and list(before[1]) != list(after[1]):
        lines.append("~ the order of the steps")
    if len(lines) > limit:
        lines[limit:] = [f"… and {len(lines) - limit} more"]
    return "\n".join(lines)


def _steps(body: bytes) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    header, _, rest = body.partition(b"\n")
    steps = [msgspec.json.decode(line) for line in rest.splitlines()]
    return msgspec.json.decode(header), {step["id"]: step for step in steps}


def _changes(was: Any, now: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the innermost values that differ. Lists are compared between their common start and their common end."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            yield from _changes(was.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(was, list) and isinstance(now, list):
        begin, end = _alike(was, now)
        pairs = zip_longest(was[begin : len(was) - end], now[begin : len(now) - end])
        found = [change for at, pair in enumerate(pairs, begin) for change in _changes(*pair, f"{path}[{at}]")]
        if not found and len(was) != len(now):  # one list has one null more
            found = [(path, was, now)]
        yield from found
    elif canonical(was) != canonical(now):  # in Python 1 equals True
        yield path, was, now


def _alike(was: list[Any], now: list[Any]) -> tuple[int, int]:
    """Return how many items are equal at the start and, after those, at the end. Return (0, 0) for lists of one length,
    whose items are compared one by one.
    """
    if len(was) == len(now):
        return 0, 0
    shorter = min(len(was), len(now))
    begin = next((at for at in range(shorter) if canonical(was[at]) != canonical(now[at])), shorter)
    left = shorter - begin
    end = next((at for at in range(left) if canonical(was[-1 - at]) != canonical(now[-1 - at])), left)
    return begin, end


def _short(value: Any) -> str:
    text = canonical(value).decode()
    return text if len(text) <= 60 else text[:57] + "…"
