"""Our own check of catalog documents: offline, with the place and the reason, and honest about what it cannot check."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kfm.app.metadata import catalog_validation, schema_store
from kfm.projections import cloudevents, dcat, openlineage, prov
from tests.projections import samples
from tests.projections.test_outside_tools import DOCUMENTS, PLACES, written

VERSIONS = [
    samples.version(samples.RUNS["ingest"]),
    samples.version(samples.run(dataset="sites", labels=samples.LABELS)),
]


def of_a_run() -> dict[str, dict[str, Any]]:
    run = samples.RUNS["masked"]
    start, end = openlineage.events(run)
    return {
        "catalog.jsonld": dcat.catalog(VERSIONS, PLACES),
        "prov.json": prov.prov_json(run),
        "start.json": start,
        "end.json": end,
        "event.json": cloudevents.event(run),
    }


def test_all_that_we_write_is_valid_and_every_word_of_it_is_checked() -> None:
    for path, document in {**DOCUMENTS, **of_a_run()}.items():
        kind, problems, unchecked = catalog_validation.check(document)
        assert (problems, unchecked) == ([], []), path
        assert kind != "unknown", path


def test_a_whole_catalog_is_checked_with_its_links(tmp_path: Path) -> None:
    folder = written(tmp_path, {**DOCUMENTS, **of_a_run()})
    found = list(catalog_validation.validate(str(folder)))
    assert len(found) == len(DOCUMENTS) + 5
    broken = [(Path(each.path).name, problem.reason) for each in found for problem in each.problems]
    assert broken == [], broken
    (folder / "stations/items/ne.json").unlink()
    (one,) = [each for each in catalog_validation.validate(str(folder)) if each.problems]
    assert one.path.endswith("stations/collection.json")
    assert [problem.reason for problem in one.problems] == ["leads to no file"]


BROKEN: dict[str, tuple[str, Any, str, str]] = {
    "no datetime": ("sites/items/ks.json", lambda d: d["properties"].pop("datetime"), "/properties", "datetime"),
    "a checksum": (
        "sites/items/ks.json",
        lambda d: d["assets"]["data"].update({"file:checksum": "SECRET"}),
        "/assets/data/file:checksum",
        "match",
    ),
    "a label": (
        "sites/items/ks.json",
        lambda d: d["properties"].update({"kfm:care": "SECRET"}),
        "/properties/kfm:care",
        "",
    ),
    "a collection": ("sites/collection.json", lambda d: d.pop("license"), "", "license"),
    "a version": ("catalog.json", lambda d: d.update(stac_version="0.9.0"), "/stac_version", "1.0.0, 1.1.0"),
    "a kind": ("catalog.json", lambda d: d.update(type="SECRET"), "/type", "Feature"),
    "a publisher": ("catalog.jsonld", lambda d: d["dataset"][0].pop("publisher"), "/dataset/0", "publisher"),
    "a facet": (
        "end.json",
        lambda d: d["run"]["facets"]["kfm_run"].update(planHash="SECRET"),
        "/run/facets/kfm_run/planHash",
        "",
    ),
    "a run": ("end.json", lambda d: d["run"].update(runId="SECRET"), "/run/runId", "uuid"),
    "an event": ("event.json", lambda d: d.pop("id"), "", "id"),
    "an entity": ("prov.json", lambda d: next(iter(d["bundle"].values()))["entity"].clear(), "/bundle", "no entity"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_an_error_is_reported_with_its_place_and_reason_and_without_its_value(what: str) -> None:
    path, spoil, place, reason = BROKEN[what]
    document = copy.deepcopy({**DOCUMENTS, **of_a_run()}[path])
    spoil(document)
    _, problems, _ = catalog_validation.check(document)
    assert problems
    assert any(each.place.startswith(place) and reason in each.reason for each in problems), problems
    assert "SECRET" not in str(problems)


def test_an_unknown_extension_is_unchecked_and_never_valid(tmp_path: Path) -> None:
    strange = "https://example.org/strange/v1.0.0/schema.json"
    document = {**DOCUMENTS["catalog.json"], "stac_extensions": [strange], "links": []}
    (one,) = catalog_validation.validate(str(written(tmp_path, {"catalog.json": document})))
    assert (one.verdict, one.unchecked, one.problems) == ("unchecked", (strange,), ())
    event = openlineage.events(samples.RUNS["ingest"])[1]
    event["run"]["facets"]["other"] = {"_producer": "https://example.org", "_schemaURL": "https://example.org/f.json"}
    assert catalog_validation.check(event)[1:] == ([], ["facet other"])
    assert catalog_validation.check({"a": 1})[2] and catalog_validation.check({"@context": {}})[2]


def test_a_facet_whose_address_has_no_fragment_is_checked_by_the_definition_of_its_file() -> None:
    event = openlineage.events(samples.RUNS["ingest"])[1]
    facets = event["run"]["facets"]
    name, facet = next((n, f) for n, f in facets.items() if "/$defs/" in f["_schemaURL"])
    facet["_schemaURL"] = facet["_schemaURL"].partition("#")[0]
    assert catalog_validation.check(event)[1:] == ([], [])
    facet.pop("_producer")
    assert [each.place for each in catalog_validation.check(event)[1] if each.place.endswith(name)]
    facet["_schemaURL"] += "#/$defs/Nothing"
    assert f"facet {name}" in catalog_validation.check(event)[2]


def test_dcat_us_is_recognised_by_its_version() -> None:
    ours = dcat.catalog(VERSIONS, PLACES)
    short = {name: value for name, value in {**ours, "@type": "Catalog"}.items() if name != "@context"}
    assert catalog_validation.check(short) == ("dcat", [], [])
    del short["publisher"]
    assert catalog_validation.check(short)[1]
    older = {
        "@context": "https://project-open-data.cio.gov/v1.1/schema/catalog.jsonld",
        "@type": "dcat:Catalog",
        "conformsTo": "https://project-open-data.cio.gov/v1.1/schema",
        "dataset": [],
    }
    assert catalog_validation.check(older) == ("dcat", [], ["DCAT-US 1.1: only version 3 is checked"])


def test_prov_without_bundles_and_with_prefixes_in_its_bundles_is_recognised() -> None:
    plain: dict[str, Any] = {
        "prefix": {"ex": "https://example.org/"},
        "entity": {"ex:map": {}},
        "wasGeneratedBy": {"_:1": {"prov:entity": "ex:map", "prov:activity": "ex:drawing"}},
    }
    assert catalog_validation.check(plain) == ("prov", [], [])
    assert catalog_validation.check({"bundle": {"ex:one": plain}}) == ("prov", [], [])
    plain["entity"]["other:map"] = {}
    assert [each.place for each in catalog_validation.check(plain)[1]] == ["/entity"]
    assert [each.place for each in catalog_validation.check({"bundle": {"ex:one": plain}})[1]] == [
        "/bundle/ex:one/entity"
    ]


def test_a_list_of_events_is_checked_one_by_one() -> None:
    events = openlineage.events(samples.RUNS["ingest"])
    assert catalog_validation.check(events) == ("openlineage", [], [])
    del events[1]["job"]
    assert {each.place for each in catalog_validation.check(events)[1]} == {"/1"}


def test_stac_1_0_is_read_too() -> None:
    document = copy.deepcopy(DOCUMENTS["stations/items/ks.json"])
    document["stac_version"] = "1.0.0"
    assert catalog_validation.check(document)[1:] == ([], [])
    del document["links"]
    assert catalog_validation.check(document)[1]


def test_a_file_of_lines_is_checked_line_by_line(tmp_path: Path) -> None:
    events = [json.dumps(event) for event in openlineage.events(samples.RUNS["ingest"])]
    (tmp_path / "events.ndjson").write_text("\n".join([*events, "{", '{"specversion": "1.0"}']) + "\n")
    found = list(catalog_validation.validate(str(tmp_path)))
    assert [(each.line, each.verdict) for each in found] == [(1, "valid"), (2, "valid"), (3, "broken"), (4, "broken")]


def test_every_schema_that_is_shipped_can_be_used() -> None:
    known = [address for address in schema_store._index() if schema_store.known(address)]
    assert len(known) == len(schema_store._index()) - 1
    for address in known:
        assert schema_store.validator(address) is not None
