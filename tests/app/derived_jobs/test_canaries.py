"""A protected table goes through every kind of job: nothing that only the table has comes out of any of them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.errors import Denied
from kfm.model.jobs.job_settings import IndexSettings
from kfm.model.records import Classification, SourceRef
from kfm.updaters.jobs import text_vectors
from kfm.updaters.jobs.search_index import SearchIndex
from tests.app.derived_jobs.conftest import Run, body, derived
from tests.app.derived_jobs.map_reader import Map
from tests.app.governance.people import by_order, make_list
from tests.cli.conftest import Kfm
from tests.engine.installations import ROOT

SAFE = Path("../safe")
NAMES = [f"Zzyzx{n:02d}hollow" for n in range(60)]
HEAD = """\
kfm: 1
labels: labels.yml
custodians: {society: {key: "env:KFM_SECRET_SOCIETY"}}
datasets:
  sites:
    version: "1.0.0"
    title: Sites, as cells
    license: CC-BY-4.0
    sensitivity: public
    sources:
      sites:
        uri: sites.csv
        format: csv
        mask: mask.yml
        contract: {shrink_limit: 1, columns: [{name: site, required: true, unique: true}]}
    outputs: {cells: {from: sites, format: MADE}}
"""
JOBS = (
    derived("map", "transform.build_tiles", "max_zoom: 9, longitude: x, latitude: y", "{f: {dataset: sites}}")
    + derived("report", "validate.qa_dataset", "max_null_share: {excavated: 1}, key: [id]", "{f: {dataset: sites}}")
    + derived("index", "index.build_embeddings", "columns: [kind, excavated], id: id, alias: sites",
              "{f: {dataset: sites, zone: published}}")
)  # fmt: skip


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path("sites.csv").read_text())))


def canaries() -> list[str]:
    """Every text that only the table has: names, remarks, and coordinates with their digits."""
    found = [*NAMES]
    for row in rows():
        found += [row["site"], row["remarks"], row["lat"], row["lon"], row["dug"]]
    return found


@pytest.fixture
def sites(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """A protected table of sites with unique names and places, and a dataset of each kind of job."""
    monkeypatch.setenv("KFM_SECRET_SOCIETY", hashlib.sha256(b"society").hexdigest())
    for name in ("mask.yml", "labels.yml"):
        shutil.copyfile(ROOT / "examples/protected" / name, name)
    chance = random.Random(7)
    lines = ["site,lat,lon,how,kind,dug,remarks"]
    for n, name in enumerate(NAMES):
        lat, lon = chance.uniform(37.2, 37.9), chance.uniform(-99.9, -99.0)
        kind = chance.choice(["village", "camp", "mound"])
        lines.append(f"14ZZ{n:03d},{lat:.6f},{lon:.6f},gps,{kind},19{60 + n % 40}-04-1{n % 9},found by {name}")
    Path("sites.csv").write_text("\n".join(lines) + "\n")
    made_of("csv")
    make_list(kfm, SAFE, "society")
    return kfm


def published(kfm: Kfm, dataset: str) -> Any:
    """The answer to a publication that the operator asks for and both stewards approve."""
    return by_order(kfm, SAFE, "publish", dataset)


def made_of(form: str) -> None:
    Path("kfm.yml").write_text(HEAD.replace("MADE", form) + JOBS)


def clean(what: bytes | str, where: str) -> None:
    text = what if isinstance(what, bytes) else what.encode()
    for canary in canaries():
        assert canary.encode() not in text, f"{where} has something that only the table has"
        assert canary.encode()[:9] not in text or canary.startswith("19"), where


@pytest.fixture
def all_run(sites: Kfm, run: Run) -> dict[str, dict[str, Any]]:
    made_of("csv")
    receipts = {"sites": run("sites")}
    assert receipts["sites"]["status"] == "SUCCESS", receipts["sites"]["errors"]
    answer = published(sites, "sites")
    assert answer.code == 0, answer
    receipts |= {name: run(name) for name in ("report", "index")}
    assert {each["status"] for each in receipts.values()} == {"SUCCESS"}, receipts
    return receipts


def test_no_segment_vector_report_or_receipt_has_a_canary(sites: Kfm, all_run: dict[str, Any]) -> None:
    receipts = [sites("runs", "receipt", each["run_id"], "--json").out for each in all_run.values()]
    clean("".join(receipts), "a receipt")
    report = json.loads(body("processed/report", "report"))
    assert report["masked"] and report["rows"] == len(NAMES)
    clean(body("processed/report", "report"), "the report")
    segment = body("processed/index", "f", "0")
    clean(segment, "a segment")
    clean(body("processed/index", "index"), "the manifest")
    vectors = {json.loads(line)["vector"] for line in segment.splitlines()}
    for row in rows():
        for text in (row["remarks"], row["site"], " ".join(row.values())):
            assert text_vectors.packed(text_vectors.vector_of(text)) not in vectors
    assert all(len(base64.b64decode(vector)) == text_vectors.SIZE for vector in vectors)
    assert published(sites, "index").code == 0
    clean(sites("search", NAMES[0], "--json").out.replace(NAMES[0], ""), "an answer")
    for path in (each for each in Path("public").rglob("*") if each.is_file()):
        clean(path.read_bytes(), path.name)
        clean(str(path), "the name of a file")


@pytest.mark.long
def test_a_count_of_masked_data_below_k_is_left_out(sites: Kfm, run: Run) -> None:
    made_of("csv")
    run("sites")
    run("report")
    report = json.loads(body("processed/report", "report"))
    few = [n for n in (*report["columns"].values(), *(each["found"] for each in report["checks"])) if n is not None]
    assert few and all(n == 0 or n >= 5 for n in few)


def test_a_tile_shows_cells_and_nothing_that_is_finer(sites: Kfm, run: Run) -> None:
    Path("kfm.yml").write_text("")
    features = [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [float(row["lon"]), float(row["lat"])]},
         "properties": {name: value for name, value in row.items() if name not in ("lat", "lon")}}
        for row in rows()
    ]  # fmt: skip
    Path("sites.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    head = HEAD.replace("uri: sites.csv", "uri: sites.geojson").replace("format: csv\n", "format: geojson\n")
    Path("kfm.yml").write_text(head.replace("MADE", "geojson") + JOBS)
    Path("labels.yml").write_text(Path("labels.yml").read_text().replace("sites.csv", "sites.geojson"))
    mask = Path("mask.yml").read_text()
    Path("mask.yml").write_text(mask.replace("  latitude: lat\n  longitude: lon\n", "  geometry: true\n"))
    receipt = run("sites")
    assert receipt["status"] == "SUCCESS", receipt["errors"]
    receipt = run("map")
    assert receipt["status"] == "SUCCESS", receipt["errors"]
    made = body("processed/map", "tiles")
    drawn = Map(made)
    clean(drawn.all_bytes() + made, "a tile")
    cells = {each["properties"]["cell"] for each in json.loads(body("processed/sites", "cells"))["features"]}
    shown = [values for _, values in drawn.features(9)]
    assert shown and {values["cell"] for values in shown} == cells, "every cell is drawn, and nothing else"
    answer = published(sites, "map")
    assert answer.code == 0, answer.err
    assert Path("public/datasets/map").exists()


@pytest.mark.long
def test_text_of_a_table_that_is_restricted_now_is_not_indexed(sites: Kfm, all_run: dict[str, Any]) -> None:
    assert published(sites, "index").code == 0
    assert sites("search", "village", "--json").data["hits"]
    labels = Path("labels.yml").read_text()
    Path("labels.yml").write_text(labels.replace("sensitivity: generalised", "sensitivity: restricted"))
    answer = sites("run", "index", "--json")
    assert answer.data["receipts"][-1]["status"] == "FAILED" and answer.code in (3, 4)
    clean(answer.out + answer.err, "the refusal")
    answer = sites("search", "village", "--json")
    assert answer.code == 3 or answer.data["hits"] == [], "what was published is found no more"


@pytest.mark.parametrize("standing", [Classification(level="restricted"), Classification(level="closed")])
def test_an_index_refuses_a_restricted_version_before_it_reads_it(standing: Classification) -> None:
    made = SearchIndex("index", IndexSettings(columns=("a",)), {"f": "published/sites"})
    ref = SourceRef(uri="kfm://ref/published/sites", content_hash="sha256:" + "0" * 64, size=1, name="f")
    with pytest.raises(Denied):
        made.plan([msgspec.structs.replace(ref, standing=standing)])
    with pytest.raises(Denied):
        made.plan([msgspec.structs.replace(ref, sealed_with="a-key")])
    assert made.plan([ref])


@pytest.mark.long
def test_nothing_that_only_the_table_has_lies_in_clear_in_the_state(sites: Kfm, all_run: dict[str, Any]) -> None:
    assert all_run and os.path.isdir(".kfm")
    for path in Path(".kfm").rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            for name in NAMES:
                assert name.encode() not in text, path
