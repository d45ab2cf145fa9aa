"""CQL2 JSON, the filter language of OGC: a small part of it, within bounds, onto an allow-list of fields.

A filter is a tree of records. A predicate about a field that an item does not have is neither true nor false, also
under `not`, as CQL2 says; only `isNull` is true of it. Mistakes are named by their JSON pointer and quote no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Literal

import msgspec

from kfm.errors import BadInput
from kfm.parsing.characters import printable
from kfm.parsing.instants import OPEN_END, OPEN_START, instant_ms, instant_span
from kfm.parsing.planar_geometry import NoShape, Shape, shape_of, shape_of_box

# The type of a field: a text, a number, true or false, an instant, the time that an item covers, or its geometry.
FieldType = Literal["text", "number", "boolean", "instant", "span", "geometry"]
Scalar = str | int | float | bool
Comparison = Literal["=", "<>", "<", ">", "<=", ">="]

MOST_DEPTH = 16
MOST_NODES = 200
MOST_TEXT = 1_000
MOST_VALUES = 500
MOST_POINTS = 1_000
MOST_NUMBER = 2**53

_CONF = "http://www.opengis.net/spec/cql2/1.0/conf/"
CONFORMANCE = (
    _CONF + "cql2-json",
    _CONF + "basic-cql2",
    _CONF + "advanced-comparison-operators",
    _CONF + "basic-spatial-functions",
    _CONF + "basic-spatial-functions-plus",
    _CONF + "temporal-functions",
)

_FLIPPED: dict[str, Comparison] = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
ANY_TIMES = ("t_after", "t_before", "t_disjoint", "t_equals", "t_intersects")
INTERVALS = ("t_contains", "t_during", "t_finishedby", "t_finishes", "t_meets", "t_metby", "t_overlappedby",
             "t_overlaps", "t_startedby", "t_starts")  # fmt: skip
OPERATORS = ("and", "or", "not", *_FLIPPED, "isNull", "like", "between", "in", "s_intersects", *ANY_TIMES, *INTERVALS)
_BY_LOWER = {name.lower(): name for name in OPERATORS}


class Filter(msgspec.Struct, frozen=True):
    """The base class of the parts of a filter."""


class And(Filter, frozen=True):
    parts: tuple[Filter, ...]


class Or(Filter, frozen=True):
    parts: tuple[Filter, ...]


class Not(Filter, frozen=True):
    part: Filter


class Constant(Filter, frozen=True):
    value: bool


class Compare(Filter, frozen=True):
    """A field next to a value. An instant is milliseconds since 1970."""

    op: Comparison
    field: str
    kind: FieldType
    value: Scalar


class Between(Filter, frozen=True):
    field: str
    kind: FieldType
    low: int | float
    high: int | float


class In(Filter, frozen=True):
    field: str
    kind: FieldType
    values: tuple[Scalar, ...]


class Like(Filter, frozen=True):
    """`%` stands for any text, `_` for one character, a backslash takes the meaning from the character after it."""

    field: str
    pattern: str


class IsNull(Filter, frozen=True):
    field: str
    kind: FieldType


class Spatial(Filter, frozen=True):
    """The geometry of the item shares a point with this shape."""

    field: str
    shape: Shape


class Temporal(Filter, frozen=True):
    """A relation between two times, each with a start and an end: milliseconds, or the name of a field."""

    op: str
    start: int | str
    end: int | str
    other_start: int | str
    other_end: int | str


def parse_filter(document: object, fields: Mapping[str, FieldType]) -> Filter:
    """Return CQL2 JSON as a filter on these fields. Raise BadInput for everything else."""
    return _FilterParser(fields).filter(document, "", 1)


class _FilterParser:
    def __init__(self, fields: Mapping[str, FieldType]) -> None:
        self._fields = fields
        self._nodes = 0

    def filter(self, node: Any, at: str, depth: int) -> Filter:
        self._count(at)
        if isinstance(node, bool):
            return Constant(node)
        if not isinstance(node, dict) or set(node) != {"op", "args"}:
            raise _mistake(at, "is not an expression", 'write {"op": …, "args": […]}, or true or false')
        if depth > MOST_DEPTH:
            raise _mistake(at, "is too deep", f"a filter is at most {MOST_DEPTH} levels deep")
        op = self._operator(node["op"], f"{at}/op")
        args = node["args"]
        if op in ("and", "or"):
            parts = self._arguments(args, at, op, 2, MOST_NODES)
            inner = tuple(self.filter(each, f"{at}/args/{n}", depth + 1) for n, each in enumerate(parts))
            return And(inner) if op == "and" else Or(inner)
        if op == "not":
            return Not(self.filter(self._arguments(args, at, op, 1)[0], f"{at}/args/0", depth + 1))
        return self._predicate(op, args, at)

    def _predicate(self, op: str, args: Any, at: str) -> Filter:
        if op in _FLIPPED:
            return self._comparison(op, self._arguments(args, at, op, 2), at)
        if op == "isNull":
            name, kind = self._property(self._arguments(args, at, op, 1)[0], f"{at}/args/0")
            return IsNull(name, kind)
        if op == "like":
            name, _ = self._property(self._arguments(args, at, op, 2)[0], f"{at}/args/0", "text")
            return Like(name, self._text(args[1], f"{at}/args/1"))
        if op == "between":
            if isinstance(args, list) and len(args) == 2 and isinstance(args[1], list):  # as drafts of CQL2 had it
                args = [args[0], *args[1]]
            name, kind = self._property(
                self._arguments(args, at, op, 3)[0], f"{at}/args/0", "number", "instant", "span"
            )
            low, _ = self._ordered(kind, args[1], f"{at}/args/1")
            _, high = self._ordered(kind, args[2], f"{at}/args/2")
            return Between(name, kind, low, high)
        if op == "in":
            return self._membership(self._arguments(args, at, op, 2), at)
        if op == "s_intersects":
            return self._spatial(self._arguments(args, at, op, 2), at)
        return self._temporal(op, self._arguments(args, at, op, 2), at)

    def _count(self, at: str) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise _mistake(at, "is one part too many", f"a filter has at most {MOST_NODES} parts")

    def _operator(self, value: Any, at: str) -> str:
        known = ", ".join(OPERATORS)
        if not isinstance(value, str):
            raise _mistake(at, "is not the name of an operator", f"write one of {known}")
        op = _BY_LOWER.get(value.lower()) if len(value) <= 20 else None
        if op is None:
            raise _mistake(at, f"names an unknown operator {shown(value)}", f"write one of {known}")
        return op

    def _arguments(self, args: Any, at: str, op: str, least: int, most: int = 0) -> list[Any]:
        if not isinstance(args, list) or not least <= len(args) <= max(most, least):
            count = f"{least} or more" if most else str(least)
            raise _mistake(f"{at}/args", f"does not fit {op}", f"write a list of {count}")
        return args

    def _property(self, node: Any, at: str, *kinds: FieldType) -> tuple[str, FieldType]:
        self._count(at)
        allowed = [name for name, kind in self._fields.items() if not kinds or kind in kinds]
        hint = f"fields that fit here: {', '.join(allowed) or 'none'}"
        if not is_property(node):
            raise _mistake(at, "is not a property", f'write {{"property": …}} first, then values; {hint}')
        name = known_field(node["property"], self._fields)
        if not name:
            raise _mistake(f"{at}/property", f"names an unknown field {shown(node['property'])}", hint)
        if name not in allowed:
            raise _mistake(f"{at}/property", f"names a field of another type, {self._fields[name]}", hint)
        return name, self._fields[name]

    def _comparison(self, op: str, args: list[Any], at: str) -> Filter:
        first, second = 0, 1
        if not is_property(args[0]) and is_property(args[1]):
            first, second, op = 1, 0, _FLIPPED[op]
        kinds: tuple[FieldType, ...] = ("text", "number", "boolean", "instant", "span")
        name, kind = self._property(args[first], f"{at}/args/{first}", *kinds)
        value, place = args[second], f"{at}/args/{second}"
        if is_property(value):
            raise _mistake(place, "is a property, too", "compare a property with a value")
        if kind in ("instant", "span"):
            return _moments(op, name, kind, *self._ordered(kind, value, place))
        return Compare(_FLIPPED[_FLIPPED[op]], name, kind, self._scalar(kind, value, place))

    def _membership(self, args: list[Any], at: str) -> Filter:
        name, kind = self._property(args[0], f"{at}/args/0", "text", "number", "boolean", "instant", "span")
        if not isinstance(args[1], list) or not args[1]:
            raise _mistake(f"{at}/args/1", "is not a list of values", "write the values in a list")
        if len(args[1]) > MOST_VALUES:
            raise _mistake(f"{at}/args/1", "is too long", f"a list has at most {MOST_VALUES} values")
        if kind not in ("instant", "span"):
            return In(name, kind, tuple(self._scalar(kind, v, f"{at}/args/1/{n}") for n, v in enumerate(args[1])))
        spans = [self._ordered(kind, v, f"{at}/args/1/{n}") for n, v in enumerate(args[1])]
        if all(low == high for low, high in spans):
            return In(name, kind, tuple(low for low, _ in spans))
        return Or(tuple(Between(name, kind, low, high) for low, high in spans))

    def _scalar(self, kind: FieldType, value: Any, at: str) -> Scalar:
        self._literal(at)
        if kind == "text":
            return self._text(value, at)
        if kind == "boolean":
            if not isinstance(value, bool):
                raise _mistake(at, "does not fit the field", "write true or false")
            return value
        return self._number(value, at)

    def _ordered(self, kind: FieldType, value: Any, at: str) -> tuple[int | float, int | float]:
        """Return the first and the last value that a number or an instant stands for. A day is all of its instants."""
        self._literal(at)
        if kind == "number":
            number = self._number(value, at)
            return number, number
        return self._moment(value, at)

    def _literal(self, at: str) -> None:
        """Values count as parts, except in the list of `in`, which has its own bound."""
        if at.rpartition("/args/")[2].isdigit():
            self._count(at)

    def _number(self, value: Any, at: str) -> int | float:
        fits = not isinstance(value, bool) and isinstance(value, int | float)
        if not fits or not (isfinite(value) if isinstance(value, float) else abs(value) <= MOST_NUMBER):
            raise _mistake(at, "does not fit the field", "write a number; whole numbers up to 2^53")
        number: int | float = value
        return number

    def _text(self, value: Any, at: str) -> str:
        if not isinstance(value, str):
            raise _mistake(at, "does not fit the field", "write a text")
        if len(value) > MOST_TEXT:
            raise _mistake(at, "is too long", f"a text has at most {MOST_TEXT:,} characters")
        if not is_clean(value):
            raise _mistake(at, "holds a character that no text holds", "leave out NUL and half surrogate pairs")
        return value

    def _moment(self, value: Any, at: str) -> tuple[int, int]:
        found = None
        if isinstance(value, str):
            ms = instant_ms(value) if len(value) < 60 else None
            found = None if ms is None else (ms, ms)
        elif isinstance(value, dict) and len(value) == 1:
            (key, text) = next(iter(value.items()))
            if key in ("timestamp", "date") and isinstance(text, str) and len(text) < 60:
                found = instant_span(text)
        if found is None:
            raise _mistake(
                at, "is not an instant", 'write {"timestamp": "2026-01-31T00:00:00Z"} or {"date": "2026-01-31"}'
            )
        return found

    def _spatial(self, args: list[Any], at: str) -> Filter:
        first, second = (1, 0) if not is_property(args[0]) and is_property(args[1]) else (0, 1)
        name, _ = self._property(args[first], f"{at}/args/{first}", "geometry")
        place, value = f"{at}/args/{second}", args[second]
        self._count(place)
        if isinstance(value, dict) and set(value) == {"bbox"}:
            return Spatial(name, shape_of_box(box_from(value["bbox"], f"{place}/bbox", _mistake)))
        try:
            return Spatial(name, shape_of(value, MOST_POINTS))
        except NoShape as problem:
            raise _mistake(place + problem.pointer, problem.what, problem.hint) from None

    def _temporal(self, op: str, args: list[Any], at: str) -> Filter:
        both = [self._time(each, f"{at}/args/{n}", op in INTERVALS) for n, each in enumerate(args)]
        if not any(isinstance(end, str) for each in both for end in each):
            raise _mistake(f"{at}/args", "names no property", "compare a property with a time")
        return Temporal(op, *both[0], *both[1])

    def _time(self, node: Any, at: str, interval: bool) -> tuple[int | str, int | str]:
        """Return the start and the end of an operand. A field of type span has both, any other field is an instant."""
        if is_property(node):
            name, kind = self._property(node, at, *(("span",) if interval else ("span", "instant")))
            return (f"{name}/start", f"{name}/end") if kind == "span" else (name, name)
        if isinstance(node, dict) and set(node) == {"interval"}:
            ends = node["interval"]
            if not isinstance(ends, list) or len(ends) != 2:
                raise _mistake(f"{at}/interval", "is not an interval", "write a list of its start and its end")
            start = self._end(ends[0], f"{at}/interval/0", 0)
            end = self._end(ends[1], f"{at}/interval/1", 1)
            if isinstance(start, int) and isinstance(end, int) and start > end:
                raise _mistake(f"{at}/interval", "ends before it starts", "write the earlier instant first")
            return start, end
        if interval:
            raise _mistake(at, "is not an interval", 'write {"interval": [start, end]}; an open end is ".."')
        self._count(at)
        return self._moment(node, at)

    def _end(self, node: Any, at: str, last: int) -> int | str:
        if is_property(node):
            return self._property(node, at, "instant")[0]
        self._count(at)
        if node == "..":
            return OPEN_END if last else OPEN_START
        if isinstance(node, str) and len(node) < 60 and (found := instant_span(node)):
            return found[last]
        return self._moment(node, at)[last]


def _moments(op: str, name: str, kind: FieldType, low: int | float, high: int | float) -> Filter:
    """Compare a field with an instant, or with a day from its first to its last millisecond."""
    if low == high:
        return Compare(_FLIPPED[_FLIPPED[op]], name, kind, low)
    if op in ("=", "<>"):
        within = Between(name, kind, low, high)
        return within if op == "=" else Not(within)
    return Compare(_FLIPPED[_FLIPPED[op]], name, kind, low if op in ("<", ">=") else high)


def is_property(node: Any) -> bool:
    return isinstance(node, dict) and set(node) == {"property"} and isinstance(node["property"], str)


def known_field(name: str, fields: Mapping[str, Any]) -> str:
    """Return the name of a field, which may stand after `properties.`; empty if no field has it."""
    bare = name.removeprefix("properties.")
    return name if name in fields else bare if bare in fields else ""


def box_from(value: Any, at: str, mistake: Callable[[str, str, str], BadInput]) -> tuple[float, float, float, float]:
    """Return a box of four or six numbers as west, south, east and north. Heights are checked and left out: the index
    knows none. West may be larger than east: the box then crosses the antimeridian."""
    if not isinstance(value, list) or len(value) not in (4, 6):
        raise mistake(at, "is not a box", "write west,south,east,north, or with heights west,south,low,east,north,high")
    numbers = [each for each in value if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) != len(value) or not all(abs(each) <= MOST_NUMBER for each in numbers):  # NaN is not, either
        raise mistake(at, "holds something else than finite numbers", "write numbers such as -95.5")
    half = len(numbers) // 2
    (west, south, *low), (east, north, *high) = numbers[:half], numbers[half:]
    if not (-180 <= west <= 180 and -180 <= east <= 180):
        raise mistake(at, "has a longitude out of range", "longitudes are from -180 to 180")
    if not (-90 <= south <= 90 and -90 <= north <= 90):
        raise mistake(at, "has a latitude out of range", "latitudes are from -90 to 90")
    if south > north:
        raise mistake(at, "has its south north of its north", "write the smaller latitude first")
    if low > high:
        raise mistake(at, "has its lowest height above its highest", "write the smaller height first")
    return float(west), float(south), float(east), float(north)


def is_clean(text: str) -> bool:
    """Return whether a text has a UTF-8 form and holds no NUL, which ends texts in the database."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def shown(name: str) -> str:
    """Return the name of an operator or a property as a message may show it."""
    return printable(name[:60])


def _mistake(at: str, what: str, hint: str) -> BadInput:
    return BadInput(f"filter{':' if at else ''}{at} {what}", hint=hint, pointer=at)
