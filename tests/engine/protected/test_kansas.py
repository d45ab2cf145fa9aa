"""A real table: radiocarbon dates of Kansas sites, whose publishers gave places as the middles of counties.

`kansas.csv` is every fifth of the Kansas rows of p3k14c (Bird et al. 2022, github.com/people3k/p3k14c), under the MIT
license of that repository: Copyright (c) 2021 p3k14c authors.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE, dataset, hits, installation, label, labels

TABLE = Path(__file__).with_name("kansas.csv")
MASK = """
id: radiocarbon
version: "1"
namespace: p3k14c
record_id: LabID
resolution: 7
location:
  latitude: Lat
  longitude: Long
  accuracy:
    column: LocAccuracy
    classes:
      "1.0": {name: county, metres: 35000}
columns:
  Age: {kind: number, step: 100}
  Material: {kind: code, values: [CHARCOAL, SEEDS, BONE, WOOD]}
"""


@pytest.fixture
def kansas(site: Kfm) -> Kfm:
    installation(dataset("dates", "sites.csv", mask=True, sensitivity="public"))
    labels(label("source: sites.csv", public_resolution=7))
    shutil.copy(TABLE, "sites.csv")
    Path("mask.yml").write_text(MASK)
    return site


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(TABLE.open(newline="")))


def test_cells_of_county_middles_say_so_and_do_not_pretend(kansas: Kfm) -> None:
    assert kansas("run", "dates").code == 0
    made = list(csv.DictReader(io.StringIO(kansas("cat", "processed/dates", "all").out)))
    assert len(made) == len(rows()) == 80
    assert {row["georeferenceAccuracy"] for row in made} == {"county"}
    assert {int(row["resolution"]) for row in made} == {3}
    assert all(int(row["coordinateUncertaintyInMeters"]) > 35_000 for row in made)
    assert by_order(kansas, SAFE, "promote", "dates").code == 0
    secrets = {row[name] for row in rows() for name in ("SiteID", "SiteName", "Lat", "Long") if len(row[name]) > 4}
    assert len(secrets) > 80
    assert hits([*secrets, *(row["LabID"] for row in rows() if len(row["LabID"]) > 5)]) == []


def test_its_trinomials_are_known_again_and_the_middles_of_counties_are_not_protected(kansas: Kfm) -> None:
    assert kansas("run", "dates").code == 0
    Path("copy.csv").write_text("site\n" + "".join(f"{row['SiteID']}\n" for row in rows()))
    installation(dataset("list", "copy.csv", sensitivity="public"))
    ran = kansas("run", "list")
    assert ran.code == 4 and "gate.id" in ran.err
    Path("copy.csv").write_text("y,x\n" + "".join(f"{row['Lat']},{row['Long']}\n" for row in rows()))
    assert kansas("run", "list").code == 0


def test_a_masked_dataset_has_its_title_and_licence_on_its_page_and_in_the_catalog(kansas: Kfm) -> None:
    installation(dataset("dates", "sites.csv", mask=True, sensitivity="", title="Dates of Kansas"))
    config = Path("kfm.yml")
    config.write_text(config.read_text() + "pages: true\npublish: file:public\ncatalog: file:catalog\n")
    assert kansas("run", "dates").code == 0
    assert by_order(kansas, SAFE, "promote", "dates").code == 0
    text = Path("public/datasets/dates/index.html").read_text()
    assert "<h1>Dates of Kansas</h1>" in text and "CC0-1.0" in text
    assert ">Dates of Kansas</a>" in Path("public/index.html").read_text()
    assert json.loads(Path("catalog/dates/collection.json").read_bytes())["title"] == "Dates of Kansas"
    linked = json.loads(Path("catalog/catalog.json").read_bytes())["links"]
    assert "Dates of Kansas" in [link.get("title") for link in linked]
    assert kansas("reconcile").code == 0
