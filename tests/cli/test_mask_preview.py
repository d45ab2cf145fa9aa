"""`kfm mask preview` shows a steward what the public would see, next to the protected records."""

from __future__ import annotations

import json
import os
import stat
import xml.etree.ElementTree
from pathlib import Path

import h3
import pytest

from tests.cli.protected import KEY, POLICY, as_csv, as_geojson, laid_out
from tests.masking.sites import rows

from .conftest import Kfm, tree

SVG = "{http://www.w3.org/2000/svg}"


def test_before_and_after_stand_side_by_side(kfm: Kfm) -> None:
    sites = laid_out()
    before = tree()
    answer = kfm("mask", "preview", "sites.csv", "--mask", "mask.yml")
    assert answer.code == 0, answer.err
    assert "protected data" in answer.err and "throw-away key" in answer.err
    for site in sites[:10]:
        (line,) = (line for line in answer.out.splitlines() if site.trinomial in line.split())
        assert h3.latlng_to_cell(site.latitude, site.longitude, 7) in line
        assert repr(site.latitude) in line
    assert "12 records in" in answer.err
    assert tree() == before


def test_each_column_is_shown_with_its_result_and_the_reason(kfm: Kfm) -> None:
    laid_out()
    data = kfm("mask", "preview", "sites.csv", "--mask", "mask.yml", "--rows", "0", "--json").data
    columns = {one["column"]: one for one in data["columns"]}
    assert columns["trinomial"]["published"] == columns["lat"]["published"] == columns["landowner"]["published"] == ""
    assert columns["dug"] == {
        "column": "dug", "published": "excavated", "changed": 12, "withheld": 0, "why": "mask.date",
    }  # fmt: skip
    assert columns["notes"]["withheld"] == 12 and columns["notes"]["why"] == "mask.text-unreviewed"
    assert columns["landowner"]["why"] == "mask.column-unlisted"
    assert len(data["records"]) == 12
    first = data["records"][0]
    assert first["before"]["trinomial"] == "14BO4000" and first["after"]["excavated"] == first["before"]["dug"][:4]
    assert "14BO4000" not in json.dumps(first["after"])
    assert data["hidden"]["records"] == 12 and data["hidden"]["without_location"] == 0
    assert data["publishable"] is None  # no labels were asked


def test_ids_are_those_of_the_run_if_its_key_is_given(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(3)
    monkeypatch.setenv("KFM_SECRET_SOCIETY", KEY)
    words = ["mask", "preview", "sites.csv", "--mask", "mask.yml", "--json"]
    ids = [
        [one["after"]["id"] for one in kfm(*words, *more).data["records"]]
        for more in ([], [], ["--key", "env:KFM_SECRET_SOCIETY"], ["--key", "env:KFM_SECRET_SOCIETY"])
    ]
    assert ids[0] != ids[1] and ids[2] == ids[3]
    answer = kfm(*words, "--key", "env:KFM_SECRET_SOCIETY")
    assert "throw-away" not in answer.err and KEY not in answer.out + answer.err


def test_the_effect_of_the_labels_is_shown_too(kfm: Kfm) -> None:
    laid_out(3)
    words = ["mask", "preview", "sites.csv", "--mask", "mask.yml", "--labels", "labels.yml", "--json"]
    none = kfm(*words)
    assert none.code == 0 and none.data["publishable"] is False and none.data["rules"] == ["label.missing"]
    assert "would not be published" in none.err
    coarse = Path("labels.yml").read_text().replace("public_resolution: 7", "public_resolution: 5")
    Path("labels.yml").write_text(coarse)
    said = kfm(*words, "--dataset", "sites").data
    assert said["publishable"] is True and said["resolution"] == 5
    assert {one["after"]["resolution"] for one in said["records"]} == {5}
    Path("labels.yml").write_text(coarse.replace("2027-06-30", "2020-06-30"))
    assert "label.expired" in kfm(*words, "--dataset", "sites").data["rules"]


def test_the_picture_shows_points_and_cells_and_is_for_its_owner_alone(kfm: Kfm) -> None:
    laid_out()
    answer = kfm("mask", "preview", "sites.csv", "--mask", "mask.yml", "--out", "picture.svg")
    assert answer.code == 0, answer.err
    path = Path("picture.svg")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    root = xml.etree.ElementTree.fromstring(path.read_text())
    kinds = [one.get("class") for one in root.iter()]
    assert kinds.count("point") == 12 and kinds.count("cell") >= 10
    assert "protected" in "".join(root.itertext())
    assert not [word for word in ("http:", "href", "script", "url(") if word in path.read_text().replace(SVG[1:-1], "")]
    # Every point lies inside one of the cells that are drawn.
    cells = [
        [tuple(map(float, pair.split(","))) for pair in (one.get("points") or "").split()]
        for one in root.iter(f"{SVG}polygon") if one.get("class") == "cell"
    ]  # fmt: skip
    for one in root.iter(f"{SVG}circle"):
        if one.get("class") == "point":
            at = float(one.get("cx") or "nan"), float(one.get("cy") or "nan")
            assert any(inside(at, cell) for cell in cells)
    assert kfm("mask", "preview", "sites.csv", "--mask", "mask.yml", "--out", "picture.svg").code == 0


def inside(at: tuple[float, float], ring: list[tuple[float, ...]]) -> bool:
    x, y = at
    odd = False
    for (x1, y1), (x2, y2) in zip(ring, ring[1:] + ring[:1], strict=True):
        if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
            odd = not odd
    return odd


@pytest.mark.parametrize(
    "out", ["public/a.svg", ".kfm/artifacts/a.svg", ".kfm/a.svg", "link/a.svg", "a.html", "no/a.svg"]
)
def test_a_picture_is_not_written_where_others_look(started: Kfm, out: str) -> None:
    laid_out(3)
    for folder in ("public", ".kfm/artifacts"):
        os.makedirs(folder, exist_ok=True)
    os.symlink("public", "link")
    answer = started("mask", "preview", "sites.csv", "--mask", "mask.yml", "--out", out)
    assert answer.code == 3 and answer.complaint
    assert answer.out == ""
    assert not Path(out).exists()


def test_other_formats_are_read_and_what_masking_does_not_understand_is_refused(kfm: Kfm) -> None:
    sites = laid_out(4)
    table = rows(sites)
    Path("geometry.yml").write_text(POLICY.replace("  latitude: lat\n  longitude: lng\n", "  geometry: true\n"))
    Path("sites.geojson").write_bytes(as_geojson(table))
    Path("sites.json").write_text(json.dumps(table))
    Path("sites.ndjson").write_text("\n".join(json.dumps(row) for row in table))
    Path("sites.tsv").write_bytes(as_csv(table).replace(b"\t", b" ").replace(b",", b"\t"))
    for name, mask in (("geojson", "geometry"), ("json", "mask"), ("ndjson", "mask")):
        answer = kfm("mask", "preview", f"sites.{name}", "--mask", f"{mask}.yml", "--json")
        assert answer.code == 0, answer.err
        cells = [one["after"]["cell"] for one in answer.data["records"]]
        assert cells == [h3.latlng_to_cell(site.latitude, site.longitude, 7) for site in sites]
    Path("sites.shp").write_bytes(b"\0\0\x27\x0a")
    answer = kfm("mask", "preview", "sites.shp", "--mask", "mask.yml")
    assert answer.code == 3 and "csv" in answer.complaint


BROKEN = {
    "no such file": ("nowhere.csv", "mask.yml", "nowhere.csv"),
    "no such policy": ("sites.csv", "nowhere.yml", "nowhere.yml"),
    "a policy that is none": ("sites.csv", "labels.yml", "labels.yml"),
    "a table without the key": ("no-key.csv", "mask.yml", "trinomial"),
    "a row without an id": ("no-id.csv", "mask.yml", "row 2"),
    "a row too long": ("ragged.csv", "mask.yml", "ragged.csv"),
    "a table without rows": ("empty.csv", "mask.yml", "no rows"),
    "nothing at all": ("nothing.csv", "mask.yml", "no rows"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_said_without_a_value(kfm: Kfm, name: str) -> None:
    sites = laid_out(3)
    table = rows(sites)
    Path("no-key.csv").write_bytes(as_csv(table, "lat", "lng"))
    Path("no-id.csv").write_bytes(as_csv([table[0], table[1] | {"trinomial": ""}]))
    Path("ragged.csv").write_bytes(as_csv(table) + b"a,b\n")
    Path("empty.csv").write_bytes(as_csv(table).splitlines(True)[0])
    Path("nothing.csv").write_bytes(b"")
    file, mask, said = BROKEN[name]
    answer = kfm("mask", "preview", file, "--mask", mask)
    assert answer.code == 3
    assert said in answer.complaint
    assert not [site for site in sites if site.trinomial in answer.out + answer.err]


RECOGNISED = (
    POLICY.replace("step: 50", "step: 50, below_k: 5000").replace("resolution: 7", "resolution: 2")
    + "quasi_identifiers: [material, age]\n"
)


def test_it_measures_who_is_unique_by_cell_and_quasi_identifiers(kfm: Kfm) -> None:
    laid_out(60)
    words = ["mask", "preview", "sites.csv", "--mask", "mask.yml"]
    plain = kfm(*words, "--json")
    assert plain.data["groups"]["named"] is False and plain.data["groups"]["columns"][0] == "material"
    assert plain.data["groups"]["as_masked"] == plain.data["groups"]["published"]
    assert "name those under quasi_identifiers" in plain.err
    Path("mask.yml").write_text(RECOGNISED)
    groups = kfm(*words, "--json").data["groups"]
    assert groups["columns"] == ["material", "age"] and groups["k"] == 5
    assert groups["as_masked"]["unique"] > 20 and groups["published"]["unique"] == 0
    assert groups["published"]["below_k"] == 0
    assert groups["coarser"] >= groups["as_masked"]["below_k"] and groups["difference"] is None
    said = kfm(*words)
    assert f"by cell, material, age: {groups['as_masked']['unique']} records are unique" in said.err
    assert "values that fewer than k records of a cell share" in said.out


def test_it_measures_what_the_difference_to_the_published_version_reveals(
    kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out(60)
    Path("mask.yml").write_text(RECOGNISED)
    monkeypatch.setenv("KFM_SECRET_SOCIETY", KEY)
    words = ["mask", "preview", "sites.csv", "--mask", "mask.yml", "--rows", "0", "--json"]
    assert kfm(*words, "--before", "public.csv").code == 3
    words += ["--key", "env:KFM_SECRET_SOCIETY"]
    shown = [one["after"] for one in kfm(*words).data["records"]]
    Path("public.csv").write_bytes(as_csv(shown))
    words += ["--before", "public.csv"]
    same = kfm(*words).data
    assert same["groups"]["difference"] == dict.fromkeys(same["groups"]["difference"], 0)
    assert [one["after"] for one in same["records"]] == shown
    Path("public.csv").write_bytes(as_csv([*shown[2:], {**shown[0], "id": "0" * 32}]))
    told = kfm(*words)
    found = told.data["groups"]["difference"]
    assert (found["added"], found["removed"]) == (2, 1) == (found["added_below_k"], found["removed_below_k"])
    assert "3 of them came or went" in told.err
    Path("public.csv").write_bytes(as_csv([{"id": "0" * 32, "cell": "withheld"}]))
    assert "no column" in kfm(*words).err
