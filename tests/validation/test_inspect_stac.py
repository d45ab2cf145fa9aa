"""STAC items and collections as the specification's own examples have them, and each thing they may lack."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kfm.model.records import Column, DataContract
from kfm.validation.source_check import contract_problems
from tests.validation.inspecting import look

STAC = DataContract(format="stac")
ITEM: dict[str, Any] = {
    "stac_version": "1.0.0",
    "stac_extensions": [],
    "type": "Feature",
    "id": "20201211_223832_CS2",
    "bbox": [172.91173669923782, 1.3438851951615003, 172.95469614953714, 1.3690476620161975],
    "geometry": {
        "type": "Polygon",
        "coordinates": [
            [
                [172.91173669923782, 1.3438851951615003],
                [172.95469614953714, 1.3438851951615003],
                [172.95469614953714, 1.3690476620161975],
                [172.91173669923782, 1.3690476620161975],
                [172.91173669923782, 1.3438851951615003],
            ]
        ],
    },
    "properties": {"datetime": "2020-12-11T22:38:32.125000Z", "gsd": 0.5},
    "collection": "simple-collection",
    "links": [{"rel": "collection", "href": "./collection.json"}, {"rel": "root", "href": "./collection.json"}],
    "assets": {"visual": {"href": "https://example.org/visual.tif", "roles": ["visual"]}},
}
COLLECTION: dict[str, Any] = {
    "id": "simple-collection",
    "type": "Collection",
    "stac_version": "1.1.0",
    "description": "A simple collection",
    "title": "Simple",
    "providers": [{"name": "Remote Data, Inc", "roles": ["producer"]}],
    "extent": {
        "spatial": {"bbox": [[172.91, 1.34, 172.95, 1.36]]},
        "temporal": {"interval": [["2020-12-11T22:38:32.125Z", "2020-12-14T18:02:31.437Z"], [None, None]]},
    },
    "license": "CC-BY-4.0",
    "summaries": {"gsd": {"minimum": 0.5}},
    "links": [{"rel": "root", "href": "./collection.json", "type": "application/json"}],
}
CATALOG: dict[str, Any] = {
    "id": "examples", "type": "Catalog", "stac_version": "1.0.0", "description": "A catalog", "links": [],
}  # fmt: skip


def _with(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The document with one place changed; `...` takes it out."""
    made = copy.deepcopy(document)
    *way, last = path.split("/")
    inner: Any = made
    for part in way:
        inner = inner[int(part)] if isinstance(inner, list) else inner[part]
    if value is ...:
        del inner[last]
    elif isinstance(inner, list):
        inner[int(last)] = value
    else:
        inner[last] = value
    return made


def _body(document: Any) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize("document", [ITEM, COLLECTION, CATALOG], ids=lambda d: d["type"])
@pytest.mark.parametrize("version", ["1.0.0", "1.0.1", "1.1.0", "1.1.12"])
def test_what_the_specification_shows_passes_as_it_came(document: dict[str, Any], version: str) -> None:
    body = _body(_with(document, "stac_version", version))
    seen = look(body, STAC)
    assert (seen.result.rows, seen.result.held, seen.result.findings) == (1, False, [])
    assert seen.accepted is body


BOX = [172.9, 1.3, 172.96, 1.37]
BROKEN: list[tuple[dict[str, Any], str, Any, str, str]] = [
    (ITEM, "stac_version", ..., "/stac_version", "stac.version"),
    (ITEM, "stac_version", "0.9.0", "/stac_version", "stac.version"),
    (ITEM, "stac_version", "1.2.0", "/stac_version", "stac.version"),
    (ITEM, "stac_version", "1.0", "/stac_version", "stac.version"),
    (ITEM, "stac_version", "1.0.01", "/stac_version", "stac.version"),
    (ITEM, "stac_version", "1.0.0\n", "/stac_version", "stac.version"),
    (ITEM, "stac_version", "1.0.0-beta.2", "/stac_version", "stac.version"),
    (COLLECTION, "stac_version", "1.0.0-rc.4", "/stac_version", "stac.version"),
    (CATALOG, "stac_version", "1.1.0-beta.1", "/stac_version", "stac.version"),
    (ITEM, "stac_version", 1.0, "/stac_version", "stac.version"),
    (ITEM, "id", ..., "/id", "stac.required"),
    (ITEM, "id", "", "/id", "stac.required"),
    (ITEM, "id", 7, "/id", "stac.required"),
    (ITEM, "stac_extensions", [1], "/stac_extensions", "stac.extensions"),
    (ITEM, "links", {}, "/links", "stac.links"),
    (ITEM, "links/1/href", "", "/links/1", "stac.links"),
    (ITEM, "links/1", "x", "/links/1", "stac.links"),
    (ITEM, "assets", ..., "/assets", "stac.assets"),
    (ITEM, "assets/visual/href", ..., "/assets/*", "stac.assets"),
    (ITEM, "collection", ..., "/collection", "stac.collection"),
    (ITEM, "links/0/rel", "parent", "/collection", "stac.collection"),
    (ITEM, "bbox", ..., "/bbox", "stac.bbox"),
    (ITEM, "geometry", None, "/bbox", "stac.bbox"),
    (ITEM, "bbox", [172.9, 1.4, 172.96, 1.3], "/bbox", "stac.bbox"),
    (ITEM, "bbox", [10, 1.3, 20, 1.37], "/bbox", "stac.bbox"),
    (ITEM, "bbox", [172.9, 1.3, 172.96, 1.35], "/bbox", "stac.bbox"),
    (ITEM, "bbox", [1, 2, 3], "", "geojson.shape"),
    (ITEM, "geometry", {"type": "Point", "coordinates": [200, 0]}, "", "geojson.range"),
    (ITEM, "properties/datetime", "2020-12-11", "/properties/datetime", "stac.datetime"),
    (ITEM, "properties/datetime", "2020-02-30T00:00:00Z", "/properties/datetime", "stac.datetime"),
    (ITEM, "properties/datetime", "2020-12-11T22:38:32+01:00", "/properties/datetime", "stac.datetime"),
    (ITEM, "properties/datetime", 1607726312, "/properties/datetime", "stac.datetime"),
    (ITEM, "properties/datetime", None, "/properties/start_datetime", "stac.datetime"),
    (ITEM, "properties/start_datetime", "2020-12-11T22:38:32Z", "/properties/start_datetime", "stac.datetime"),
    (COLLECTION, "description", ..., "/description", "stac.required"),
    (COLLECTION, "license", ..., "/license", "stac.required"),
    (COLLECTION, "extent", ..., "/extent", "stac.extent"),
    (COLLECTION, "extent/spatial", ..., "/extent/spatial/bbox", "stac.extent"),
    (COLLECTION, "extent/spatial/bbox", [], "/extent/spatial/bbox", "stac.extent"),
    (COLLECTION, "extent/spatial/bbox", [1, 2, 3, 4], "/extent/spatial/bbox/0", "stac.extent"),
    (COLLECTION, "extent/spatial/bbox/0", None, "/extent/spatial/bbox/0", "stac.extent"),
    (COLLECTION, "extent/spatial/bbox/0", [0, 0, 0, 91], "/extent/spatial/bbox/0", "stac.extent"),
    (COLLECTION, "extent/temporal/interval", [], "/extent/temporal/interval", "stac.extent"),
    (COLLECTION, "extent/temporal/interval/1", [None], "/extent/temporal/interval/1", "stac.extent"),
    (COLLECTION, "extent/temporal/interval/0/0", "2021-01-01T00:00:00Z", "/extent/temporal/interval/0", "stac.extent"),
    (COLLECTION, "providers", [{}], "/providers", "stac.providers"),
    (COLLECTION, "assets", [], "/assets", "stac.assets"),
    (CATALOG, "description", "", "/description", "stac.required"),
]


@pytest.mark.parametrize(
    ("document", "path", "value", "column", "rule"), BROKEN, ids=[f"{d['type']}-{p}-{v}" for d, p, v, *_ in BROKEN]
)
def test_a_document_that_lacks_something_is_held_and_the_place_is_named(
    document: dict[str, Any], path: str, value: Any, column: str, rule: str
) -> None:
    seen = look(_body(_with(document, path, value)), STAC)
    assert seen.result.held
    assert (1, column, rule) in seen.rules
    if not rule.startswith("geojson") and path not in ("links", "properties/datetime", "extent/spatial/bbox"):
        assert seen.result.finding_counts == {rule: 1, "json.record": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"properties/datetime": None, "properties/start_datetime": "2020-01-01T00:00:00Z",
         "properties/end_datetime": "2020-01-01T00:00:00.5+00:00"},
        {"geometry": None, "bbox": ...},
        {"bbox": [172.92, 1.35, 172.95, 1.36]},
        {"bbox": [172.9, 1.3, -5, 172.96, 1.37, 100]},
        {"bbox": [170, -10, -170, 10]},
        {"geometry": {"type": "MultiPoint", "coordinates": [[179.5, 0], [-179.5, 0], [180, 1], [-180, 1]]},
         "bbox": [179.5, 0, -179.5, 1]},
        {"geometry": {"type": "Point", "coordinates": [-180, 0]}, "bbox": [180, 0, 180, 0]},
        {"geometry": {"type": "GeometryCollection", "geometries": []}, "bbox": [0, 0, 0, 0]},
        {"links": [], "collection": ...},
    ],
)  # fmt: skip
def test_items_that_are_right_in_their_own_way_pass(changes: dict[str, Any]) -> None:
    item = ITEM
    for path, value in changes.items():
        item = _with(item, path, value)
    assert look(_body(item), STAC).result.findings == []


@pytest.mark.parametrize(
    "document",
    [[], 7, {}, {"type": "FeatureCollection"}, {"type": "Point", "coordinates": [0, 0]}, {**ITEM, "type": "x"}],
)
def test_what_is_none_of_the_three_is_held(document: Any) -> None:
    seen = look(_body(document), STAC)
    assert seen.result.held
    assert seen.result.finding_counts.keys() <= {"stac.shape", "json.root", "json.record"}


def test_of_a_list_of_items_only_the_bad_ones_are_held() -> None:
    items = [ITEM, _with(ITEM, "assets", ...), COLLECTION, 7, _with(ITEM, "properties/datetime", ...), ITEM]
    body = _body({"type": "FeatureCollection", "features": items, "links": []})
    contract = DataContract(format="stac", columns=(Column(name="gsd", type="number", mode="discard-row"),))
    seen = look(body, contract)
    assert not seen.result.held
    assert [row["row"] for row in seen.held] == [2, 3, 4, 5]
    assert json.loads(seen.accepted)["features"] == [ITEM, ITEM]
    assert look(_body({"type": "Collection", "features": [ITEM]}), STAC).result.held


def test_columns_are_properties_of_an_item_and_members_of_a_collection() -> None:
    column = Column(name="gsd", type="integer", mode="discard-value")
    seen = look(_body(ITEM), DataContract(format="stac", columns=(column,), partition_by="datetime"))
    assert json.loads(seen.accepted) == _with(ITEM, "properties/gsd", None)
    assert seen.result.partitions == ("2020-12-11T22:38:32.125000Z",)
    title = DataContract(format="stac", columns=(Column(name="title", pattern="[a-z]+"),))
    assert look(_body(COLLECTION), title).rules == [(1, "title", "pattern")]


def test_a_schema_of_extensions_is_about_each_item() -> None:
    schema = {"properties": {"properties": {"required": ["eo:cloud_cover"]}}}
    contract = DataContract(format="stac", json_schema=schema)
    assert contract_problems(contract) == []
    seen = look(_body(ITEM), contract)
    assert (1, "/properties/eo:cloud_cover", "schema.required") in seen.rules


def test_a_record_that_lacks_a_hundred_things_reports_twenty() -> None:
    seen = look(_body(_with(ITEM, "links", [{}] * 100)), STAC)
    assert seen.result.finding_counts["stac.links"] == 20


def test_no_finding_names_an_asset() -> None:
    seen = look(_body(_with(ITEM, "assets", {"c4n4ry": {}})), STAC)
    assert seen.result.findings
    assert "c4n4ry" not in repr(seen.result)


def test_a_prerelease_version_is_distinguished_from_an_unknown_one() -> None:
    told = {}
    for version in ("1.0.0-rc.1", "1.1.0-beta.1", "0.9.0", "2.0.0-rc.1"):
        findings = look(_body(_with(ITEM, "stac_version", version)), STAC).result.findings
        told[version] = next(finding.message for finding in findings if finding.rule == "stac.version")
    early = "the stac_version is a beta or release candidate of 1.0 or 1.1, and not the release; the row is held"
    other = "the stac_version is no release of 1.0 or 1.1; the row is held"
    assert told == {"1.0.0-rc.1": early, "1.1.0-beta.1": early, "0.9.0": other, "2.0.0-rc.1": other}


@pytest.mark.parametrize("document", [ITEM, COLLECTION, CATALOG], ids=lambda d: d["type"])
def test_an_extension_that_is_not_checked_is_noted_by_its_place(document: dict[str, Any]) -> None:
    body = _body(_with(document, "stac_extensions", ["https://example.org/c4n4ry/v1.0.0/schema.json", "x", "x"]))
    seen = look(body, STAC)
    assert (seen.result.held, seen.result.held_rows, seen.accepted) == (False, 0, body)
    message = "what this extension asks for is checked only where a json_schema says it; noted only"
    assert [(f.row, f.column, f.rule, f.held, f.message) for f in seen.result.findings] == [
        (1, "/stac_extensions/0", "stac.extension", False, message),
        (1, "/stac_extensions/1", "stac.extension", False, message),
    ]
    assert "c4n4ry" not in repr(seen.result)


def test_an_extension_is_noted_once_where_it_first_passes() -> None:
    eo, sar = (_with(ITEM, "stac_extensions", [name]) for name in ("eo", "sar"))
    items = [ITEM, _with(eo, "assets", ...), eo, eo, sar, eo, *[ITEM] * 6]
    seen = look(_body({"type": "FeatureCollection", "features": items}), STAC)
    noted = [(row, column) for row, column, rule in seen.rules if rule == "stac.extension"]
    assert noted == [(3, "/stac_extensions/0"), (5, "/stac_extensions/0")]


def test_of_very_many_extensions_a_thousand_are_counted() -> None:
    seen = look(_body(_with(ITEM, "stac_extensions", [f"x{n}" for n in range(1200)])), STAC)
    assert seen.result.finding_counts == {"stac.extension": 1000}
    assert len(seen.result.findings) == 200
