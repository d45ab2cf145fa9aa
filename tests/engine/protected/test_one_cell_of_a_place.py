"""A protected place has one public cell, whichever dataset, source, namespace, mask or custodian shows it."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import h3
import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import IDS, MASK, POINTS, SAFE, dataset, hits, installation, label, labels, table
from tests.engine.protected.test_small_groups import deploy
from tests.kept import once

SECOND = MASK.replace("state-sites", "atlas").replace("id: sites", "id: atlas")


def arrange(kfm: Kfm, second: str, *, uri: str = "sites.csv", body: str = "", custodian: str = "office") -> None:
    """The dataset `sites` is public in cells of resolution 6; `atlas` has a mask of its own."""
    once("sites in public cells", [Path(), SAFE], lambda: first_published(kfm))
    atlas = dataset("atlas", uri, mask=True).replace("mask: mask.yml", "mask: second.yml")
    installation(dataset("sites", "sites.csv", mask=True), atlas)
    config = Path("kfm.yml")
    config.write_text(config.read_text() + "publish: file:public\n")
    Path("second.yml").write_text(second)
    if body:
        Path(uri).write_text(body)
    labels(
        label("source: sites.csv", public_resolution=9),
        *([label(f"source: {uri}", public_resolution=9, custodian=custodian)] if uri != "sites.csv" else []),
    )


def first_published(kfm: Kfm) -> None:
    installation(dataset("sites", "sites.csv", mask=True))
    config = Path("kfm.yml")
    config.write_text(config.read_text() + "publish: file:public\n")
    labels(label("source: sites.csv", public_resolution=9))
    publish(kfm, "sites")


def publish(kfm: Kfm, name: str) -> None:
    ran = kfm("run", name, "--force", "--reason", "again")
    assert ran.code == 0, ran.err
    answer = by_order(kfm, SAFE, "promote", name)
    assert answer.code == 0, answer.err


def cells() -> dict[str, set[str]]:
    """The attacker: every cell in the public folder, by the protected point that it is near."""
    shown = set()
    for path in Path("public").rglob("*"):
        if path.is_file() and path.read_bytes()[:3] == b"id,":
            shown |= {row["cell"] for row in csv.DictReader(path.open(newline=""))}
    found = defaultdict(set)
    for lat, lon in POINTS:
        for cell in shown:
            here = h3.latlng_to_cell(float(lat), float(lon), h3.get_resolution(cell))
            if cell in (here, *h3.grid_ring(here, 1)):
                found[lat].add(cell)
    return found


def public_ids() -> int:
    bodies = [path.read_text() for path in Path("public").rglob("*") if path.is_file()]
    return len({line.partition(",")[0] for body in bodies if body[:3] == "id," for line in body.splitlines()[1:]})


@pytest.mark.parametrize("resolution", [pytest.param(6, marks=pytest.mark.long), 8])
def test_a_second_mask_with_another_namespace_shows_the_same_cells(site: Kfm, resolution: int) -> None:
    arrange(site, SECOND.replace("resolution: 6", f"resolution: {resolution}"))
    first = cells()
    if resolution > 6:  # than the mask in force for the source
        assert by_order(site, SAFE, "mask", "deploy", "atlas", "sites").code == 0
    publish(site, "atlas")
    assert public_ids() == 2 * len(IDS)
    assert cells() == first and all(len(its) == 1 for its in first.values()) and len(first) == len(POINTS)
    assert hits() == []


def test_a_second_mask_with_coarser_cells_is_denied_before_anything_is_published(site: Kfm) -> None:
    arrange(site, SECOND.replace("resolution: 6", "resolution: 5"))
    ran = site("run", "atlas")
    assert ran.code == 4 and "12 records are at places that another mask shows in finer cells" in ran.err
    assert "the namespace and the resolution of the other" in ran.err
    assert public_ids() == len(IDS) and all(len(its) == 1 for its in cells().values())
    assert hits() == []


@pytest.mark.parametrize("digits", [pytest.param(6, marks=pytest.mark.long), 4])
def test_another_source_with_the_same_places_shows_the_same_cells(site: Kfm, digits: int) -> None:
    rows = [f"{n},camp,1950-06-01,{float(a):.{digits}f},{float(b):.{digits}f}," for n, (a, b) in enumerate(POINTS)]
    body = "\n".join(["trinomial,kind,found,lat,lon,note", *rows]) + "\n"
    arrange(site, SECOND.replace("resolution: 6", "resolution: 7"), uri="copy.csv", body=body)
    first = cells()
    publish(site, "atlas")
    assert public_ids() == 2 * len(IDS)
    assert cells() == first


def test_another_custodian_of_the_same_places_shows_the_same_cells(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_SECRET_MUSEUM", "a" * 20 + "0123456789bcdef" * 3)
    Path("second.yml").write_text(SECOND.replace("resolution: 6", "resolution: 7"))
    atlas = dataset("atlas", "copy.csv", mask=True).replace("mask: mask.yml", "mask: second.yml")
    installation(dataset("sites", "sites.csv", mask=True), atlas)
    config = Path("kfm.yml")
    config.write_text(config.read_text().replace("datasets:", "  museum: {key: 'env:KFM_SECRET_MUSEUM'}\ndatasets:"))
    Path("copy.csv").write_text(table().replace("14QX", "14M"))
    labels(label("source: sites.csv"), label("source: copy.csv", custodian="museum", public_resolution=9))
    made = []
    for name in ("sites", "atlas"):
        ran = site("run", name)
        assert ran.code == 0, ran.err
        made.append(
            sorted(row["cell"] for row in csv.DictReader(site("cat", f"processed/{name}", "all").out.splitlines()))
        )
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"namespace: state-sites": "namespace: atlas"}, id="namespace", marks=pytest.mark.long),
        pytest.param({"resolution: 6": "resolution: 8"}, id="resolution", marks=pytest.mark.long),
        pytest.param({"namespace: state-sites": "namespace: atlas", "resolution: 6": "resolution: 8"}, id="both"),
    ],
)
def test_a_changed_mask_shows_no_second_cell(site: Kfm, changed: dict[str, str]) -> None:
    arrange(site, SECOND)
    first = cells()
    mask = MASK
    for was, will in changed.items():
        mask = mask.replace(was, will)
    deploy(site, mask)
    publish(site, "sites")
    assert cells() == first


def test_a_changed_mask_with_coarser_cells_and_another_namespace_is_denied(site: Kfm) -> None:
    arrange(site, SECOND)
    first = cells()
    deploy(site, SECOND.replace("resolution: 6", "resolution: 4"))
    ran = site("run", "sites", "--force", "--reason", "again")
    assert ran.code == 4 and "one public cell" in ran.err
    assert cells() == first


def test_an_earlier_version_with_other_cells_than_are_public_now_is_not_published_again(site: Kfm) -> None:
    arrange(site, MASK.replace("id: sites", "id: atlas").replace("resolution: 6", "resolution: 5"))
    finer = site("refs", "history", "published/sites", "--json").data[0]["after"]
    assert site("rollback", "sites", "--to", "nothing", "--key", str(SAFE / "sue.key"), "--reason", "coarser").code == 0
    publish(site, "atlas")
    publish(site, "sites")
    coarser = cells()
    answer = by_order(site, SAFE, "rollback", "sites", "--to", finer)
    assert answer.code == 4 and "12 records in other cells" in answer.err, answer.err
    assert cells() == coarser
    assert {h3.get_resolution(cell) for its in coarser.values() for cell in its} == {5}


def test_two_records_at_one_place_have_one_cell(site: Kfm) -> None:
    labels(label("source: sites.csv"))
    Path("mask.yml").write_text(
        MASK.replace(
            "{all: {name: point, metres: 10}}",
            "{column: note, classes: {gps: {name: point, metres: 10}, county: {name: county, metres: 35000}}}",
        )
    )
    rows = [
        f"14QX{n},camp,1950-06-01,{POINTS[n % 6][0]},{POINTS[n % 6][1]},{['gps', 'county'][n // 6]}" for n in range(12)
    ]
    Path("sites.csv").write_text("\n".join(["trinomial,kind,found,lat,lon,note", *rows]) + "\n")
    assert site("run", "sites").code == 0
    made = list(csv.DictReader(site("cat", "processed/sites", "all").out.splitlines()))
    assert len(made) == 12 and {row["resolution"] for row in made} == {"3"}
