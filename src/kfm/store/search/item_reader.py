"""One search over the item index, in one read transaction.

There are two ways to the rows of a dataset: through the R*Tree, which finds those in a place and sorts them, and along
the index by time, which gives them in order and tests each one. The tree is asked first how many it would find, up to a
limit: few are taken from it. Where it would find many, those wanted come soon along the index by time; if they do not,
because what lies in the place is old, the tree takes over.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import Any, NamedTuple

import apsw
import msgspec

from kfm.errors import BadInput
from kfm.model.search.item_query import ItemPage, ItemQuery, Position
from kfm.parsing.cql2 import And, Filter, Spatial
from kfm.parsing.instants import DAY_MS, OPEN_END, OPEN_START
from kfm.parsing.planar_geometry import Box, NoShape, Shape, intersect, shape_of, shape_of_box
from kfm.store.search.filter_sql import Sql, Value
from kfm.store.search.item_schema import APART, part_check, row_check

FEW = 2_000  # rows that are read as a whole, and counted
MOST_COUNTED = 10_000  # rows of all parts together that are read as a whole
_SMALL = 64  # rows of a dataset that are looked at without the tree
_TICK = 10_000  # steps of the database's machine between two looks at what was spent
_TRIAL = 600_000  # steps along the index by time, after which the tree takes over
_MOST_STEPS = 150_000_000  # steps of one search
_MOST_COMPARED = 20_000_000  # positions and pairs of edges that one search compares


class DamagedIndex(Exception):
    """The file does not hold what was written."""


class _Body(msgspec.Struct):
    geometry: Any = None


_decode_body = msgspec.json.Decoder(_Body).decode


class Part(NamedTuple):
    n: int
    dataset: str
    mark: str
    rows: int
    first: int  # the earliest start and the latest end of its items
    last: int


class _Row(NamedTuple):
    n: int
    position: Position
    dataset: str


class IndexReader:
    """A connection for one search at a time."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.shapes: list[Shape] = []
        self._steps = 0
        self._compared = 0
        self._trial: int | None = None  # steps at which the current walk gives up
        db.create_scalar_function("kfm_meets", self._meets, 6, deterministic=True)
        db.set_progress_handler(self._is_too_much, _TICK)

    def _is_too_much(self) -> bool:
        self._steps += _TICK
        return self._steps > _MOST_STEPS or (self._trial is not None and self._steps > self._trial)

    def _meets(self, *values: Any) -> bool:
        number, west, south, east, north, body = values
        shape = None
        if body is not None:
            try:
                shape = shape_of(_decode_body(body).geometry, 1_000_000, on_earth=False)
            except (NoShape, msgspec.DecodeError):
                shape = None
        return intersect(shape or shape_of_box((west, south, east, north)), self.shapes[number], self._spend)

    def _spend(self, count: int) -> None:
        self._compared += count
        if self._compared > _MOST_COMPARED:
            raise _too_long()

    def parts(self, allowed: dict[str, str]) -> list[Part]:
        """Return those of these datasets that the index has with these very marks, by name."""
        found = []
        for *fields, crc in self.db.execute(
            "SELECT p.n, p.dataset, p.mark, p.rows, p.first, p.last, p.crc FROM json_each(?) w "
            "CROSS JOIN parts p ON p.dataset = w.key AND p.mark = w.value ORDER BY p.dataset",
            (msgspec.json.encode(allowed).decode(),),
        ):
            if part_check(*fields) != crc:
                raise DamagedIndex("a part")
            found.append(Part(*fields))
        return found

    def search(self, query: ItemQuery) -> ItemPage:
        self.shapes.clear()
        self._steps = self._compared = 0
        self._trial = None
        if query.after is not None and len(query.after) != len(query.sortby) + 2:
            raise BadInput("the cursor belongs to another search", hint="begin again without it")
        wanted = query.collections
        names = query.allowed if wanted is None else {n: m for n, m in query.allowed.items() if n in set(wanted)}
        try:
            return self._page(query, self.parts(dict(names)))
        except apsw.InterruptError:
            raise _too_long() from None
        finally:
            self._trial = None

    def _page(self, query: ItemQuery, parts: list[Part]) -> ItemPage:
        if query.limit < 1 or query.ids == ():
            return ItemPage(bodies=[], next=None, matched=0)
        compare = cmp_to_key(_comparison(query))
        streams: list[Iterator[_Row]] = []
        matched: int | None = 0
        left = MOST_COUNTED
        first, last = _ends(query.interval or (None, None))
        for part in parts:
            if query.interval is not None and (part.first > last or part.last < first):
                continue
            search = _PartSearch(self, part, query)
            few = search.few(min(FEW, left))
            if few is None:
                matched = None if matched is None or not search.is_whole else matched + part.rows
                streams.append(search.walk())
                continue
            left -= few
            count = search.count()
            matched = None if matched is None else matched + count
            if count:
                streams.append(search.sorted())
        taken: list[_Row] = []
        for row in heapq.merge(*streams, key=compare):
            if len(taken) == query.limit:
                return ItemPage(bodies=self._bodies(taken), next=taken[-1].position, matched=matched)
            taken.append(row)
        return ItemPage(bodies=self._bodies(taken), next=None, matched=matched)

    def _bodies(self, rows: list[_Row]) -> list[bytes]:
        return [self.body(row.n, row.dataset, str(row.position[-1])) for row in rows]

    def body(self, n: int, dataset: str, name: str) -> bytes:
        found = self.db.execute("SELECT crc, body FROM bodies WHERE n = ?", (n,)).fetchone()
        if found is None or row_check(dataset, n, name, found[1]) != found[0]:
            raise DamagedIndex("an item")
        body: bytes = found[1]
        return body

    @property
    def steps(self) -> int:
        return self._steps

    def give_up_at(self, steps: int | None) -> None:
        self._trial = steps


class _PartSearch:
    """The search in one dataset."""

    def __init__(self, reader: IndexReader, part: Part, query: ItemQuery) -> None:
        self._reader = reader
        self._part = part
        self._query = query
        self._boxes = _boxes(query)
        self.is_whole = query.ids is None and query.interval is None and not self._boxes and query.filter is None

    def few(self, most: int) -> int | None:
        """Return how many rows are to be looked at, if that is at most this many; None if it is more."""
        if self._query.ids is not None:
            return len(self._query.ids) if len(self._query.ids) <= most else None
        if self._part.rows <= most:
            return self._part.rows
        if not self._boxes:
            return None
        text, values = self._in_tree("1", most + 1)
        found = self._reader.db.execute(f"SELECT count(*) FROM ({text})", values).fetchone()  # noqa: S608
        return None if found is None or found[0] > most else int(found[0])

    @property
    def _through_tree(self) -> bool:
        return bool(self._boxes) and self._query.ids is None and self._part.rows > _SMALL

    def count(self) -> int:
        """Return how many rows match on all pages."""
        sql = Sql(self._part.dataset, self._reader.shapes)
        text = f"SELECT count(*) FROM {self._matches(sql, through_tree=self._through_tree)}"  # noqa: S608
        found = self._reader.db.execute(text, tuple(sql.values)).fetchone()
        return int(found[0]) if found else 0

    def sorted(self) -> Iterator[_Row]:
        """Yield the rows that match after the position of the query: those that a page can hold, all read and sorted
        at once."""
        return self._rows(self._query.after, through_tree=self._through_tree)

    def walk(self) -> Iterator[_Row]:
        """Yield the rows that match after the position of the query, along the index by time."""
        after = self._query.after
        if not self._boxes:
            yield from self._rows(after, through_tree=False)
            return
        reader = self._reader
        spent = 0
        rows = self._rows(after, through_tree=False)
        try:
            while True:
                begun = reader.steps
                reader.give_up_at(begun + _TRIAL - spent)
                row = next(rows, None)
                reader.give_up_at(None)
                spent += reader.steps - begun
                if row is None:
                    return
                after = row.position
                yield row
        except apsw.InterruptError:
            reader.give_up_at(None)
            if reader.steps > _MOST_STEPS:
                raise
        yield from self._rows(after, through_tree=True)

    def _rows(self, after: Position | None, *, through_tree: bool) -> Iterator[_Row]:
        query, dataset = self._query, self._part.dataset
        sql = Sql(dataset, self._reader.shapes)
        expressions, order = sql.order(query.sortby)
        matches = self._matches(sql, through_tree=through_tree)
        later = "" if after is None else f" AND {sql.after(expressions, query.sortby, after)}"
        chosen = ", ".join(["i.n", *expressions, "i.id"])
        text = f"SELECT {chosen} FROM {matches}{later} ORDER BY {order} LIMIT {query.limit + 1}"  # noqa: S608
        for n, *found in self._reader.db.cursor().execute(text, tuple(sql.values)):
            name = found.pop()
            yield _Row(n, (*found, dataset, name), dataset)

    def _matches(self, sql: Sql, *, through_tree: bool) -> str:
        """Return where the rows that match come from, and the conditions on them."""
        source, column = "items i", "i.part"
        if through_tree:
            text, values = self._in_tree("n >> 1 AS n", None)
            numbered = _renumbered(text, [sql.bind(value) for value in values])
            source, column = f"(SELECT DISTINCT n FROM ({numbered})) h CROSS JOIN items i ON i.n = h.n", "+i.part"  # noqa: S608
        where = [f"{column} = {sql.bind(self._part.n)}", *self._conditions(sql)]
        return f"{source} WHERE {' AND '.join(where)}"

    def _conditions(self, sql: Sql) -> Iterator[str]:
        query = self._query
        if query.ids is not None:
            names = sql.bind(msgspec.json.encode(query.ids).decode())
            yield f"i.id IN (SELECT value FROM json_each({names}))"  # noqa: S608
        if query.interval is not None:
            first, last = _ends(query.interval)
            yield f"i.start <= {sql.bind(last)} AND i.end >= {sql.bind(first)}"
        for shape in _shapes(query):
            yield f"(i.shape > 0 AND {sql.meets(shape)})"
        if query.filter is not None:
            yield sql.filter(query.filter)

    def _in_tree(self, chosen: str, most: int | None) -> tuple[str, tuple[Value, ...]]:
        """Return a query of the R*Tree, for each box in turn, and its values."""
        first, last = _ends(self._query.interval or (None, None))
        low = self._part.n * APART
        texts: list[str] = []
        values: list[Value] = []
        for west, south, east, north in self._boxes:
            where = "low >= ? AND low <= ? AND west <= ? AND east >= ? AND south <= ? AND north >= ?"
            values += [low, low, east, west, north, south]
            if self._query.interval is not None:
                where += " AND first <= ? AND last >= ?"
                values += [last / DAY_MS, first / DAY_MS]
            texts.append(f"SELECT {chosen} FROM tree WHERE {where}")  # noqa: S608
        return " UNION ALL ".join(texts) + ("" if most is None else f" LIMIT {most}"), tuple(values)


def _renumbered(text: str, names: list[str]) -> str:
    pieces = text.split("?")
    return "".join(piece + name for piece, name in zip(pieces, [*names, ""], strict=True))


def _ends(interval: tuple[int | None, int | None]) -> tuple[int, int]:
    first, last = interval
    return OPEN_START if first is None else first, OPEN_END if last is None else last


def _shapes(query: ItemQuery) -> Iterator[Shape]:
    if query.bbox is not None:
        yield shape_of_box(query.bbox)
    if query.intersects is not None:
        yield query.intersects


def _boxes(query: ItemQuery) -> list[Box]:
    """Return boxes one of which every match must meet: those of the first shape that the search demands."""
    for shape in (*_shapes(query), *_demanded(query.filter)):
        return shape.boxes()
    return []


def _demanded(part: Filter | None) -> Iterator[Shape]:
    if isinstance(part, Spatial):
        yield part.shape
    elif isinstance(part, And):
        for each in part.parts:
            yield from _demanded(each)


def _comparison(query: ItemQuery) -> Callable[[_Row, _Row], int]:
    """Return the order of rows: by the sort keys, then by collection and id. A missing value is less than any other."""
    signs = [*(-1 if key.descending else 1 for key in query.sortby), 1, 1]

    def compare(a: _Row, b: _Row) -> int:
        for sign, x, y in zip(signs, a.position, b.position, strict=True):
            if x != y:
                if x is None or y is None:
                    return sign if y is None else -sign
                return sign if x > y else -sign  # type: ignore[operator]
        return 0

    return compare


def _too_long() -> BadInput:
    return BadInput(
        "this search would take too long",
        hint="ask for a smaller box or a shorter interval, name collections, or sort by datetime",
    )
