"""The parameters of an item search are read alike by GET and POST; each mistake names its parameter and no value."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kfm.errors import BadInput
from kfm.model.search.field_choice import FieldChoice, apply_fields
from kfm.model.search.item_query import ItemQuery, SortKey, indexed_item
from kfm.model.search.item_search import PARAMETERS, ItemSearch, search_by_get, search_by_post
from kfm.parsing.cql2 import Compare
from kfm.parsing.planar_geometry import shape_of

SECRET = "Zxq-secret-71"
POINT = {"type": "Point", "coordinates": [1, 2]}
NEWER = {"op": ">", "args": [{"property": "datetime"}, {"timestamp": "1970-01-01T00:00:01Z"}]}


def get(**parameters: str) -> ItemSearch:
    return search_by_get([(name.replace("_", "-"), value) for name, value in parameters.items()])


def test_a_search_without_parameters_allows_nothing_and_is_the_newest_ten() -> None:
    found = search_by_get([])
    assert found == search_by_post({}) == ItemSearch(query=ItemQuery(allowed={}), fields=None, token="")
    assert found.query.limit == 10 and [key.field for key in found.query.sortby] == ["datetime"]


@pytest.mark.parametrize(
    ("texts", "document", "wanted"),
    [
        ({"bbox": "-10,20,30.5,40"}, {"bbox": [-10, 20, 30.5, 40]}, {"bbox": (-10.0, 20.0, 30.5, 40.0)}),
        ({"bbox": "170,-5,0,-170,5,9"}, {"bbox": [170, -5, 0, -170, 5, 9]}, {"bbox": (170.0, -5.0, -170.0, 5.0)}),
        ({"datetime": "1970-01-01T00:00:01Z"}, None, {"interval": (1000, 1000)}),
        ({"datetime": "1970-01-01T01:00:01+01:00/.."}, None, {"interval": (1000, None)}),
        ({"datetime": "/1970-01-01T00:00:01.5Z"}, None, {"interval": (None, 1500)}),
        ({"datetime": "../1972-06-30T23:59:60Z"}, None, {"interval": (None, 78_796_800_000)}),
        ({"ids": "a,b,a"}, {"ids": ["a", "b"]}, {"ids": ("a", "b")}),
        ({"collections": "x"}, {"collections": ["x"]}, {"collections": ("x",)}),
        ({"intersects": json.dumps(POINT)}, {"intersects": POINT}, {"intersects": shape_of(POINT, 1)}),
        ({"limit": "1000"}, {"limit": 100_000}, {"limit": 1000}),
        (
            {"sortby": " datetime,-id,+properties.created,-datetime"},
            {"sortby": [{"field": "datetime"}, {"field": "id", "direction": "desc"},
                        {"field": "properties.created", "direction": "asc"}]},
            {"sortby": (SortKey(field="datetime", kind="span"), SortKey(field="id", descending=True),
                        SortKey(field="created", kind="instant"))},
        ),
        (
            {"filter": json.dumps(NEWER), "filter_lang": "cql2-json"}, {"filter": NEWER, "limit": None},
            {"filter": Compare(">", "datetime", "span", 1000)},
        ),
    ],
)  # fmt: skip
def test_get_and_post_ask_for_the_same(texts: dict[str, str], document: Any, wanted: dict[str, Any]) -> None:
    query = get(**texts).query
    assert query == msgspec.structs.replace(ItemQuery(allowed={}), **wanted)
    assert query == search_by_post(texts if document is None else document).query


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("bbox", ["", "1,2,3", "1,2,3,4,5", "1,2,3,4,5,6,7", "a,b,c,d", "nan,0,1,1", "0,0,inf,1", "-181,0,1,1",
                  "0,-91,1,1", "0,50,1,40", "0,0,9,1,1,5", "0,0,1,1e400", "0,0,1,1_0", SECRET]),
        ("datetime", ["", "/", "../..", "..", "2020", "2020-01-01", "2020-01-01T00:00:00Z/2019-01-01T00:00:00Z",
                      "2020-01-01T00:00:00Z/x", "2020-01-01T00:00:00Z/../..", "2020-01-01T00:00:00", SECRET]),
        ("ids", ["", "a,,b", "x" * 1001, ",".join("a" * 1001), "a\0b"]),
        ("collections", ["", ","]),
        ("intersects", ["", "{}", "null", "[]", "{" + SECRET, '{"type": "Point", "coordinates": [200, 0]}',
                        '{"type": "Point", "coordinates": [0, 0], "coordinates": [0, 1]}', "[" * 100_000,
                        "x" * 300_000]),
        ("limit", ["", "0", "-1", "1.5", "1e2", "٣", "9" * 5000, SECRET]),
        ("sortby", ["", "+", "-nothing", "geometry", ",".join(["id"] * 11), "id desc"]),
        ("fields", [",", "id,,x", "x" * 1001]),
        ("filter", ["", "{}", "true", "id = 'x'", "{" + SECRET, json.dumps({"op": SECRET, "args": []})]),
        ("filter-lang", ["cql2-text", "cql-json", SECRET]),
        ("filter-crs", ["http://www.opengis.net/def/crs/EPSG/0/3857"]),
        ("token", ["x" * 4001, "a\0"]),
    ],
)  # fmt: skip
def test_every_mistake_of_a_get_names_its_parameter_and_quotes_no_value(name: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(BadInput) as problem:
            search_by_get([(name, text)])
        said = str(problem.value)
        assert name.partition("-")[0] in said and problem.value.hint and len(said) < 1000, text[:50]
        assert SECRET not in said or "op" in text, said


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bbox", ["1,2,3,4", [1, 2, 3, True], [1, 2, 3, "4"], [float("nan"), 0, 1, 1], [10**400, 0, 1, 1], {}, 5]),
        ("datetime", [5, [], {}, ["2020-01-01T00:00:00Z"]]),
        ("ids", ["", [], [5], [""], ["\ud800"], [["a"]], {}]),
        ("limit", [True, 1.5, "10", 0, -5, [], -(10**40)]),
        ("sortby", ["id", {}, [], ["id"], [{"field": "id", "direction": "up"}], [{"field": 5}],
                    [{"field": "id", "x": 1}], [{}], [{"field": []}], [{"field": "id", "direction": []}]]),
        ("fields", [None, "id", [], {"include": "id"}, {"include": [5]}, {"only": []}, {"exclude": ["x"] * 201}]),
        ("filter", [5, "x", []]),
        ("filter-lang", [5, []]),
        ("filter-crs", [5, []]),
        ("token", [5, []]),
    ],
)  # fmt: skip
def test_every_mistake_of_a_post_names_its_parameter(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(BadInput) as problem:
            search_by_post({name: value})
        assert name.partition("-")[0] in str(problem.value) and problem.value.hint, value


def test_what_is_no_search_is_refused() -> None:
    for document in ([], None, 5, "x"):
        with pytest.raises(BadInput, match="not an object"):
            search_by_post(document)
    with pytest.raises(BadInput, match="only one"):
        search_by_post({"bbox": [0, 0, 1, 1], "intersects": POINT})
    with pytest.raises(BadInput, match="given twice"):
        search_by_get([("ids", "a"), ("ids", "b")])


def test_an_unknown_parameter_names_the_nearest_known_one() -> None:
    for wrong, near in (("bboxx", "bbox"), ("collection", "collections"), ("filter_lang", "filter-lang")):
        with pytest.raises(BadInput, match=f"did you mean {near}"):
            search_by_get([(wrong, "1")])
    with pytest.raises(BadInput) as problem:
        search_by_post({"z" * 10_000: 1})
    assert all(name in str(problem.value) for name in PARAMETERS) and len(str(problem.value)) < 400


ITEM = {
    "type": "Feature", "id": "i", "stac_version": "1.1.0", "collection": "c", "bbox": [0, 0, 1, 1], "links": [],
    "geometry": {"type": "Point", "coordinates": [0, 0]}, "stac_extensions": [],
    "assets": {"data": {"href": "x", "title": "t"}, "thumbnail": {"href": "y"}},
    "properties": {"datetime": "2020-01-01T00:00:00Z", "created": "x", "eo:cloud_cover": 5, "a": {"b": 1, "c": 2}},
}  # fmt: skip
NAMED = {name: ITEM[name] for name in ("type", "id", "stac_version", "collection")}
TIME_ALONE = {"properties": {"datetime": "2020-01-01T00:00:00Z"}}
DEFAULT = {**{name: ITEM[name] for name in ITEM if name != "stac_extensions"}, **TIME_ALONE}


def without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, ITEM),
        ("", DEFAULT),
        ("id,properties.created", {**NAMED, "properties": {"created": "x"}}),
        ("eo:cloud_cover", {**NAMED, "properties": {"eo:cloud_cover": 5}}),
        ("properties,-properties.datetime,-properties.a.b", {
            **NAMED, "properties": {"created": "x", "eo:cloud_cover": 5, "a": {"c": 2}}}),
        ("properties.a.c", {**NAMED, "properties": {"a": {"c": 2}}}),
        ("-geometry,-assets.thumbnail", {
            **without(ITEM, "geometry"), "assets": {"data": ITEM["assets"]["data"]}}),  # type: ignore[index]
        ("geometry,-geometry,nothing.at.all,-nothing", {**NAMED, "geometry": ITEM["geometry"]}),
        ("properties.created,-properties", {**NAMED, "properties": {"created": "x"}}),
        ("bbox,-id", without({**NAMED, "bbox": ITEM["bbox"]}, "id")),
        ("properties,-properties", {**NAMED, "properties": ITEM["properties"]}),
        ("id.x.y,properties.created.x", NAMED),
        ("stac_extensions", {**NAMED, "stac_extensions": []}),
    ],
)  # fmt: skip
def test_chosen_fields_are_those_of_the_extension(text: str | None, wanted: dict[str, Any]) -> None:
    before = json.dumps(ITEM)
    choice = None if text is None else get(fields=text).fields
    assert apply_fields(ITEM, choice) == wanted
    assert json.dumps(ITEM) == before


def test_a_choice_that_only_excludes_starts_from_the_whole_item() -> None:
    assert get(fields="id,-geometry").fields == FieldChoice(include=("id",), exclude=("geometry",))
    whole = search_by_post({"fields": {"exclude": ["geometry"]}}).fields
    assert whole == get(fields="-geometry").fields == FieldChoice(exclude=("geometry",), from_all=True)
    assert apply_fields(ITEM, whole) == without(ITEM, "geometry")
    for include in ([], None):
        least = search_by_post({"fields": {"exclude": ["geometry"], "include": include}}).fields
        assert apply_fields(ITEM, least) == without(DEFAULT, "geometry")
    for empty in ({}, {"include": None, "exclude": None}, {"include": [], "exclude": []}):
        assert search_by_post({"fields": empty}).fields == FieldChoice()


def test_one_name_counts_as_a_list_of_it() -> None:
    assert search_by_post({"collections": "c", "ids": "i"}) == search_by_post({"collections": ["c"], "ids": ["i"]})


def test_an_item_is_indexed_by_its_times_its_box_and_its_scalars() -> None:
    item = {
        "id": "i", "bbox": [1, 2, 0, 3, 4, 9], "properties": {
            "datetime": None, "start_datetime": "1970-01-01T00:00:01Z", "end_datetime": "1970-01-01T00:00:02Z",
            "created": "1970-01-01T00:00:03Z", "title": "t", "n": 5, "ok": True, "list": [1], "x": float("nan"),
        },
    }  # fmt: skip
    row = indexed_item("d", "v", item, b"{}")
    assert (row.bbox, row.start_ms, row.end_ms) == ((1, 2, 3, 4), 1000, 2000)
    assert row.properties == {"created": 3000, "title": "t", "n": 5, "ok": True}
