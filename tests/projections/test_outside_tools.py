"""Documents hold before tools that others wrote, without a network."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kfm.model.canonical import canonical
from kfm.model.public_run import Places
from kfm.projections import dcat, stac
from tests.projections import samples

PLACES = Places(public="../public", receipts="../exports")


def documents() -> dict[str, dict[str, Any]]:
    """A catalog as files: path → document."""
    made = samples.RUNS["ingest"]
    masked = samples.run(run_id="r-masked", dataset="sites", labels=samples.LABELS)
    found: dict[str, dict[str, Any]] = {}
    versions = [
        samples.version(made, previous=samples.sha("version 0")),
        samples.version(masked, published_at=""),
    ]
    for version in versions:
        keys = [one.key for one in version.made.artifacts]
        found[stac.collection_path(version.dataset)] = stac.collection(version, keys, PLACES)
        for one in version.made.artifacts:
            found[stac.item_path(version.dataset, one.key)] = stac.item(one, version.made, PLACES)
    old = samples.version(made, digest=samples.sha("version 0"), next=made.version, latest=made.version)
    found[stac.version_path("stations", old.digest)] = stac.collection(old, [], PLACES)
    found[stac.ROOT] = stac.catalog([(each.dataset, "") for each in versions], PLACES)
    for name in ("promote", "rollback", "withdrawal"):
        found[f"stations/history/{name}.json"] = stac.moved(samples.RUNS[name])
    return found


DOCUMENTS = documents()


def written(folder: Path, found: dict[str, dict[str, Any]]) -> Path:
    for path, document in found.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(canonical(document))
    return folder


def test_every_document_is_what_stac_asks_for(tmp_path: Path) -> None:
    from stac_validator.validate import StacValidate

    schema_map = samples.schema_files(tmp_path)
    folder = written(tmp_path / "catalog", DOCUMENTS)
    for path in DOCUMENTS:
        checked = StacValidate(str(folder / path), schema_map=schema_map)
        assert checked.run(), checked.message
        assert checked.message[0]["valid_stac"] is True
        if DOCUMENTS[path]["type"] == "Catalog":  # of which that tool checks no extension
            continue
        claimed = {schema_map[name] for name in DOCUMENTS[path].get("stac_extensions", [])}
        assert claimed < set(checked.message[0]["schema"]), "not every extension was checked"


@pytest.mark.parametrize(
    "broken",
    [
        lambda item: item["properties"].pop("datetime"),
        lambda item: item["assets"]["data"].update({"file:checksum": "sha256:00"}),
        lambda item: item["properties"].update({"kfm:care": "whatever"}),
        lambda item: item["properties"].update({"processing:datetime": 7}),
    ],
)
def test_what_is_broken_is_found_by_the_same_tool(tmp_path: Path, broken: Any) -> None:
    from stac_validator.validate import StacValidate

    document = copy.deepcopy(DOCUMENTS["sites/items/ks.json"])
    broken(document)
    folder = written(tmp_path, {"item.json": document})
    assert not StacValidate(str(folder / "item.json"), schema_map=samples.schema_files(tmp_path)).run()


def test_pystac_reads_the_whole_catalog_and_finds_it_valid(tmp_path: Path) -> None:
    import pystac
    from pystac.validation import RegisteredValidator, set_validator
    from pystac.validation.stac_validator import JsonSchemaSTACValidator

    folder = written(tmp_path / "catalog", DOCUMENTS)
    before = RegisteredValidator.get_validator()
    offline = JsonSchemaSTACValidator()
    for address, file in samples.schema_files(tmp_path).items():
        offline.schema_cache[address] = json.loads(Path(file).read_bytes())
    set_validator(offline)
    try:
        catalog = pystac.Catalog.from_file(str(folder / stac.ROOT))
        items = list(catalog.get_items(recursive=True))
        assert len(items) == 6
        assert catalog.validate_all() == 6
        first = next(item for item in items if item.id == "stations-ks")
        assert first.get_parent() is not None and first.bbox == [-102.0, 37.0, -94.6, 40.0]
    finally:
        set_validator(before)


def test_the_dcat_catalog_has_the_shapes_of_dcat_us(tmp_path: Path) -> None:
    import pyshacl
    import rdflib

    versions = [
        samples.version(samples.RUNS["ingest"], previous=samples.sha("version 0")),
        samples.version(samples.run(dataset="sites", labels=samples.LABELS), published_at=""),
    ]
    shapes = rdflib.Graph().parse(samples.STANDARDS / "dcat-us-3/shacl/dcat-us_3.0_shacl_shapes.ttl")
    body = dcat.to_bytes(dcat.catalog(versions, PLACES))
    data = rdflib.Graph().parse(data=body, format="json-ld", publicID="file:///catalog/")
    conforms, _, text = pyshacl.validate(data, shacl_graph=shapes)
    assert conforms, text
    broken = dcat.catalog(versions, PLACES)
    del broken["dataset"][0]["publisher"]
    data = rdflib.Graph().parse(data=dcat.to_bytes(broken), format="json-ld", publicID="file:///catalog/")
    assert not pyshacl.validate(data, shacl_graph=shapes)[0]


@cache
def registry() -> Any:
    import referencing
    from referencing.jsonschema import DRAFT7

    from kfm.projections import openlineage

    found: dict[str, Any] = {
        address: json.loads((samples.STANDARDS / file).read_bytes())
        for address, file in json.loads((samples.STANDARDS / "index.json").read_bytes()).items()
    }
    found |= openlineage.schemas()
    return referencing.Registry().with_resources(
        (address, referencing.Resource.from_contents(body, default_specification=DRAFT7))
        for address, body in found.items()
    )


def faults(schema: str, value: Any, pointer: str = "") -> list[str]:
    """What `jsonschema`, which we do not ship, finds wrong."""
    import jsonschema

    whole = jsonschema.Draft202012Validator(
        {"$ref": schema + pointer}, registry=registry(), format_checker=jsonschema.FormatChecker()
    )
    return [f"{error.json_path}: {error.message}" for error in whole.iter_errors(value)]


def test_every_event_and_every_facet_is_what_openlineage_asks_for() -> None:
    from kfm.projections import openlineage

    checked = set()
    for run in samples.RUNS.values():
        for event in openlineage.events(run):
            assert faults(openlineage.SPEC, event) == []
            things = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
            facets = [
                facet
                for thing in things
                for kind in ("facets", "inputFacets", "outputFacets")
                for facet in thing.get(kind, {}).values()
            ]
            for facet in facets:
                schema, _, pointer = facet["_schemaURL"].partition("#")
                assert faults(schema, facet, "#" + pointer) == [], facet
                checked.add(schema.rpartition("/")[2])
    assert checked == {
        "NominalTimeRunFacet.json", "ProcessingEngineRunFacet.json", "ErrorMessageRunFacet.json", "KfmRunFacet.json",
        "DocumentationJobFacet.json", "JobTypeJobFacet.json", "DatasetVersionDatasetFacet.json",
        "DatasourceDatasetFacet.json", "KfmIdentityDatasetFacet.json", "InputStatisticsInputDatasetFacet.json",
        "LifecycleStateChangeDatasetFacet.json", "OutputStatisticsOutputDatasetFacet.json",
        "DocumentationDatasetFacet.json", "OwnershipDatasetFacet.json", "KfmGovernanceDatasetFacet.json",
        "SymlinksDatasetFacet.json", "HierarchyDatasetFacet.json",
    }  # fmt: skip


def test_a_broken_event_and_a_broken_facet_are_found() -> None:
    from kfm.projections import openlineage

    event = openlineage.events(samples.RUNS["masked"])[1]
    facet = {**event["run"]["facets"]["kfm_run"], "planHash": "no digest"}
    schema, _, pointer = facet["_schemaURL"].partition("#")
    assert faults(schema, facet, "#" + pointer)
    assert faults(openlineage.SPEC, {**event, "eventType": "ENDED"})
    assert faults(openlineage.SPEC, {**event, "run": {"runId": "no uuid"}})


def test_an_event_is_what_cloudevents_asks_for() -> None:
    from kfm.projections import cloudevents

    schema = "https://github.com/cloudevents/spec/cloudevents/formats/cloudevents.json"
    for run in samples.RUNS.values():
        assert faults(schema, cloudevents.event(run)) == []
    assert faults(schema, {**cloudevents.event(samples.RUNS["ingest"]), "id": ""})


def test_the_library_of_prov_reads_each_bundle_and_writes_the_same() -> None:
    import prov.model

    from kfm.projections import prov as ours

    for kind, run in samples.RUNS.items():
        body = ours.to_bytes(ours.prov_json(run)).decode()
        read = prov.model.ProvDocument.deserialize(content=body, format="json")
        again = prov.model.ProvDocument.deserialize(content=read.serialize(format="json"), format="json")
        assert read == again
        (bundle,) = read.bundles
        types = {type(record).__name__ for record in bundle.records}
        assert {"ProvActivity", "ProvAgent", "ProvEntity", "ProvAssociation"} <= types
        assert ("ProvUsage" in types) == (kind != "withdrawal")
        assert ("ProvMembership" in types) == (kind not in ("withdrawal", "failed", "noop"))
        assert ("ProvSpecialization" in types) == (kind in ("promote", "rollback", "withdrawal"))
        assert ("ProvInvalidation" in types) == (kind in ("rollback", "withdrawal"))
        assert ("ProvAttribution" in types) == (kind == "masked")


def test_both_forms_of_prov_say_the_same_of_time_actors_and_plan() -> None:
    import rdflib

    from kfm.projections import prov as ours

    for run in samples.RUNS.values():
        whole = rdflib.Dataset()
        whole.parse(data=ours.to_bytes(ours.prov_o(run)), format="json-ld")
        graph = next(graph for graph in whole.graphs() if str(graph.identifier) == f"kfm://bundle/{run.run_id}")
        prov = rdflib.Namespace("http://www.w3.org/ns/prov#")
        (activity,) = graph.subjects(rdflib.RDF.type, prov.Activity)
        (said,) = ours.prov_json(run)["bundle"].values()
        (told,) = said["activity"].values()
        when = {
            name: datetime.fromisoformat(str(graph.value(activity, prov[name])))
            for name in ("startedAtTime", "endedAtTime")
        }
        assert when["startedAtTime"] == datetime.fromisoformat(told["prov:startTime"])
        assert when["endedAtTime"] == datetime.fromisoformat(told["prov:endTime"])
        associations = list(graph.objects(activity, prov.qualifiedAssociation))
        assert [str(graph.value(one, prov.hadPlan)).endswith(run.plan_hash) for one in associations].count(True) == 1
        roles = {str(graph.value(one, prov.agent)) for one in associations if graph.value(one, prov.hadRole)}
        assert roles == ({f"kfm://operator/{run.operator}"} if run.operator else set())
        assert len(said["wasAssociatedWith"]) == len(associations) == (2 if run.operator else 1)
        invalidated = [str(one) for one in graph.objects(activity, prov.invalidated)]
        assert len(invalidated) == len(said.get("wasInvalidatedBy", {}))
