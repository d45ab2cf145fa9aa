"""A catalog of many items holds before the tools of others: a few with every commit, ten thousand in the long suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfm.app.metadata import catalog_validation
from kfm.model.canonical import canonical
from kfm.model.public_run import PublicArtifact, artifact_id
from kfm.projections import stac
from tests.projections import samples
from tests.projections.test_outside_tools import PLACES

TIMES = ("", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z/2026-02-01T00:00:00Z", "../2026-01-01T00:00:00Z")


def artifacts(count: int) -> tuple[PublicArtifact, ...]:
    """Of every kind an output can say of itself: a place or none, a moment, an interval or nothing, an id or none."""
    found = []
    for number in range(count):
        key = (f"tile-{number % 97}", f"Day {number}" if number % 5 == 0 else f"day-{number}")
        west = -180 + number % 350
        found.append(
            samples.artifact(
                *key,
                id=artifact_id("stations", key),
                bbox=((), (west, -80.5, west + 1.25, 80), (179, 1, -179, 2))[number % 3],
                datetime=TIMES[number % 4],
                stac_id=f"item-{number}" if number % 2 else "",
            )
        )
    return tuple(found)


def catalog(folder: Path, count: int) -> list[str]:
    """Writes a catalog of so many items, and gives its files."""
    made = samples.run(artifacts=artifacts(count), labels=samples.LABELS)
    (folder / "stations/items").mkdir(parents=True)
    keys = [one.key for one in made.artifacts]
    (folder / stac.ROOT).write_bytes(canonical(stac.catalog([("stations", "Stations")], PLACES)))
    (folder / stac.collection_path("stations")).write_bytes(
        canonical(stac.collection(samples.version(made), keys, PLACES))
    )
    for one in made.artifacts:
        (folder / stac.item_path("stations", one.key)).write_bytes(canonical(stac.item(one, made, PLACES)))
    files = sorted(str(path) for path in folder.rglob("*.json"))
    assert len(files) == count + 2
    return files


MANY = pytest.mark.parametrize("count", [24, pytest.param(10_000, marks=pytest.mark.long)])


@MANY
def test_a_catalog_of_many_items_is_valid_to_stac_validator_and_to_us(tmp_path: Path, count: int) -> None:
    from stac_validator.validate import StacValidate

    files = catalog(tmp_path / "catalog", count)
    assert [each for each in catalog_validation.validate(str(tmp_path / "catalog")) if each.verdict != "valid"] == []
    schema_map = samples.schema_files(tmp_path)
    wrong = []
    for path in files:
        checked = StacValidate(path, schema_map=schema_map)
        if not checked.run():
            wrong.append((path, checked.message))
    assert wrong == []


@MANY
def test_a_catalog_of_many_items_is_valid_to_pystac(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pystac
    from jsonschema import Draft7Validator
    from pystac.validation import RegisteredValidator, set_validator
    from pystac.validation.stac_validator import JsonSchemaSTACValidator

    files = catalog(tmp_path / "catalog", count)
    before = RegisteredValidator.get_validator()
    offline = JsonSchemaSTACValidator()
    for address, file in samples.schema_files(tmp_path).items():
        offline.schema_cache[address] = json.loads(Path(file).read_bytes())
    # pystac holds each schema against the schema of schemas again for every item: once is enough.
    for schema in offline.schema_cache.values():
        Draft7Validator.check_schema(schema)
    monkeypatch.setattr(Draft7Validator, "check_schema", lambda _schema: None)
    set_validator(offline)
    try:
        if count < 1000:  # a pass over the links costs pystac the square of their number
            assert pystac.Catalog.from_file(str(tmp_path / "catalog" / stac.ROOT)).validate_all() == count
        for path in files:
            assert pystac.read_file(path).validate()
    finally:
        set_validator(before)
