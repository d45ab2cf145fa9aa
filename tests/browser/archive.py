"""An archive of six real datasets with their pages: weather, geology, earthquakes, counties, satellite scenes, and
dates of archaeological sites that the public sees as cells."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE, label, labels
from tests.engine.protected.test_kansas import MASK, TABLE

ROOT = Path(__file__).resolve().parents[2]
KANSAS, DATA = ROOT / "examples" / "kansas", Path(__file__).with_name("data")
CONFIG = """\
kfm: 1
accept_weak_storage: true
publish: file:public
pages: true
public_url: https://data.example.org/kansas
archive:
  name: Kansas Open Archive
  description: Weather, rocks, earthquakes and history of Kansas. Every version says how it was made.
  publisher: Kansas Open Archive
  contact: data@example.org
  url: https://example.org
  outline: outline.geojson
"""
PROTECTION = 'labels: labels.yml\ncustodians: {office: {key: "env:KFM_SECRET_OFFICE"}}\n'
ABOUT = {
    "stations": (
        "Weather stations in Kansas",
        "Every station of the Integrated Surface Database that reported from Kansas, with its place, its elevation in "
        "metres and the years of its observations.",
        "CC-PDM-1.0",
        "NOAA National Centers for Environmental Information",
    ),
    "tops": (
        "Formation tops of the Arroyo field",
        "Depth of each formation in the wells of the Arroyo field, as the operators reported it, in feet below the "
        "reference elevation.",
        "LicenseRef-KGS-public-record",
        "Kansas Geological Survey",
    ),
    "quakes": (
        "Earthquakes of one week",
        "All earthquakes that the network located in a week of February 2018, with magnitude, depth and place.",
        "CC-PDM-1.0",
        "US Geological Survey",
    ),
    "counties": ("Counties of Kansas", "The 105 counties of Kansas as areas.", "CC-PDM-1.0", "US Census Bureau"),
    "scenes": (
        "Sentinel-1 scenes",
        "Radar scenes of Sentinel-1 with their footprints, as their catalog describes them.",
        "Apache-2.0",
        "Copernicus Sentinel-1, described by stactools",
    ),
    "dates": (
        "Radiocarbon dates of Kansas sites",
        "Dates of archaeological sites. The places are protected: the public sees cells of a hexagonal grid that are "
        "larger than a county.",
        "CC-BY-4.0",
        "p3k14c, Bird et al. 2022",
    ),
}
SOURCES = {
    "stations": "stations.csv, format: csv, contract: {columns: [{name: USAF, required: true}]}",
    "tops": "tops.csv, format: csv, contract: {columns: [{name: API, required: true}]}",
    "quakes": "quakes.geojson, format: geojson, contract: {columns: [{name: mag, type: number}]}",
    "counties": "counties.geojson, format: geojson, contract: {columns: [{name: fips, required: true}]}",
    "scenes": "scenes.json, format: stac, contract: {columns: [{name: platform, required: true}]}",
    "dates": "sites.csv, format: csv, mask: mask.yml, contract: {columns: [{name: LabID, required: true}]}",
}


def publish(kfm: Kfm, names: tuple[str, ...], *, twice: tuple[str, ...] = ()) -> None:
    """Publish these datasets of the archive in the present folder, some of them in two versions."""
    masked = "dates" in names
    Path("kfm.yml").write_text(CONFIG + PROTECTION * masked + "datasets:\n" + "".join(map(_dataset, names)))
    Path("mask.yml").write_text(MASK)
    labels(label("source: sites.csv", public_resolution=7))
    for file, source in {
        "outline.geojson": KANSAS / "outline.geojson",
        "tops.csv": KANSAS / "data" / "kgs-arroyo-tops.csv",
        "quakes.geojson": KANSAS / "data" / "usgs-all-week.geojson",
        "counties.geojson": DATA / "counties.geojson",
        "scenes.json": DATA / "scenes.json",
        "sites.csv": TABLE,
    }.items():
        shutil.copy(source, file)
    rows = _stations()
    for n, written in enumerate((rows[:-12], rows)):
        with Path("stations.csv").open("w", newline="") as file:
            csv.writer(file).writerows(written)
        for name in names if n == 0 else twice:
            ran = kfm("run", name)
            assert ran.code == 0, ran.err
            done = by_order(kfm, SAFE, "promote", name) if masked else kfm("promote", name, "--reason", "a version")
            assert done.code == 0, done.err


def _stations() -> list[list[str]]:
    with (KANSAS / "data" / "noaa-isd-history.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    return [head, *(row for row in rows if row[head.index("STATE")] == "KS")]


def _dataset(name: str) -> str:
    title, description, licence, attribution = ABOUT[name]
    custom = (
        "    license_text: Public record of the survey. Name it as the source.\n" if "LicenseRef" in licence else ""
    )
    form = "\n    outputs:\n      all: {from: main" + (", format: geojson}" if name == "scenes" else "}")
    return (
        f"  {name}:\n    version: '1.0.0'\n    title: {title}\n    description: >-\n      {description}\n"
        f"    license: {licence}\n{custom}    attribution: {attribution}\n    sensitivity: public\n"
        f"    sources:\n      main: {{uri: {SOURCES[name]}}}{form}\n"
    )
