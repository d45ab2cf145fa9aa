"""Counts that give nobody away: those below k are suppressed, and so are those from which they could be worked out.

A table with totals is a set of equations. A suppressed count of a row with its total is known as soon as it is the
only one; in a table of rows and columns it is known exactly if it is a bridge of the graph that joins every row and
column by their suppressed counts. So more are suppressed until there is no bridge and no line hides less than k.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kfm.errors import Refused
from kfm.model.masks import SMALLEST_K

Key = tuple[str, str]
Counts = Mapping[Key, int]


class Published(NamedTuple):
    """What may be shown; None is a count that is suppressed."""

    counts: dict[Key, int | None]
    rows: dict[str, int | None]
    columns: dict[str, int | None]
    total: int | None


def counted(pairs: Iterable[Key]) -> dict[Key, int]:
    """How often each pair occurs, e.g. cell and period."""
    found: dict[Key, int] = {}
    for pair in pairs:
        found[pair] = found.get(pair, 0) + 1
    return found


def suppressed(counts: Counts, k: int = SMALLEST_K) -> Published:
    """A table of counts with its totals as it may be published. A place that is not in it counts as 0, and is shown."""
    if k < SMALLEST_K:
        raise Refused(f"counts are suppressed below {SMALLEST_K} at least", rule="mask.k-too-small")
    if any(count < 0 for count in counts.values()):
        raise Refused("a count is below zero", rule="mask.count-negative")
    table = {key: count for key, count in sorted(counts.items()) if count}
    hidden = {key for key, count in table.items() if count < k}
    while more := _needed(table, hidden, k):
        hidden.add(more)
    return _with_totals(table, hidden, k)


def _needed(table: dict[Key, int], hidden: set[Key], k: int) -> Key | None:
    """One more count to suppress, if some suppressed one could still be worked out and there is one that would help."""
    for axis in (0, 1):
        lines: dict[str, list[Key]] = {}
        for key in table:
            lines.setdefault(key[axis], []).append(key)
        for line in lines.values():
            inside = [key for key in line if key in hidden]
            rest = [key for key in line if key not in hidden]
            if inside and rest and (len(inside) < 2 or sum(table[key] for key in inside) < k):
                return _cheapest(table, rest, hidden)
    for bridge in _bridges(hidden):
        beside = [key for key in table if key not in hidden and (key[0] == bridge[0] or key[1] == bridge[1])]
        if found := _cheapest(table, beside, hidden):
            return found
    return None


def _cheapest(table: dict[Key, int], keys: list[Key], hidden: set[Key]) -> Key | None:
    """The smallest, but before all others one that closes a circle: it asks for no further ones."""
    rows, columns = {key[0] for key in hidden}, {key[1] for key in hidden}
    return min(keys, key=lambda key: (not (key[0] in rows and key[1] in columns), table[key], key), default=None)


def _with_totals(table: dict[Key, int], hidden: set[Key], k: int) -> Published:
    """Totals are shown where nothing can be worked out from them; where that cannot be helped, they are not."""
    shown: dict[Key, int | None] = {key: None if key in hidden else count for key, count in table.items()}
    bridges = set(_bridges(hidden))
    lines: list[dict[str, int | None]] = []
    for axis in (0, 1):
        totals: dict[str, int | None] = {}
        for name in sorted({key[axis] for key in table}):
            inside = [key for key in hidden if key[axis] == name]
            amount = sum(count for key, count in table.items() if key[axis] == name)
            open_ = inside and (len(inside) < 2 or sum(table[key] for key in inside) < k or bridges & set(inside))
            totals[name] = None if open_ else amount
        lines.append(totals)
    # A suppressed total would be worked out from the others and the whole, so then there is no whole, nor the others
    # of its kind unless two at least are suppressed together.
    rows, columns = (_guarded(line) for line in lines)
    whole = None in rows.values() or None in columns.values()
    return Published(shown, rows, columns, None if whole else sum(table.values()))


def _guarded(line: dict[str, int | None]) -> dict[str, int | None]:
    return dict.fromkeys(line) if None in line.values() else line


def _bridges(hidden: set[Key]) -> list[Key]:
    """Suppressed counts that are on no circle of rows and columns: those that the totals give away."""
    edges = sorted(hidden)
    beside: dict[tuple[int, str], list[int]] = {}
    for number, (row, column) in enumerate(edges):
        beside.setdefault((0, row), []).append(number)
        beside.setdefault((1, column), []).append(number)
    # A bridge is found by walking the graph once (Tarjan), without recursion: a table may have many lines.
    order: dict[tuple[int, str], int] = {}
    lowest: dict[tuple[int, str], int] = {}
    found: list[Key] = []
    for start in beside:
        if start in order:
            continue
        stack: list[tuple[tuple[int, str], int, int]] = [(start, -1, 0)]
        while stack:
            node, by, at = stack.pop()
            if at == 0:
                order[node] = lowest[node] = len(order)
            if at < len(beside[node]):
                stack.append((node, by, at + 1))
                edge = beside[node][at]
                if edge == by:
                    continue
                other = (1, edges[edge][1]) if node[0] == 0 else (0, edges[edge][0])
                if other in order:
                    lowest[node] = min(lowest[node], order[other])
                else:
                    stack.append((other, edge, 0))
            elif by >= 0:
                above = (1, edges[by][1]) if node[0] == 0 else (0, edges[by][0])
                lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] > order[above]:
                    found.append(edges[by])
    return found
