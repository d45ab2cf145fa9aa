"""Counts that reveal no single record: counts below k are suppressed, and so are counts from which they follow.

A table with totals is a set of equations. The only suppressed count of a row follows from the row's total. In a table
of rows and columns a suppressed count follows exactly if it is a bridge of the graph that joins rows and columns by
their suppressed counts. So more counts are suppressed until there is no bridge and no line hides less than k.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from kfm.errors import Refused
from kfm.model.masks import SMALLEST_K

Key = tuple[str, str]
Counts = Mapping[Key, int]


class Published(NamedTuple):
    """A table of counts that may be published; None is a suppressed count."""

    counts: dict[Key, int | None]
    rows: dict[str, int | None]
    columns: dict[str, int | None]
    total: int | None


def counted(pairs: Iterable[Key]) -> dict[Key, int]:
    """Return how often each pair occurs, such as cell and period."""
    found: dict[Key, int] = {}
    for pair in pairs:
        found[pair] = found.get(pair, 0) + 1
    return found


def suppressed(counts: Counts, k: int = SMALLEST_K, also: Container[Key] = ()) -> Published:
    """Return a table of counts with totals as it may be published; counts in `also` are suppressed, too. A place that
    is not in it counts as 0 and is shown. Raise Refused if k is too small."""
    if k < SMALLEST_K:
        raise Refused(f"k, the smallest count to show, must be at least {SMALLEST_K}", rule="mask.k-too-small")
    if any(count < 0 for count in counts.values()):
        raise Refused("a count is below zero", rule="mask.count-negative")
    table = {key: count for key, count in sorted(counts.items()) if count}
    hidden = {key for key, count in table.items() if count < k or key in also}
    while more := _needed(table, hidden, k):
        hidden.add(more)
    return _with_totals(table, hidden, k)


def _needed(table: dict[Key, int], hidden: set[Key], k: int) -> Key | None:
    """Return one more count to suppress if a suppressed one still follows from others; None if not, or if nothing
    helps."""
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
        nearby = [key for key in table if key not in hidden and (key[0] == bridge[0] or key[1] == bridge[1])]
        if found := _cheapest(table, nearby, hidden):
            return found
    return None


def _cheapest(table: dict[Key, int], keys: list[Key], hidden: set[Key]) -> Key | None:
    """Return the count to suppress next: preferably one whose row and column already have suppressed counts, because it
    then requires no further ones; among those, the smallest. None if there is none."""
    rows, columns = {key[0] for key in hidden}, {key[1] for key in hidden}
    return min(keys, key=lambda key: (not (key[0] in rows and key[1] in columns), table[key], key), default=None)


def _with_totals(table: dict[Key, int], hidden: set[Key], k: int) -> Published:
    """Return the table with the totals from which no suppressed count follows; other totals are suppressed."""
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
    # A single suppressed total follows from the grand total and the others. So the grand total is suppressed too, and
    # so are all totals of that kind.
    rows, columns = (_guarded(line) for line in lines)
    whole = None in rows.values() or None in columns.values()
    return Published(shown, rows, columns, None if whole else sum(table.values()))


def _guarded(line: dict[str, int | None]) -> dict[str, int | None]:
    return dict.fromkeys(line) if None in line.values() else line


def _bridges(hidden: set[Key]) -> list[Key]:
    """Return the suppressed counts that the totals reveal: the bridges of the graph that joins rows and columns by
    their suppressed counts."""
    edges = sorted(hidden)
    beside: dict[tuple[int, str], list[int]] = {}
    for number, (row, column) in enumerate(edges):
        beside.setdefault((0, row), []).append(number)
        beside.setdefault((1, column), []).append(number)
    # Tarjan's algorithm finds bridges in one pass; without recursion, because a table may have many lines.
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
