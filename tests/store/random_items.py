"""Random STAC items and searches, and a naive search in plain Python with geometry by Shapely: the oracle of the index.

Coordinates are multiples of a quarter of a degree and often equal, so that boxes touch, and so are times.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import Any

import msgspec
import shapely
from shapely.geometry.base import BaseGeometry

from kfm.model.canonical import canonical
from kfm.model.search.item_query import FIELDS, IndexedItem, ItemQuery, SortKey
from kfm.parsing.cql2 import FieldType, Scalar, parse_filter
from kfm.parsing.planar_geometry import shape_of

BEGIN, HOUR = 1_577_836_800_000, 3_600_000  # 2020-01-01
FIELDS_HERE: dict[str, FieldType] = {**FIELDS, "cloud": "number", "name": "text", "good": "boolean", "made": "instant"}
NAMES = ["", "a", "ab", "abc", "a%c", "a_c", "a*c", "[a]", "ä", "Ab", "\\", "日本"]
SORTABLE = ["datetime", "end_datetime", "id", "collection", "cloud", "name", "good", "made"]
Rows = dict[str, dict[str, dict[str, Any]]]  # dataset → id → item, with its index row under "row"


def quarter(r: random.Random, low: float, high: float) -> float:
    return r.randint(int(low * 4), int(high * 4)) / 4


def random_box(r: random.Random) -> tuple[float, float, float, float]:
    kind = r.random()
    wide = 180.0 if kind < 0.1 else 30.0 if kind < 0.5 else 3.0
    west, south = quarter(r, -180, 180), quarter(r, -90, 90)
    if kind > 0.9:
        south = r.choice([-90.0, 90.0])
    east = west + quarter(r, 0, wide)
    if east > 180:  # over the date line, or cut there
        east = east - 360 if r.random() < 0.6 else 180.0
    return west, south, east, min(90.0, south + quarter(r, 0, wide / 2))


def box_geometry(box: tuple[float, float, float, float]) -> dict[str, Any]:
    west, south, east, north = box

    def ring(w: float, e: float) -> list[list[list[float]]]:
        return [[[w, south], [e, south], [e, north], [w, north], [w, south]]]

    if west > east:
        return {"type": "MultiPolygon", "coordinates": [ring(west, 180.0), ring(-180.0, east)]}
    return {"type": "Polygon", "coordinates": ring(west, east)}


def random_geometry(r: random.Random, inside: int = 0) -> dict[str, Any]:
    west, south = quarter(r, -170, 150), quarter(r, -85, 70)
    wide = r.choice([2.0, 20.0])
    points = [[west + quarter(r, 0, wide), south + quarter(r, 0, wide / 2)] for _ in range(r.randint(2, 6))]
    kinds = ["Point", "LineString", "Polygon", "MultiPoint", "GeometryCollection"]
    kind = r.choice(kinds[: 4 if inside == 2 else 5])
    if kind == "Point":
        return {"type": kind, "coordinates": points[0]}
    if kind in ("LineString", "MultiPoint"):
        return {"type": kind, "coordinates": points}
    if kind == "Polygon":
        hull = shapely.MultiPoint([*points, (west, south), (west + 1, south), (west, south + 1)]).convex_hull
        rings = [[list(each) for each in hull.exterior.coords]]
        inner = hull.buffer(-0.5, join_style="mitre")
        if isinstance(inner, shapely.Polygon) and not inner.is_empty and r.random() < 0.4:
            rings.append([list(each) for each in inner.exterior.coords])
        return {"type": kind, "coordinates": rings}
    return {"type": kind, "geometries": [random_geometry(r, inside + 1) for _ in range(2)]}


def random_rows(r: random.Random, datasets: int, count: int) -> Rows:
    return {f"d{n}": {item["id"]: item for item in random_items(r, f"d{n}", count)} for n in range(datasets)}


def random_items(r: random.Random, dataset: str, count: int) -> Iterator[dict[str, Any]]:
    for n in range(count):
        properties: dict[str, Scalar] = {}
        if r.random() < 0.8:
            properties["cloud"] = r.choice([r.randint(0, 5), r.random(), r.randint(0, 5) / 4])
        if r.random() < 0.8:
            properties["name"] = r.choice(NAMES)
        if r.random() < 0.5:
            properties["good"] = r.random() < 0.5
        if r.random() < 0.5:
            properties["made"] = BEGIN + r.randint(0, 30) * HOUR
        if r.random() < 0.05:
            properties["cloud"] = "a text where a number should be"
        start: int | None = BEGIN + r.randint(0, 400) * HOUR
        end: int | None = start if r.random() < 0.6 or start is None else start + r.randint(0, 100) * HOUR
        if r.random() < 0.05:
            start = end = None
        elif r.random() < 0.05:
            start, end = r.choice([(None, end), (start, None)])
        box: tuple[float, float, float, float] | None = random_box(r)
        geometry: dict[str, Any] | None = box_geometry(box) if box else None
        if r.random() < 0.2:
            geometry = random_geometry(r)
            box = shapely.geometry.shape(geometry).bounds
        elif r.random() < 0.05:
            box = geometry = None
        name = f"i{n}" if r.random() < 0.9 else f"ü{n}"
        body = canonical({"id": name, "collection": dataset, "geometry": geometry, "properties": properties})
        row = IndexedItem(
            collection=dataset, version="v", id=name, bbox=box, start_ms=start, end_ms=end, properties=properties,
            body=body,
        )  # fmt: skip
        exact = geometry is not None and box is not None and geometry != box_geometry(box)
        place = shapely.geometry.shape(geometry) if exact else place_of_box(box) if box else None
        shapely.prepare(place)
        yield {"id": name, "collection": dataset, "row": row, "place": place}


def place_of_box(box: tuple[float, float, float, float]) -> BaseGeometry:
    west, south, east, north = box
    if west > east:
        halves = [place_of_box((west, south, 180.0, north)), place_of_box((-180.0, south, east, north))]
        return shapely.GeometryCollection(halves)
    if (west, south) == (east, north):
        return shapely.Point(west, south)
    if west == east or south == north:
        return shapely.LineString([(west, south), (east, north)])
    return shapely.box(west, south, east, north)


# Filters, as documents, and what they are of an item: true, false, or neither (None).


def stamp(ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def random_filter(r: random.Random, depth: int = 3) -> Any:
    kind = r.random()
    if depth and kind < 0.4:
        op = r.choice(["and", "or"])
        return {"op": op, "args": [random_filter(r, depth - 1) for _ in range(r.randint(2, 3))]}
    if depth and kind < 0.5:
        return {"op": "not", "args": [random_filter(r, depth - 1)]}
    if kind < 0.52:
        return r.random() < 0.5
    return r.choice([_compared, _compared, _listed, _like, _null, _place, _time])(r)


def _value(r: random.Random, name: str) -> Any:
    if name in ("datetime", "made", "start_datetime", "end_datetime"):
        return {"timestamp": stamp(BEGIN + r.randint(0, 400) * HOUR)}
    return {
        "cloud": r.choice([r.randint(0, 5), r.randint(0, 20) / 4]),
        "name": r.choice(NAMES),
        "good": r.random() < 0.5,
        "id": f"i{r.randint(0, 99)}",
        "collection": f"d{r.randint(0, 3)}",
    }[name]


_FILTERED = ["cloud", "name", "good", "id", "collection", "datetime", "made", "end_datetime"]


def _compared(r: random.Random) -> Any:
    name = r.choice(_FILTERED)
    if r.random() < 0.2 and name in ("cloud", "datetime", "made"):
        return {"op": "between", "args": [{"property": name}, _value(r, name), _value(r, name)]}
    args = [{"property": name}, _value(r, name)]
    return {"op": r.choice(["=", "<>", "<", ">", "<=", ">="]), "args": args if r.random() < 0.8 else args[::-1]}


def _listed(r: random.Random) -> Any:
    name = r.choice(_FILTERED)
    return {"op": "in", "args": [{"property": name}, [_value(r, name) for _ in range(r.randint(1, 4))]]}


def _like(r: random.Random) -> Any:
    text = "".join(r.choice(["a", "b", "c", "%", "_", "\\%", "\\_", "\\\\", "*", "[", "]", "?", "ä"]) for _ in range(3))
    return {"op": "like", "args": [{"property": "name"}, text]}


def _null(r: random.Random) -> Any:
    return {"op": "isNull", "args": [{"property": r.choice([*_FILTERED, "geometry"])}]}


def _place(r: random.Random) -> Any:
    place = {"bbox": list(random_box(r))} if r.random() < 0.5 else random_geometry(r)
    return {"op": "s_intersects", "args": [{"property": "geometry"}, place]}


RELATIONS = ["t_after", "t_before", "t_disjoint", "t_equals", "t_intersects", "t_contains", "t_during", "t_finishedby",
             "t_finishes", "t_meets", "t_metby", "t_overlappedby", "t_overlaps", "t_startedby",
             "t_starts"]  # fmt: skip


def _time(r: random.Random) -> Any:
    start, end = sorted(BEGIN + r.randint(0, 400) * HOUR for _ in range(2))
    ends = [stamp(start), stamp(end)]
    if r.random() < 0.2:
        ends[r.randint(0, 1)] = ".."
    other: Any = {"interval": ends}
    name: Any = {"property": "datetime"}
    if r.random() < 0.2:
        name = {"interval": [{"property": "start_datetime"}, {"property": "end_datetime"}]}
    return {"op": r.choice(RELATIONS), "args": [name, other]}


_ABSENT = object()


def _field(item: dict[str, Any], name: str) -> Any:
    row: IndexedItem = item["row"]
    if name in ("id", "collection"):
        return item[name]
    if name in ("datetime", "start_datetime", "end_datetime"):
        if row.start_ms is None and row.end_ms is None:
            return _ABSENT
        if name == "end_datetime":
            return float("inf") if row.end_ms is None else row.end_ms
        return float("-inf") if row.start_ms is None else row.start_ms
    if name == "geometry":
        return _ABSENT if item["place"] is None else item["place"]
    value = row.properties.get(name, _ABSENT)
    wanted: Any = {"cloud": (int, float), "name": str, "good": bool, "made": int}[name]
    return value if isinstance(value, wanted) and (name != "cloud" or not isinstance(value, bool)) else _ABSENT


def read(document: Any) -> Any:
    """A filter with its instants and shapes as values of Python."""
    from datetime import datetime

    if isinstance(document, list):
        return [read(each) for each in document]
    if not isinstance(document, dict):
        return document
    if "timestamp" in document:
        return round(datetime.fromisoformat(document["timestamp"]).timestamp() * 1000)
    if "bbox" in document:
        return place_of_box(document["bbox"])
    if "type" in document:
        return shapely.geometry.shape(document)
    if "interval" in document and isinstance(document["interval"][0], str):
        ends = document["interval"]
        start = float("-inf") if ends[0] == ".." else read({"timestamp": ends[0]})
        return start, float("inf") if ends[1] == ".." else read({"timestamp": ends[1]})
    return {name: read(value) for name, value in document.items()}


def holds(document: Any, item: dict[str, Any]) -> bool | None:
    """Whether a filter is true of an item; None if it is neither true nor false."""
    if isinstance(document, bool):
        return document
    op, args = document["op"], document["args"]
    if op in ("and", "or"):
        said = [holds(each, item) for each in args]
        decisive = op == "or"
        return decisive if decisive in said else None if None in said else not decisive
    if op == "not":
        inner = holds(args[0], item)
        return None if inner is None else not inner
    if op.startswith("t_"):
        return _related(op, *(_span(each, item) for each in args))
    if not isinstance(args[0], dict):
        args = args[::-1]
        op = op.translate(str.maketrans("<>", "><")) if op != "<>" else op
    found = _field(item, args[0]["property"])
    if op == "isNull":
        return found is _ABSENT
    if found is _ABSENT:
        return None
    if op == "s_intersects":
        return bool(shapely.intersects(found, args[1]))
    if op == "like":
        return _is_like(found, args[1])
    if op == "in":
        return found in args[1]
    if op == "between":
        return bool(args[1] <= found <= args[2])
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
        "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
    }  # fmt: skip
    return compare[op](found, args[1])


def _is_like(text: str, like: str) -> bool:
    out, letters = "", iter(like)
    for letter in letters:
        if letter == "\\":
            out += re.escape(next(letters, "\\"))
        else:
            out += {"%": ".*", "_": "."}.get(letter, re.escape(letter))
    return re.fullmatch(out, text, re.DOTALL) is not None


def _span(node: Any, item: dict[str, Any]) -> tuple[Any, Any]:
    if isinstance(node, tuple):
        return node
    if "property" in node:
        return _field(item, "start_datetime"), _field(item, "end_datetime")
    return _field(item, node["interval"][0]["property"]), _field(item, node["interval"][1]["property"])


def _related(op: str, one: tuple[Any, Any], other: tuple[Any, Any]) -> bool | None:
    if _ABSENT in (*one, *other):
        return None
    a, b, c, d = *one, *other
    return {
        "t_after": a > d, "t_before": b < c, "t_disjoint": b < c or a > d, "t_equals": (a, b) == (c, d),
        "t_intersects": a <= d and b >= c, "t_contains": a < c and b > d, "t_during": a > c and b < d,
        "t_finishedby": a < c and b == d, "t_finishes": a > c and b == d, "t_meets": b == c, "t_metby": a == d,
        "t_overlappedby": a > c and a < d and b > d, "t_overlaps": a < c and b > c and b < d,
        "t_startedby": a == c and b > d, "t_starts": a == c and b < d,
    }[op]  # fmt: skip


# Whole searches.


def random_query(r: random.Random, marks: dict[str, str]) -> tuple[ItemQuery, Any]:
    """A search, and its filter as a document."""
    document = random_filter(r) if r.random() < 0.4 else None
    box = random_box(r) if r.random() < 0.5 else None
    place = random_geometry(r) if box is None and r.random() < 0.3 else None
    start, end = sorted(BEGIN + r.randint(0, 450) * HOUR for _ in range(2))
    ends = (None if r.random() < 0.2 else start, None if r.random() < 0.2 else end)
    names = list(marks)
    allowed = {each: marks[each] for each in r.sample(names, r.randint(0, len(names)))}
    if allowed and r.random() < 0.1:
        allowed[r.choice(list(allowed))] = "another mark"
    sort = tuple(
        SortKey(field=name, kind=FIELDS_HERE[name], descending=r.random() < 0.5)
        for name in r.sample(SORTABLE, r.randint(1, 2))
    )
    query = ItemQuery(
        allowed=allowed,
        collections=tuple(r.sample([*names, "unknown"], 2)) if r.random() < 0.2 else None,
        ids=tuple(f"i{r.randint(0, 400)}" for _ in range(40)) if r.random() < 0.1 else None,
        bbox=box,
        interval=ends if r.random() < 0.5 else None,
        intersects=None if place is None else shape_of(place, 1000),
        filter=None if document is None else parse_filter(document, FIELDS_HERE),
        sortby=sort if r.random() < 0.4 else ItemQuery(allowed={}).sortby,
        limit=r.choice([1, 3, 10, 100]),
    )
    return query, (read(document), None if place is None else shapely.geometry.shape(place))


def naive_search(rows: Rows, marks: dict[str, str], query: ItemQuery, more: Any) -> list[bytes]:
    """The bodies of all items that match, in order."""
    document, place = more
    box = place_of_box(query.bbox) if query.bbox else None
    found = []
    for dataset, items in rows.items():
        if query.allowed.get(dataset) != marks[dataset]:
            continue
        if query.collections is not None and dataset not in query.collections:
            continue
        found += [item for item in items.values() if _matches(item, query, document, place, box)]

    def compare(a: dict[str, Any], b: dict[str, Any]) -> int:
        for key in (*query.sortby, SortKey(field="collection"), SortKey(field="id")):
            x, y = _field(a, key.field), _field(b, key.field)
            sign = -1 if key.descending else 1
            if x is _ABSENT or y is _ABSENT:
                if x is not y:
                    return -sign if x is _ABSENT else sign
            elif x != y:
                return sign if x > y else -sign
        return 0

    return [item["row"].body for item in sorted(found, key=cmp_to_key(compare))]


def _matches(
    item: dict[str, Any], query: ItemQuery, document: Any, place: BaseGeometry | None, box: BaseGeometry | None
) -> bool:
    row: IndexedItem = item["row"]
    if query.ids is not None and row.id not in query.ids:
        return False
    if query.interval is not None:
        first, last = query.interval
        start, end = _field(item, "start_datetime"), _field(item, "end_datetime")
        if start is _ABSENT or (last is not None and start > last) or (first is not None and end < first):
            return False
    shape = item["place"]
    for wanted in (place, box):
        if wanted is not None and (shape is None or not shapely.intersects(shape, wanted)):
            return False
    return document is None or holds(document, item) is True


def ids_of(bodies: list[bytes]) -> list[tuple[str, str]]:
    return [(each["collection"], each["id"]) for each in map(msgspec.json.decode, bodies)]
