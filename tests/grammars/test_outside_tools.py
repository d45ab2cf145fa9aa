"""Documents hold before tools that others wrote, without a network."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kfm.contract.canonical import canonical
from kfm.contract.public_run import Places
from kfm.projections import dcat, stac
from tests.grammars import samples

PLACES = Places(public="../public", receipts="../exports")


def documents() -> dict[str, dict[str, Any]]:
    """A catalog as files: path → document."""
    made, masked = samples.RUNS["ingest"], samples.RUNS["masked"]
    masked = samples.run(run_id="r-masked", dataset="kfm://dataset/sites", labels=samples.LABELS)
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
        samples.version(samples.run(dataset="kfm://dataset/sites", labels=samples.LABELS), published_at=""),
    ]
    shapes = rdflib.Graph().parse(samples.STANDARDS / "dcat-us-3/shacl/dcat-us_3.0_shacl_shapes.ttl")
    whole = [dcat.catalog(versions, PLACES), *(dcat.of_run(run, PLACES) for run in samples.RUNS.values())]
    data = rdflib.Graph()
    for document in whole:
        data.parse(data=dcat.to_bytes(document), format="json-ld", publicID="file:///catalog/")
    conforms, _, text = pyshacl.validate(data, shacl_graph=shapes)
    assert conforms, text
    broken = dcat.catalog(versions, PLACES)
    del broken["dataset"][0]["publisher"]
    data = rdflib.Graph().parse(data=dcat.to_bytes(broken), format="json-ld", publicID="file:///catalog/")
    assert not pyshacl.validate(data, shacl_graph=shapes)[0]
