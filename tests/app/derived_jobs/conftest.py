"""An installation whose datasets are made by jobs from wells of Kansas and earthquakes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm import open as open_installation
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.engine.installations import ROOT

DATA = ROOT / "examples/declared/data"
WELLS = """\
kfm: 1
datasets:
  wells:
    version: "1.0.0"
    title: Wells of the Arroyo field
    license: CC0-1.0
    sensitivity: public
    sources:
      wells:
        uri: wells.csv
        format: csv
        contract: {shrink_limit: 1, columns: [{name: KID, required: true, unique: true}, {name: TOTAL_DEPTH}]}
    outputs: {wells: {from: wells}}
"""
PLACES = "longitude: NAD27_LONGITUDE, latitude: NAD27_LATITUDE"


def derived(name: str, job: str, parameters: str, sources: str, more: str = "") -> str:
    return (
        f"  {name}:\n    job: {job}\n    parameters: {{{parameters}}}\n    title: {name}\n    license: CC0-1.0\n"
        f"    sensitivity: public\n{more}    sources: {sources}\n"
    )


TILES = derived("well-tiles", "transform.build_tiles",
                f"{PLACES}, layer: wells, max_zoom: 6, attributes: [KID, STATUS]",
                "{features: {dataset: wells, zone: published}}")  # fmt: skip
REPORT = derived("well-report", "validate.qa_dataset",
                 f"min_rows: 50, key: [KID], ranges: {{TOTAL_DEPTH: {{minimum: 0, maximum: 9000}}}}, {PLACES}, "
                 "extent: [-102.1, 36.9, -94.5, 40.1]", "{rows: {dataset: wells}}")  # fmt: skip
INDEX = derived("well-index", "index.build_embeddings",
                "columns: [LEASE_NAME, ORIG_OPERATOR, STATUS], title: LEASE_NAME, id: KID, alias: wells",
                "{rows: {dataset: wells, zone: published}}")  # fmt: skip


def written(*datasets: str, head: str = WELLS) -> None:
    Path("kfm.yml").write_text(head + "".join(datasets))


@pytest.fixture
def wells(kfm: Kfm) -> Kfm:  # noqa: F811
    """The published wells, and a dataset of each kind of job that reads them."""
    shutil.copyfile(DATA / "kgs-arroyo-wells.csv", "wells.csv")
    written(TILES, REPORT, INDEX)
    assert kfm("run", "wells").code == 0
    assert kfm("publish", "wells").code == 0
    return kfm


def body(ref: str, *key: str) -> bytes:
    """The bytes of one entry of the version that a ref is at."""
    found: bytes = open_installation(".").read(ref, key=key or "").bytes()
    return found


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(kfm: Kfm) -> Run:  # noqa: F811
    """Runs a dataset and returns its receipt."""

    def call(dataset: str, *words: str) -> dict[str, Any]:
        answer = kfm("run", dataset, *words, "--json")
        (receipt,) = answer.data["receipts"]
        return dict(receipt)

    return call
