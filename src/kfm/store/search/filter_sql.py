"""Filters, shapes and sort orders as SQL over the rows of the item index, `i`. Values are bound, never written."""

from __future__ import annotations

from kfm.model.search.item_query import Position, SortKey
from kfm.parsing.cql2 import (
    And,
    Between,
    Compare,
    Constant,
    FieldType,
    Filter,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Scalar,
    Spatial,
    Temporal,
)
from kfm.parsing.instants import OPEN_START
from kfm.parsing.planar_geometry import Box, Shape, shape_of_box

NO_TIME = OPEN_START - 1  # the start and the end of an item without a time
NO_SHAPE, BOX_SHAPE, OTHER_SHAPE = 0, 1, 2  # an item without a place, one that covers its box, any other
Value = str | int | float | bytes | None

_TIMES = {
    "datetime": f"NULLIF(i.start, {NO_TIME})",
    "start_datetime": f"NULLIF(i.start, {NO_TIME})",
    "end_datetime": f"NULLIF(i.end, {NO_TIME})",
    "datetime/start": f"NULLIF(i.start, {NO_TIME})",
    "datetime/end": f"NULLIF(i.end, {NO_TIME})",
}
# a..b is the first time, c..d the second.
_RELATIONS = {
    "t_after": "a > d",
    "t_before": "b < c",
    "t_disjoint": "(b < c OR a > d)",
    "t_equals": "(a = c AND b = d)",
    "t_intersects": "(a <= d AND b >= c)",
    "t_contains": "(a < c AND b > d)",
    "t_during": "(a > c AND b < d)",
    "t_finishedby": "(a < c AND b = d)",
    "t_finishes": "(a > c AND b = d)",
    "t_meets": "b = c",
    "t_metby": "a = d",
    "t_overlappedby": "(a > c AND a < d AND b > d)",
    "t_overlaps": "(a < c AND b > c AND b < d)",
    "t_startedby": "(a = c AND b > d)",
    "t_starts": "(a = c AND b < d)",
}


class Sql:
    """Conditions on the rows of one part of the index, and the values bound in them, in order."""

    def __init__(self, collection: str, shapes: list[Shape]) -> None:
        self._collection = collection  # the same in all rows of a part
        self._shapes = shapes  # those that the function kfm_meets names by their number
        self.values: list[Value] = []

    def bind(self, value: Value) -> str:
        self.values.append(value)
        return f"?{len(self.values)}"

    def expression(self, field: str, kind: FieldType) -> str:
        """Return a field as SQL: NULL if the item does not have it, or has a value of another type there."""
        if field == "id":
            return "i.id"
        if field == "collection":
            return self.bind(self._collection)
        if field in _TIMES:
            return _TIMES[field]
        if field == "geometry":
            return f"NULLIF(i.shape, {NO_SHAPE})"
        if '"' in field:
            raise ValueError("a field with a quotation mark in its name")
        path = self.bind(f'$."{field}"')
        value, its_type = f"(i.properties ->> {path})", f"json_type(i.properties, {path})"
        match kind:
            case "text":
                return f"(CASE {its_type} WHEN 'text' THEN {value} END)"
            case "boolean":
                return f"(CASE {its_type} WHEN 'true' THEN 1 WHEN 'false' THEN 0 END)"
            case _:
                return f"(CASE WHEN {its_type} IN ('integer', 'real') THEN {value} END)"

    def filter(self, part: Filter) -> str:
        match part:
            case And(parts):
                return "(" + " AND ".join(map(self.filter, parts)) + ")"
            case Or(parts):
                return "(" + " OR ".join(map(self.filter, parts)) + ")"
            case Not(inner):
                return f"(NOT {self.filter(inner)})"
            case Constant(value):
                return "1" if value else "0"
            case Compare(op, field, kind, value):
                return f"({self.expression(field, kind)} {op} {self.bind(_plain(value))})"
            case Between(field, kind, low, high):
                return f"({self.expression(field, kind)} BETWEEN {self.bind(low)} AND {self.bind(high)})"
            case In(field, kind, values):
                return f"({self.expression(field, kind)} IN ({', '.join(self.bind(_plain(v)) for v in values)}))"
            case Like(field, pattern):
                return f"({self.expression(field, 'text')} GLOB {self.bind(glob_of(pattern))})"
            case IsNull(field, kind):
                return f"({self.expression(field, kind)} IS NULL)"
            case Spatial(_, shape):
                return f"(CASE WHEN i.shape <> {NO_SHAPE} THEN {self.meets(shape)} END)"
            case Temporal():
                return self._temporal(part)
        raise ValueError("an unknown part of a filter")

    def meets(self, shape: Shape) -> str:
        """Return the condition that an item shares a point with a shape: first by the boxes, then exactly."""
        boxes = shape.boxes()
        near = "(" + " OR ".join(map(self._overlaps, boxes)) + ")"
        self._shapes.append(shape)
        body = f"CASE i.shape WHEN {OTHER_SHAPE} THEN (SELECT body FROM bodies b WHERE b.n = i.n) END"  # noqa: S608
        number = self.bind(len(self._shapes) - 1)
        exact = f"kfm_meets({number}, i.west, i.south, i.east, i.north, {body})"
        if shape.parts == tuple(part for box in boxes for part in shape_of_box(box).parts):
            return f"({near} AND (i.shape = {BOX_SHAPE} OR {exact}))"
        return f"({near} AND {exact})"

    def _overlaps(self, box: Box) -> str:
        west, south, east, north = map(self.bind, box)
        return (
            f"(i.south <= {north} AND i.north >= {south} AND CASE WHEN i.west <= i.east "
            f"THEN i.west <= {east} AND i.east >= {west} ELSE i.west <= {east} OR i.east >= {west} END)"
        )

    def _temporal(self, part: Temporal) -> str:
        ends = {"a": part.start, "b": part.end, "c": part.other_start, "d": part.other_end}
        relation = _RELATIONS[part.op]
        said = {
            name: self.expression(end, "instant") if isinstance(end, str) else self.bind(end)
            for name, end in ends.items()
            if name in relation.replace("AND", "")
        }
        return "(" + " ".join(_in_place(word, said) for word in relation.split(" ")) + ")"

    def order(self, keys: tuple[SortKey, ...]) -> tuple[list[str], str]:
        """Return the expressions of the sort keys, and the order of the rows of one part: by them, then by id."""
        expressions = [self.key(key) for key in keys]
        terms = [f"{text} {'DESC' if key.descending else 'ASC'}" for text, key in zip(expressions, keys, strict=True)]
        return expressions, ", ".join([*terms, "i.id"])

    def key(self, key: SortKey) -> str:
        # The bare column: the index by time is in its order.
        return "i.start" if key.field in ("datetime", "start_datetime") else self.expression(key.field, key.kind)

    def after(self, expressions: list[str], keys: tuple[SortKey, ...], position: Position) -> str:
        """Return the condition that a row comes after a position. A missing value is less than any other."""
        *values, collection, last = position
        rest = f"i.id > {self.bind(_plain(last))}" if collection == self._collection else "0"
        if isinstance(collection, str) and self._collection > collection:
            rest = "1"
        for text, key, value in reversed(list(zip(expressions, keys, values, strict=True))):
            bound = self.bind(_plain(value))
            if key.descending:
                later = "0" if value is None else f"({text} < {bound} OR {text} IS NULL)"
            else:
                later = f"{text} IS NOT NULL" if value is None else f"{text} > {bound}"
            rest = f"({later} OR ({text} IS {bound} AND {rest}))"
        first = keys[0] if keys else None
        if first and expressions[0] == "i.start" and first.descending:  # where the index by time begins
            rest = f"({rest} AND i.start <= {self.bind(_plain(values[0]))})"
        return rest


def _in_place(word: str, said: dict[str, str]) -> str:
    bare = word.strip("()")
    return word.replace(bare, said[bare]) if bare in said else word


def _plain(value: Scalar | None) -> Value:
    return int(value) if isinstance(value, bool) else value


def glob_of(like: str) -> str:
    """Return a pattern of LIKE as one of GLOB, which tells capital letters from small ones."""
    out, escaped = [], False
    for letter in like:
        if escaped or letter not in "%_\\":
            out.append(f"[{letter}]" if letter in "*?[" else letter)
            escaped = False
        elif letter == "\\":
            escaped = True
        else:
            out.append("*" if letter == "%" else "?")
    return "".join(out) + ("\\" if escaped else "")
