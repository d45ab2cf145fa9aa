"""One search over the item index, in one read transaction.

There are two ways to the rows of a dataset: through the R*Tree, which finds those in a place, to be sorted, and along
the index by time, which gives them in order and tests each one. The tree is asked first, up to a limit: if it finds
few, these are taken. Where it finds more, those wanted come soon along the index by time; if they do not, because what
lies in the place is old, the tree takes over.
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
from kfm.store.search.item_schema import APART, Part, row_check

FEW, LEAST = 3_000, 100  # rows that are taken from the tree: at most, and always
LISTED = 400  # rows from the tree that are read at once instead of being counted first
SMALL = 64  # rows of a dataset that are looked at without the tree
_DEARER = 10  # a row through the tree takes so many times the time of one along the index by time
MOST_COUNTED = 1_000  # rows through the tree
_TICK = 10_000  # steps of the database's machine between two looks at what was spent
_TRIAL = 600_000  # steps along the index by time, after which the tree takes over
_MOST_STEPS = 150_000_000  # steps of one search
_MOST_COMPARED = 20_000_000  # positions and pairs of edges that one search compares


class DamagedIndex(Exception):
    """The file does not hold what was written."""


class _Body(msgspec.Struct):
    geometry: Any = None


_decode_body = msgspec.json.Decoder(_Body).decode


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
            "SELECT p.* FROM json_each(?) w "
            "CROSS JOIN parts p ON p.dataset = w.key AND p.mark = w.value ORDER BY p.dataset",
            (msgspec.json.encode(allowed).decode(),),
        ):
            part = Part(*fields)
            if part.check() != crc:
                raise DamagedIndex("a part")
            found.append(part)
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
        order = _key_of(query) or cmp_to_key(_comparison(query))
        first, last = _ends(query.interval or (None, None))
        if query.interval is not None:
            parts = [part for part in parts if part.first <= last and part.last >= first]
        searches = [_PartSearch(self, part, query, len(parts)) for part in parts]
        dear = sum(search.dear for search in searches) > MOST_COUNTED
        matched = None if dear else sum(search.count() for search in searches)
        streams = [search.stream() for search in searches]
        taken: list[_Row] = []
        for row in heapq.merge(*streams, key=order):
            if len(taken) == query.limit:
                return ItemPage(bodies=self._bodies(taken), next=taken[-1].position, matched=matched)
            taken.append(row)
        return ItemPage(bodies=self._bodies(taken), next=None, matched=matched)

    def _bodies(self, rows: list[_Row]) -> list[bytes]:
        wanted = msgspec.json.encode([row.n for row in rows]).decode()
        text = "SELECT b.n, b.crc, b.body FROM json_each(?) w CROSS JOIN bodies b ON b.n = w.value"
        found: dict[int, tuple[int, bytes]] = {n: (crc, body) for n, crc, body in self.db.execute(text, (wanted,))}
        return [_checked(row.n, row.dataset, str(row.position[-1]), found.get(row.n)) for row in rows]

    def body(self, n: int, dataset: str, name: str) -> bytes:
        found: Any = self.db.execute("SELECT crc, body FROM bodies WHERE n = ?", (n,)).fetchone()
        return _checked(n, dataset, name, found)

    @property
    def steps(self) -> int:
        return self._steps

    def give_up_at(self, steps: int | None) -> None:
        self._trial = steps


class _PartSearch:
    """The search in one dataset."""

    def __init__(self, reader: IndexReader, part: Part, query: ItemQuery, parts: int) -> None:
        self._reader = reader
        self._part = part
        self._query = query
        self._boxes = _boxes(query) if query.ids is None and part.rows > SMALL else []
        most = int((part.rows * (query.limit / parts + 1) / _DEARER) ** 0.5)
        self._in_place = self._few(max(LEAST, min(FEW, most)) if FEW else 0)
        self._all: list[_Row] | None = None  # the rows of the first page, if they are all that match

    def _few(self, most: int) -> tuple[int, ...] | None:
        """Return the rows that the tree finds, if they are at most this many; None if they are more."""
        if not self._boxes:
            return None
        text, values = self._in_tree("n >> 1", most + 1)
        found: Any = self._reader.db.execute(text, values).fetchall()
        return None if len(found) > most else tuple(dict.fromkeys(n for (n,) in found))

    @property
    def _is_whole(self) -> bool:
        query = self._query
        conditions = (query.ids, query.bbox, query.intersects, query.interval, query.filter)
        return all(each is None for each in conditions)

    @property
    def dear(self) -> float:
        """Return how dear it is to count the matches: as much as to read so many rows through the tree."""
        if self._is_whole:
            return 0
        if self._in_place is not None:
            return len(self._in_place)
        if self._query.ids is not None:
            return len(self._query.ids)
        return self._part.rows / (_DEARER if self._query.filter is None else 1)

    def count(self) -> int:
        """Return how many rows match on all pages."""
        if self._is_whole:
            return self._part.rows
        if self._in_place == ():
            return 0
        if self._in_place is not None and len(self._in_place) <= LISTED and self._query.after is None:
            self._all = list(self._rows(None, through_tree=False, limit=LISTED))
            return len(self._all)
        sql = Sql(self._part.dataset, self._reader.shapes)
        text = f"SELECT count(*) FROM {self._matches(sql, through_tree=False)}"  # noqa: S608
        found = self._reader.db.execute(text, tuple(sql.values)).fetchone()
        return int(found[0]) if found else 0

    def stream(self) -> Iterator[_Row]:
        """Yield the rows that match after the position of the query, in order."""
        if self._all is not None:
            return iter(self._all)
        if self._in_place == ():
            return iter(())
        if self._in_place is not None or not self._boxes:
            return self._rows(self._query.after, through_tree=False)
        return self._walk()

    def _walk(self) -> Iterator[_Row]:
        """Yield rows along the index by time, and through the tree when that took too long."""
        reader, after = self._reader, self._query.after
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

    def _rows(self, after: Position | None, *, through_tree: bool, limit: int = 0) -> Iterator[_Row]:
        query, dataset = self._query, self._part.dataset
        sql = Sql(dataset, self._reader.shapes)
        expressions, order = sql.order(query.sortby)
        matches = self._matches(sql, through_tree=through_tree)
        later = "" if after is None else f" AND {sql.after(expressions, query.sortby, after)}"
        chosen = ", ".join(["i.n", *expressions, "i.id"])
        text = f"SELECT {chosen} FROM {matches}{later} ORDER BY {order} LIMIT {limit or query.limit + 1}"  # noqa: S608
        for n, *found in self._reader.db.cursor().execute(text, tuple(sql.values)):
            name = found.pop()
            yield _Row(n, (*found, dataset, name), dataset)

    def _matches(self, sql: Sql, *, through_tree: bool) -> str:
        """Return where the rows that match come from, and the conditions on them."""
        source, column = "items i", "i.part"
        if self._in_place is not None:
            numbers = sql.bind(msgspec.json.encode(self._in_place).decode())
            source, column = f"json_each({numbers}) h CROSS JOIN items i ON i.n = h.value", "+i.part"
        elif through_tree:
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
            yield f"i.start >= {sql.bind(max(OPEN_START, first - self._part.longest))}"  # the index by time ends here
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


def _checked(n: int, dataset: str, name: str, found: tuple[int, bytes] | None) -> bytes:
    if found is None or row_check(dataset, n, name, found[1]) != found[0]:
        raise DamagedIndex("an item")
    return found[1]


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


def _key_of(query: ItemQuery) -> Callable[[_Row], tuple[Any, ...]] | None:
    """Return the key of a row in the usual order, by start, which is never missing; None for any other order."""
    if len(query.sortby) != 1 or query.sortby[0].field not in ("datetime", "start_datetime"):
        return None
    if query.sortby[0].descending:
        return lambda row: (-row.position[0], *row.position[1:])  # type: ignore[operator]
    return lambda row: row.position


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
