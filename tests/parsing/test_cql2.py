"""CQL2 JSON is read within bounds, means what the package cql2 says it means, and mistakes are named by their place."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kfm.errors import BadInput
from kfm.model.search.item_query import IndexedItem, ItemQuery
from kfm.parsing import cql2
from kfm.parsing.cql2 import And, Between, Compare, FieldType, In, Not, Or, Temporal, parse_filter
from kfm.parsing.instants import OPEN_END
from kfm.store.search.item_index import ItemIndex
from tests.store.random_items import BEGIN, HOUR, NAMES, box_geometry, random_filter, stamp

FIELDS: dict[str, FieldType] = {
    "id": "text", "name": "text", "cloud": "number", "good": "boolean", "made": "instant", "datetime": "span",
    "start_datetime": "instant", "end_datetime": "instant", "geometry": "geometry", "collection": "text",
}  # fmt: skip
NAME, CLOUD, TIME, PLACE = ({"property": name} for name in ("name", "cloud", "datetime", "geometry"))
SECRET = "Zxq-secret-71"


def op(name: str, *args: Any) -> dict[str, Any]:
    return {"op": name, "args": list(args)}


def nested(depth: int) -> Any:
    inner: Any = op("=", CLOUD, 1)
    for _ in range(depth):
        inner = op("not", inner)
    return inner


def test_a_filter_becomes_a_tree_of_records() -> None:
    found = parse_filter(op("AND", op("<", 3, CLOUD), op("not", op("in", NAME, ["a", "b"]))), FIELDS)
    low = Compare(">", "cloud", "number", 3)
    assert found == And((low, Not(In("name", "text", ("a", "b")))))
    day = op("=", {"property": "properties.made"}, {"date": "1970-01-01"})
    assert parse_filter(day, FIELDS) == Between("made", "instant", 0, 86_399_999)
    span = op("t_during", TIME, {"interval": ["1970-01-01T00:00:01Z", ".."]})
    assert parse_filter(span, FIELDS) == Temporal("t_during", "datetime/start", "datetime/end", 1000, OPEN_END)
    days = parse_filter(op("in", {"property": "made"}, [{"date": "1970-01-01"}]), FIELDS)
    assert days == Or((Between("made", "instant", 0, 86_399_999),))


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (None, ""), ([], ""), ("x", ""), (1, ""), ({}, ""), ({"op": "and"}, ""), ({**op("=", NAME, "a"), "x": 1}, ""),
        (op(SECRET, 1), "/op"), ({"op": 5, "args": []}, "/op"), ({"op": "and", "args": 5}, "/args"),
        (op("and", True), "/args"), (op("not", True, True), "/args"), (op("and", True, 5), "/args/1"),
        (op("=", NAME), "/args"), (op("=", NAME, 5), "/args/1"), (op("=", NAME, None), "/args/1"),
        (op("=", CLOUD, SECRET), "/args/1"), (op("=", CLOUD, True), "/args/1"), (op("=", CLOUD, 10**20), "/args/1"),
        (op("=", CLOUD, float("nan")), "/args/1"), (op("=", CLOUD, float("inf")), "/args/1"),
        (op("=", {"property": "good"}, 1), "/args/1"), (op("=", {"property": SECRET}, 1), "/args/0/property"),
        (op("=", {"property": 5}, 1), "/args/0"), (op("=", 1, 1), "/args/0"), (op("=", CLOUD, CLOUD), "/args/1"),
        (op("=", PLACE, 1), "/args/0/property"), (op("=", NAME, "a\0b"), "/args/1"),
        (op("=", NAME, "\ud800"), "/args/1"),
        (op("=", NAME, "x" * 1001), "/args/1"), (op("like", CLOUD, "a%"), "/args/0/property"),
        (op("like", NAME, 5), "/args/1"), (op("between", NAME, "a", "b"), "/args/0/property"),
        (op("between", CLOUD, 1), "/args"), (op("in", NAME, "a"), "/args/1"), (op("in", NAME, []), "/args/1"),
        (op("in", NAME, ["a"] * 501), "/args/1"), (op("in", NAME, ["a", 5]), "/args/1/1"),
        (op("isNull", SECRET), "/args/0"), (op("casei", NAME), "/op"), (op("s_within", PLACE, {}), "/op"),
        (op("s_intersects", NAME, {}), "/args/0/property"), (op("s_intersects", PLACE, {}), "/args/1/type"),
        (op("s_intersects", PLACE, {"bbox": [1, 2, 3]}), "/args/1/bbox"),
        (op("s_intersects", PLACE, {"bbox": [0, 50, 1, 40]}), "/args/1/bbox"),
        (op("s_intersects", PLACE, {"type": "MultiPoint", "coordinates": [[0, 0]] * 1001}), "/args/1/coordinates"),
        (op("=", TIME, SECRET), "/args/1"), (op("=", TIME, {"timestamp": "2020"}), "/args/1"),
        (op("t_after", TIME, {"date": "2020-02-30"}), "/args/1"), (op("t_after", CLOUD, "x"), "/args/0/property"),
        (op("t_during", TIME, {"date": "2020-01-01"}), "/args/1"),
        (op("t_during", {"property": "made"}, {"interval": ["..", ".."]}), "/args/0/property"),
        (op("t_during", TIME, {"interval": ["2020-01-01"]}), "/args/1/interval"),
        (op("t_during", TIME, {"interval": ["2020-01-02", "2020-01-01"]}), "/args/1/interval"),
        (op("t_during", TIME, {"interval": ["2020-01-02", SECRET]}), "/args/1/interval/1"),
        (op("t_equals", {"date": "2020-01-01"}, {"date": "2020-01-01"}), "/args"),
        (nested(16), "/args/0" * 16), (op("and", *[True] * 200), "/args/199"),
    ],
)  # fmt: skip
def test_every_mistake_is_named_by_its_place_and_no_value_is_quoted(document: object, pointer: str) -> None:
    with pytest.raises(BadInput) as problem:
        parse_filter(document, FIELDS)
    assert problem.value.fields["pointer"] == pointer and problem.value.hint
    names = (
        msgspec.json.encode(document) if isinstance(document, dict) and pointer.endswith(("op", "property")) else b""
    )
    assert SECRET not in str(problem.value) or SECRET.encode() in names


def test_between_takes_its_bounds_in_a_list_too_as_drafts_of_cql2_had_it() -> None:
    assert parse_filter(op("between", CLOUD, [0, 50]), FIELDS) == parse_filter(op("between", CLOUD, 0, 50), FIELDS)


def test_the_bounds_are_just_inside() -> None:
    parse_filter(nested(15), FIELDS)
    parse_filter(op("and", *[True] * 199), FIELDS)
    parse_filter(op("in", NAME, ["x" * 1000] * 500), FIELDS)
    parse_filter(op("s_intersects", PLACE, {"type": "MultiPoint", "coordinates": [[0, 0]] * 1000}), FIELDS)


def test_a_filter_of_a_million_levels_or_parts_is_refused_at_once() -> None:
    deep = nested(100_000)
    wide = op("or", *[op("=", CLOUD, 1)] * 100_000)
    for document in (deep, wide):
        with pytest.raises(BadInput):
            parse_filter(document, FIELDS)
    while isinstance(deep, dict) and deep["op"] == "not":  # or freeing it would recurse
        deep = deep["args"].pop()


def test_every_operator_that_is_claimed_is_read() -> None:
    for name in cql2.ANY_TIMES + cql2.INTERVALS:
        parse_filter(op(name, TIME, {"interval": ["2020-01-01", ".."]}), FIELDS)
        spans = {"interval": [{"property": "start_datetime"}, {"property": "end_datetime"}]}
        parse_filter(op(name, {"interval": ["..", "2020-01-01T00:00:00Z"]}, spans), FIELDS)
    for kind in ("point", "bbox", "polygon"):
        place: Any = {"type": "Point", "coordinates": [0, 0]} if kind == "point" else box_geometry((0, 0, 1, 1))
        parse_filter(op("s_intersects", PLACE, {"bbox": [0, 0, 1, 1]} if kind == "bbox" else place), FIELDS)
    assert all(each.startswith("http://www.opengis.net/spec/cql2/1.0/conf/") for each in cql2.CONFORMANCE)


def _oracle_can(document: Any) -> bool:
    """Whether the package evaluates this filter as the standard says: it has no escapes in `like`, and does not give
    an interval of two properties, or an open end, to its temporal functions."""
    if isinstance(document, bool):
        return True
    name, args = document["op"], document["args"]
    if name in ("and", "or", "not"):
        return all(map(_oracle_can, args))
    if name == "like":
        return not set(args[1]) & set("\\*[]?ä")
    if name.startswith("t_"):
        return name in ("t_after", "t_before", "t_equals", "t_intersects", "t_disjoint") and "property" in args[0] and (
            ".." not in args[1]["interval"]
        )  # fmt: skip
    if name == "s_intersects":
        box = args[1].get("bbox")
        return box is None or (box[0] < box[2] and box[1] < box[3])
    if name in ("isNull", "between", "in"):
        return args[0]["property"] not in ("datetime", "made", "end_datetime", "geometry")
    return isinstance(args[0], dict) and "property" in args[0] and args[0]["property"] not in ("made", "end_datetime")


def test_random_filters_hold_where_the_package_cql2_says_so(
    tmp_path: Any, record_property: Callable[[str, object], None]
) -> None:
    package = pytest.importorskip("cql2")
    r = random.Random(11)
    items, rows = [], []
    for n in range(24):
        start = BEGIN + r.randint(0, 400) * HOUR
        west, south = r.randint(-170, 150), r.randint(-80, 70)
        box = (float(west), float(south), west + 20.0, south + 9.0)
        properties = {"cloud": r.randint(0, 20) / 4, "name": r.choice(NAMES), "good": r.random() < 0.5}
        item = {"type": "Feature", "id": f"i{n}", "collection": "d1", "geometry": box_geometry(box), "bbox": list(box)}
        items.append({**item, "properties": {**properties, "datetime": stamp(start)}})
        rows.append(
            IndexedItem(
                collection="d1", version="v", id=f"i{n}", bbox=box, start_ms=start, end_ms=start,
                properties=properties, body=msgspec.json.encode(item),
            )
        )  # fmt: skip
    index = ItemIndex(str(tmp_path / "items.db"))
    index.replace("d1", "m", rows)
    tried = held = 0
    while tried < 300:
        document = random_filter(r, 2)
        if not _oracle_can(document):
            continue
        wanted = {item["id"] for item in items if package.Expr(document).matches(item)}
        query = ItemQuery(allowed={"d1": "m"}, filter=parse_filter(document, FIELDS), limit=100)
        found = {msgspec.json.decode(body)["id"] for body in index.search(query).bodies}
        assert found == wanted, document
        tried += 1
        held += 0 < len(wanted) < len(items)
    assert held > 80
    record_property("counted", ("filters next to the package cql2", tried))
    index.close()
