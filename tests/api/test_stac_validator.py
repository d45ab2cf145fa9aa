"""The STAC API holds before `stac-api-validator`, for every class that it claims, without a network."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stac_api_validator import filters

from kfm.api.endpoints import stac_routes
from tests.api.formats_site import WELLS, served_formats
from tests.api.offline_validator import CLASSES, Validated
from tests.api.serving_site import OPEN, Site

AROUND = {"type": "Polygon", "coordinates": [[[-102, 37], [-99, 37], [-99, 40], [-102, 40], [-102, 37]]]}


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
        with served_formats(tmp_path_factory.mktemp("formats")) as site:
            yield site


def validated(site: Site, folder: Path, *classes: str) -> Validated:
    """What that tool says, in a process of its own, because it is put between the process and the network."""
    command = [sys.executable, "-m", "tests.api.offline_validator", f"{site.base}/stac", WELLS, json.dumps(AROUND)]
    done = subprocess.run([*command, str(folder), *classes], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return Validated(**json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.long
def test_every_class_that_is_claimed_is_valid_and_nothing_is_fetched(formats: Site, tmp_path: Path) -> None:
    claimed = {each.removeprefix("https://api.stacspec.org/v1.0.0/") for each in stac_routes.CONFORMS}
    ours = {each for each in claimed if "opengis" not in each}
    assert ours == {"ogcapi-features" if each == "features" else each for each in CLASSES}, "the tool is asked for each"
    found = validated(formats, tmp_path)
    assert found.errors == []
    assert found.refused == []
    assert any("table/v1.2.0" in each for each in found.schemas), "extensions were checked, too"


@pytest.mark.long
def test_the_validator_finds_a_server_that_ignores_what_was_asked_for(
    formats: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(stac_routes, "apply_fields", lambda item, fields: (asked.append(fields), item)[1])
    found = validated(formats, tmp_path, "core", "item-search#fields")
    assert asked, "the fault fired"
    assert any("Fields Ext" in each for each in found.errors)


FILTERS: list[dict[str, Any]] = [
    *filters.cql2_json_string_comparisons(OPEN), *filters.cql2_json_numeric_comparisons,
    *filters.cql2_json_timestamp_comparisons, filters.cql2_json_s_intersects, filters.cql2_json_and("all", OPEN),
    filters.cql2_json_or("all", OPEN), filters.cql2_json_not("all"), filters.cql2_json_ex_2(OPEN),
    filters.cql2_json_ex_3, filters.cql2_json_ex_4, filters.cql2_json_ex_6, filters.cql2_json_ex_8,
    filters.cql2_json_ex_9, filters.cql2_json_between, filters.cql2_json_not_between, filters.cql2_json_like,
    filters.cql2_json_not_like, filters.cql2_json_common_1,
]  # fmt: skip


def test_every_filter_of_the_validator_is_understood(served: Site) -> None:
    for each in FILTERS:
        body = json.dumps({"filter-lang": "cql2-json", "filter": each}).encode()
        answer = served.ask("/stac/search", "POST", {"Content-Type": "application/json"}, body)
        assert answer.status == 200, (each, answer.body)
    found = json.loads(answer.body)
    assert found["features"] == []
    one = served.ask(f"/stac/search?filter={json.dumps(FILTERS[0]).replace(' ', '')}&filter-lang=cql2-json")
    assert [each["id"] for each in json.loads(one.body)["features"]] == ["all", "more"]
