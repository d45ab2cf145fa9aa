"""Leaks that happened elsewhere, and one false alarm, each tried here from the command line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import h3
import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import (
    IDS,
    MASK,
    POINTS,
    SAFE,
    SECRETS,
    dataset,
    every_byte,
    hits,
    installation,
    label,
    labels,
    table,
)

HOW = MASK.replace(
    "accuracy: {all: {name: point, metres: 10}}",
    "accuracy: {column: how, classes: {gps: {name: point, metres: 10}, county: {name: county, metres: 35000}}}",
)


def laid_out(rows: list[str], mask: str) -> None:
    installation(dataset("sites", "sites.csv", mask=True, sensitivity="public"))
    labels(label("source: sites.csv"))
    Path("sites.csv").write_text("\n".join(rows) + "\n")
    Path("mask.yml").write_text(mask)


def published() -> list[dict[str, str]]:
    bodies = [body for name, body in every_byte().items() if name.startswith("public/") and name.endswith(".csv")]
    return [row for body in bodies for row in csv.DictReader(io.StringIO(body.decode()))]


def publish(site: Kfm) -> None:
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    promoted = by_order(site, SAFE, "promote", "sites")
    assert promoted.code == 0, promoted.err


def test_a_record_that_says_withheld_withholds_it_in_every_export(site: Kfm) -> None:
    """Arctos#2268: the record said that information was withheld, and an aggregator had all of it."""
    laid_out(table().splitlines(), MASK)
    publish(site)
    rows = published()
    assert len(rows) == 12 and all(
        row["informationWithheld"].startswith("Withheld: the exact location") for row in rows
    )
    assert hits() == []
    for words in (
        ["runs", "receipt", "last", "--json"],
        ["runs", "wal", "last"],
        ["runs", "telemetry", "--stdout"],
    ):
        answer = site(*words)
        assert not [secret for secret in SECRETS if secret in answer.out + answer.err]


def test_a_record_with_an_exact_and_a_rough_row_is_shown_as_roughly_as_the_rougher(site: Kfm) -> None:
    """Arctos#5427: records had a public place and a private one, and both went out as two occurrences."""
    rows = ["trinomial,kind,found,lat,lon,note,how"]
    for name, (lat, lon) in zip(IDS, POINTS, strict=True):
        rows += [f"{name},camp,1950-01-01,{lat},{lon},private,gps", f"{name},camp,1950-01-01,{lat},{lon},public,county"]
    laid_out(rows, HOW)
    publish(site)
    shown: dict[str, set[str]] = {}
    for row in published():
        shown.setdefault(row["id"], set()).add(row["cell"])
    assert len(shown) == 12 and all(len(cells) == 1 for cells in shown.values())
    assert {h3.get_resolution(cell) for cells in shown.values() for cell in cells} == {3}
    assert hits() == []


def test_columns_next_to_the_place_do_not_reveal_it(site: Kfm) -> None:
    """documentation-wiki#130: masked coordinates left the locality in words; Arctos#2772: and so did what is beside it.
    Here a column is shown if it is listed, and free text if somebody read it."""
    rows = ["trinomial,kind,found,lat,lon,note,locality,sibling"]
    for n, (name, (lat, lon)) in enumerate(zip(IDS, POINTS, strict=True)):
        beside = f"see {IDS[n - 1]} at {lat}"
        rows.append(f"{name},camp,1950-01-01,{lat},{lon},x,3 miles north of the lone cottonwood,{beside}")
    laid_out(rows, MASK + "  locality: {kind: text}\n  sibling: {kind: text}\n")
    publish(site)
    assert {(row["locality"], row["sibling"]) for row in published()} == {("withheld", "withheld")}
    assert hits() == []


def test_a_consent_that_ran_out_closes_and_takes_back(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arctos#8597: the encumbrance had expired, and so everything was open."""
    laid_out(table().splitlines(), MASK)
    labels(label("source: sites.csv", expires="'2030-06-30'"))
    publish(site)
    assert published()
    monkeypatch.setenv("KFM_NOW", "2030-07-01T00:00:00Z")
    again = site("run", "sites", "--force", "--reason", "a new day")
    assert again.code == 4 and "label.expired" in again.err
    assert published() == []
    assert hits() == []


def test_hiding_a_place_does_not_hide_the_record(site: Kfm) -> None:
    """Arctos#5761: masked coordinates made whole records disappear. Here none is lost, and what is hidden is told."""
    rows = ["trinomial,kind,found,lat,lon,note,how"]
    rows += [f"{name},camp,1950-01-01,{lat},{lon},x,?" for name, (lat, lon) in zip(IDS, POINTS, strict=True)]
    rows[1] = rows[1].replace("?", "gps")  # if no record had a place, the columns of the policy would be wrong
    laid_out(rows, HOW)
    publish(site)
    shown = published()
    assert len({row["id"] for row in shown}) == 12
    hidden = [row for row in shown if row["cell"] == "withheld"]
    assert len(hidden) == 11 and {(row["kind"], row["found"]) for row in hidden} == {("camp", "1950s")}
    preview = site("mask", "preview", "sites.csv", "--mask", "mask.yml")
    assert "11 records are shown without a place" in preview.err


# ------------------------------------------------------------------------------------------------ attackers


def test_two_versions_together_say_no_more_than_one(site: Kfm) -> None:
    """A corrected coordinate across the edge of a cell: laid over each other, two cells would say where it is."""
    laid_out(table().splitlines(), MASK)
    publish(site)
    first = {row["id"]: row["cell"] for row in published()}
    lat, lon = POINTS[4]
    moved = f"{float(lat) + 0.15:.6f}"
    assert h3.latlng_to_cell(float(moved), float(lon), 6) != h3.latlng_to_cell(float(lat), float(lon), 6)
    Path("sites.csv").write_text(table().replace(lat, moved) + f"14QX999,camp,1999-01-01,38.123456,{lon},new\n")
    publish(site)
    shown: dict[str, set[str]] = {}
    for row in published():
        shown.setdefault(row["id"], set()).add(row["cell"])
    assert len(shown) == 13 and all(cells == {first[one]} for one, cells in shown.items() if one in first)
    assert hits([*SECRETS, moved, "14QX999"]) == []


def test_order_and_ids_do_not_follow_the_table(site: Kfm) -> None:
    """The same rows the other way round are the same bytes: nobody learns in which order the sites were entered."""
    laid_out(table().splitlines(), MASK)
    publish(site)
    rows = published()
    assert [row["cell"] for row in rows] == sorted(row["cell"] for row in rows)
    head, *body = table().splitlines()
    Path("sites.csv").write_text("\n".join([head, *reversed(body)]) + "\n")
    before = site("refs", "list", "processed/", "--json").data
    assert site("run", "sites").code == 0
    assert site("refs", "list", "processed/", "--json").data == before


def test_nothing_public_is_a_digest_of_what_is_protected(site: Kfm) -> None:
    """A digest of a short text can be tried out: of ids, points, rows and of the whole table none is anywhere."""
    import hashlib

    laid_out(table().splitlines(), MASK)
    publish(site)
    tried = [table(), *table().splitlines(), *IDS, *(f"{lat},{lon}" for lat, lon in POINTS)]
    tried += [f"state-sites{name}" for name in IDS] + [f"{lon} {lat}" for lat, lon in POINTS]
    left = b"\n".join(name.encode() + body for name, body in every_byte().items())
    for text in tried:
        for algorithm in ("md5", "sha1", "sha256"):
            digest = hashlib.new(algorithm, text.encode())
            assert digest.hexdigest()[:16].encode() not in left and digest.digest()[:12] not in left


def test_geography_next_to_the_cell_is_that_of_the_cell(site: Kfm) -> None:
    """There is no box, centre or county but the cell's: whatever is laid over whatever, the cell is left."""
    laid_out(table().splitlines(), MASK)
    publish(site)
    for row in published():
        assert float(row["coordinateUncertaintyInMeters"]) > 3000
        assert set(row) == {
            "id", "kind", "found", "cell", "resolution", "georeferenceAccuracy",
            "coordinateUncertaintyInMeters", "dataGeneralizations", "informationWithheld",
        }  # fmt: skip


def test_an_id_of_a_laboratory_that_joins_to_another_database_is_not_shown(site: Kfm) -> None:
    """It is a location by another name: a column that is not listed does not leave, whatever is in it."""
    rows = [line + (",labcode" if n == 0 else f",BETA-{7000 + n}") for n, line in enumerate(table().splitlines())]
    laid_out(rows, MASK)
    publish(site)
    assert hits([f"BETA-{7000 + n}" for n in range(1, 13)]) == []
