"""A reader who asks a server thousands of overlapping questions, and solves what the answers say as a system.

He knows everything that is published, and the totals of the protected table by cell and by kind from elsewhere. He
computes by himself what each answer must be if it depends on nothing but what is published; where an answer differs, he
has an equation about what is not. This file shares no code with the product.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

Box = tuple[float, float, float, float]
Truth = bool | None  # None: an item says nothing about it
Test = Callable[["Item"], Truth]


class Item(NamedTuple):
    collection: str
    id: str
    box: Box | None
    start: str
    end: str
    rows: int | None
    created: str


class Query(NamedTuple):
    """A question, and who matches it."""

    asked: Mapping[str, str]
    matches: Test
    order: str = ""  # a field with its sign; empty: as the server likes


def item_of(feature: Mapping[str, Any]) -> Item:
    said, box = feature["properties"], feature.get("bbox")
    start = said.get("start_datetime") or said.get("datetime") or ""
    end = said.get("end_datetime") or said.get("datetime") or ""
    rows = said.get("table:row_count")
    return Item(feature["collection"], feature["id"], tuple(box) if box else None, start, end, rows, said["created"])


def in_box(box: Box) -> Test:
    west, south, east, north = box

    def test(item: Item) -> bool:
        if item.box is None:
            return False
        w, s, e, n = item.box
        return w <= east and e >= west and s <= north and n >= south

    return test


def in_time(first: str, last: str) -> Test:
    return lambda item: bool(item.start) and item.start <= last and item.end >= first


def number(op: str, value: int) -> Test:
    compare: dict[str, Callable[[int], bool]] = {
        "=": lambda n: n == value, "<": lambda n: n < value, ">": lambda n: n > value,
        "<=": lambda n: n <= value, ">=": lambda n: n >= value, "<>": lambda n: n != value,
    }  # fmt: skip
    return lambda item: None if item.rows is None else compare[op](item.rows)


def both(tests: Iterable[Test]) -> Test:
    own = list(tests)

    def test(item: Item) -> Truth:
        found = [one(item) for one in own]
        return False if False in found else None if None in found else True

    return test


def opposite(one: Test) -> Test:
    def test(item: Item) -> Truth:
        found = one(item)
        return None if found is None else not found

    return test


def queries(draw: random.Random, items: list[Item], around: Box) -> Iterator[Query]:
    """Yield questions without end: boxes that overlap, and differ by little from one to the next; times; filters; ids;
    collections; orders, page by page."""
    edges = [side for item in items if item.box for side in (item.box[0::2], item.box[1::2])]
    names = sorted({item.collection for item in items})
    while True:
        asked: dict[str, str] = {}
        tests: list[Test] = []
        if draw.random() < 0.75:
            box = _box(draw, around, edges)
            kind = draw.random()
            if kind < 0.7:
                asked["bbox"] = ",".join(map(repr, box))
            else:
                asked["intersects"] = json.dumps(_polygon(box))
            tests.append(in_box(box))
        if draw.random() < 0.4:
            first, last = sorted(draw.randrange(1995, 2030) for _ in range(2))
            span = f"{first}-01-01T00:00:00Z", f"{last}-12-31T00:00:00Z"
            asked["datetime"] = "/".join(span)
            tests.append(in_time(*span))
        if draw.random() < 0.4:
            said, test = _filter(draw, around, edges)
            asked["filter"], asked["filter-lang"] = json.dumps(said), "cql2-json"
            tests.append(test)
        if draw.random() < 0.2:
            chosen = draw.sample(names, draw.randrange(1, len(names) + 1))
            asked["collections"] = ",".join([*chosen, "shut", "vault"])
            tests.append(lambda item, own=frozenset(chosen): item.collection in own)  # type: ignore[misc]
        if draw.random() < 0.1:
            ids = sorted({draw.choice(items).id for _ in range(5)})
            asked["ids"] = ",".join(ids)
            tests.append(lambda item, own=frozenset(ids): item.id in own)  # type: ignore[misc]
        order = draw.choice(["", "", "+id", "-id", "+created", "-table:row_count", "+datetime"])
        if order:
            asked["sortby"] = order
        asked["limit"] = str(draw.choice([3, 10, 10, 100, 1000]))
        yield Query(asked, both(tests), order)


def _box(draw: random.Random, around: Box, edges: list[tuple[float, ...]]) -> Box:
    """A box anywhere, or one that ends at, just before or just after the edge of an item."""
    west, south, east, north = around
    size = draw.choice([0.01, 0.3, 2.0, 6.0])
    x, y = draw.uniform(west, east), draw.uniform(south, north)
    box = [x, y, x + draw.uniform(0, size), y + draw.uniform(0, size)]
    if draw.random() < 0.5:
        axis, (low, high) = draw.randrange(2), (0.0, 0.0)
        pair = edges[2 * draw.randrange(len(edges) // 2) + axis]
        near = draw.choice([0.0, 1e-9, -1e-9, 1e-5, -1e-5])
        low, high = (pair[1] + near, pair[1] + near + size) if draw.random() < 0.5 else (pair[0] - size, pair[0] + near)
        box[axis], box[axis + 2] = low, high
    return box[0], box[1], box[2], box[3]


def _polygon(box: Box) -> dict[str, Any]:
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


def _filter(draw: random.Random, around: Box, edges: list[tuple[float, ...]]) -> tuple[dict[str, Any], Test]:
    kind = draw.randrange(5)
    rows = {"property": "table:row_count"}
    if kind == 0:
        box = _box(draw, around, edges)
        return {"op": "s_intersects", "args": [{"property": "geometry"}, _polygon(box)]}, in_box(box)
    if kind == 1:
        return {"op": "isNull", "args": [rows]}, lambda item: item.rows is None
    if kind == 2:
        one, other = (_filter(draw, around, edges) for _ in range(2))
        return {"op": "and", "args": [one[0], other[0]]}, both([one[1], other[1]])
    value, op = draw.randrange(0, 30), draw.choice(["=", "<", ">", "<=", ">=", "<>"])
    said, test = {"op": op, "args": [rows, value]}, number(op, value)
    return (said, test) if kind == 3 else ({"op": "not", "args": [said]}, opposite(test))


# -- solving


Cell = tuple[str, str]  # of the table of counts: an H3 cell and a kind


def undetermined(truth: Mapping[Cell, int], hidden: set[Cell], k: int, least: int = 1) -> set[Cell]:
    """Return the hidden counts that do not follow from the shown ones and the totals that a reader may know: of all,
    and of each row and column that has several counts and at least k of them together. Who knows another total of a
    row knows a count below k already.

    Each hidden count is at least `least`. Another table fits the same totals if, and only if, counts can be moved along
    a circle of hidden cells that goes up and down in turn: rows and columns are a transport problem, whose integer
    solutions are joined by such circles. The rows whose totals nobody knows are one row together.
    """
    lines = {cell: (_line(truth, cell, 0, k), _line(truth, cell, 1, k)) for cell in hidden}
    return {cell for cell in hidden if any(_moves(truth, lines, cell, least, up=up) for up in (True, False))}


def _line(truth: Mapping[Cell, int], cell: Cell, axis: int, k: int) -> str:
    own = [count for other, count in truth.items() if other[axis] == cell[axis]]
    return cell[axis] if len(own) > 1 and sum(own) >= k else "any"


def _moves(truth: Mapping[Cell, int], lines: Mapping[Cell, Cell], begin: Cell, least: int, *, up: bool) -> bool:
    """Return whether one can be added to (or taken from) a hidden count and the totals stay."""
    if not up and truth[begin] <= least:
        return False
    # Along the column a cell changes the other way, along the row it changes back; the circle ends in the first row.
    waiting, known = deque([(begin, up)]), {(begin, up)}
    while waiting:
        cell, went_up = waiting.popleft()
        axis = 1 if went_up == up else 0  # the line that is out of balance now
        for other, ends in lines.items():
            if other == cell or ends[axis] != lines[cell][axis] or (went_up and truth[other] <= least):
                continue
            step = other, not went_up
            if other != begin and axis == 1 and ends[0] == lines[begin][0]:
                return True
            if other != begin and step not in known:
                known.add(step)
                waiting.append(step)
    return False


def solved(equations: Iterable[tuple[Mapping[int, int], int]], unknowns: int) -> dict[int, Fraction]:
    """Return the unknowns that follow from linear equations, by elimination over the fractions."""
    rows: dict[int, dict[int, Fraction]] = {}  # by their first unknown; the right side is at -1
    for left, right in equations:
        row = {at: Fraction(value) for at, value in left.items() if value} | {-1: Fraction(right)}
        while lead := min((at for at in row if at >= 0), default=-1) + 1:
            if lead - 1 not in rows:
                rows[lead - 1] = {at: value / row[lead - 1] for at, value in row.items()}
                break
            _subtract(row, rows[lead - 1], row[lead - 1])
    for lead in sorted(rows, reverse=True):
        for at in [at for at in rows[lead] if at > lead and at in rows]:
            _subtract(rows[lead], rows[at], rows[lead][at])
    return {lead: row.get(-1, Fraction(0)) for lead, row in rows.items() if set(row) <= {lead, -1} and lead < unknowns}


def _subtract(row: dict[int, Fraction], other: Mapping[int, Fraction], times: Fraction) -> None:
    for at, value in other.items():
        left = row.get(at, Fraction(0)) - times * value
        if left or at == -1:
            row[at] = left
        else:
            row.pop(at, None)
