"""What was approved for the public is described to the public: pages, STAC and DCAT of a masked dataset."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import h3
import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import IDS, NOTES, POINTS, SAFE, dataset, installation, label, labels

PLACES = "pages: true\npublish: file:public\ncatalog: file:catalog\n"
OUTPUTS = "    outputs:\n      cells: {from: sites}\n"
WITHHELD = {"trinomial", "lat", "lon", "note"}  # columns of the source that masking does not publish
PUBLISHED = [
    "id", "kind", "found", "cell", "resolution", "georeferenceAccuracy", "coordinateUncertaintyInMeters",
    "dataGeneralizations", "informationWithheld",
]  # fmt: skip


@pytest.fixture
def published(site: Kfm) -> Kfm:
    """A masked dataset at its public address."""
    text = dataset("sites", "sites.csv", mask=True, sensitivity="public", title="Sites as cells")
    installation(text.replace("updater: updaters.py:Copy\n", 'version: "1.0.0"\n') + OUTPUTS)
    config = Path("kfm.yml")
    config.write_text(config.read_text() + PLACES)
    assert site("run", "sites").code == 0
    assert by_order(site, SAFE, "promote", "sites").code == 0
    return site


def read(path: str) -> Any:
    return json.loads(Path(path).read_bytes())


def file_published() -> Path:
    (found,) = (path for path in Path("public/datasets/sites/versions").rglob("*") if path.stem == "cells")
    return found


def around_cells() -> list[float]:
    cells = {row["cell"] for row in csv.DictReader(file_published().open(newline=""))}
    corners = [corner for cell in cells for corner in h3.cell_to_boundary(cell)]
    lats, lons = zip(*corners, strict=True)
    return [min(lons), min(lats), max(lons), max(lats)]


def test_everything_that_describes_a_masked_dataset_gives_its_file_its_columns_and_its_cells(published: Kfm) -> None:
    collection, item = read("catalog/sites/collection.json"), read("catalog/sites/items/cells.json")
    file = file_published()
    assert (Path("catalog/sites/items") / item["assets"]["data"]["href"]).resolve() == file.resolve()
    for said in (collection, item["properties"]):
        assert [each["name"] for each in said["table:columns"]] == PUBLISHED
        assert said["table:row_count"] == 12
    box = around_cells()
    assert item["bbox"] == pytest.approx(box, abs=1e-5)
    assert collection["extent"]["spatial"]["bbox"] == [item["bbox"]]
    (catalogued,) = read("catalog/catalog.jsonld")["dataset"]
    assert catalogued["spatial"][0]["bbox"].startswith("POLYGON")
    (download,) = (each for each in catalogued["distribution"] if each["title"] == "cells")
    assert (Path("catalog") / download["downloadURL"]).resolve() == file.resolve()
    assert download["description"] == f"Columns: {', '.join(PUBLISHED)}. 12 rows."
    assert {"byteSize", "checksum", "license", "mediaType"} <= download.keys()
    page = Path("public/datasets/sites/index.html")
    text = page.read_text()
    links = set(re.findall(r'<a href="([^"]+)">cells</a>', text))
    assert {(page.parent / link).resolve() for link in links} == {file.resolve()}
    assert re.findall(r'<th scope="row">([^<]+)</th>', text) == PUBLISHED and "<dt>Rows</dt><dd>12</dd>" in text
    assert published("catalog", "validate", "catalog").code == 0
    assert published("reconcile").code == 0


def test_nothing_that_describes_a_masked_dataset_comes_from_its_source(published: Kfm) -> None:
    lats, lons = ([float(point[at]) for point in POINTS] for at in (0, 1))
    exact = [min(lons), min(lats), max(lons), max(lats)]
    box = read("catalog/sites/items/cells.json")["bbox"]
    assert all(abs(one - other) > 1e-3 for one, other in zip(box, exact, strict=True))
    files = [path for folder in ("public", "catalog") for path in Path(folder).rglob("*") if path.is_file()]
    assert len(files) > 8
    for path in files:
        text = path.read_text()
        assert not [one for one in (*IDS, *sum(POINTS, ())) if one in text], path
    named = {each["name"] for each in read("catalog/sites/collection.json")["table:columns"]}
    assert not named & WITHHELD


def test_no_page_of_a_masked_dataset_holds_more_than_its_public_file(published: Kfm) -> None:
    with file_published().open(newline="") as file:
        rows = list(csv.DictReader(file))
    moments = re.compile(r"\d\d:\d\d:\d\d\.\d+Z")  # whose seconds may look like degrees
    pages = [moments.sub("", path.read_text()) for path in Path("public").rglob("*.html")]
    assert len(pages) == 3
    near = {f"{float(number):.{places}f}" for point in POINTS for number in point for places in (2, 3, 4, 5, 6)}
    for text in pages:
        assert not [one for one in (*IDS, *near, *NOTES, "cottonwood") if one in text]
    text = Path("public/datasets/sites/index.html").read_text()
    (drawn,) = re.findall(r'<path class="cells"[^>]*d="([^"]*)"', text)
    assert drawn.count("M") == len({row["cell"] for row in rows}), "one outline for each cell of the file"
    assert 'class="dots"' not in text and 'class="areas"' not in text
    shown = re.search('<table class="rows">.*?</table>', text, re.S)
    assert shown is not None and shown[0].count("<tr>") == 11, "ten rows of the public file and their head"
    assert all(f"<td>{row['id']}</td>" in shown[0] for row in rows[:10])


@pytest.mark.parametrize("how", ["withdrawn", "tightened"])
def test_the_pages_of_a_masked_dataset_go_when_it_goes(published: Kfm, how: str) -> None:
    if how == "withdrawn":
        assert by_order(published, SAFE, "rollback", "sites", "--to", "nothing", "--reason", "no").code == 0
    else:
        labels(label("source: sites.csv", "restricted", public_resolution=None))
        published("run", "sites")
    left = list(Path("public").rglob("*.html"))
    assert [str(path) for path in left] == ["public/index.html"]
    assert "Sites as cells" not in left[0].read_text() and "Nothing is published" in left[0].read_text()
