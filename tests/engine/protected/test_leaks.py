"""A protected table that is also declared as public is not published, in any format."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import (
    CONTRACT,
    SAFE,
    dataset,
    every_byte,
    hits,
    installation,
    label,
    labels,
    table,
)


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table())))


def other_line_ends() -> str:
    return table().replace("\n", "\r\n")


def some_columns() -> str:
    return "name,kind\n" + "".join(f"{row['trinomial']},{row['kind']}\n" for row in rows())


def only_points() -> str:
    return "y,x\n" + "".join(f"{row['lat']},{row['lon']}\n" for row in rows())


def rounded() -> str:
    return "y,x\n" + "".join(f"{float(row['lat']):.4f},{float(row['lon']):.4f}\n" for row in rows())


def as_geojson() -> str:
    features = [
        {
            "type": "Feature",
            "properties": {"kind": row["kind"]},
            "geometry": {"type": "Point", "coordinates": [float(row["lon"]), float(row["lat"])]},
        }
        for row in rows()
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


def known_again(site: Kfm, sensitivity: str) -> None:
    labels(label("source: sites.csv", sensitivity))
    installation(dataset("sites", "sites.csv", mask=True))
    assert site("run", "sites").code == 0


@pytest.mark.parametrize("sensitivity", ["generalised", "restricted"])
@pytest.mark.parametrize("form", [other_line_ends, some_columns, only_points, rounded, as_geojson])
def test_it_is_denied_when_it_is_run(site: Kfm, sensitivity: str, form: Callable[[], str]) -> None:
    known_again(site, sensitivity)
    Path("copy.csv").write_text(form(), newline="")
    installation(
        dataset("parks", "copy.csv", sensitivity="public").replace("format: csv\n" + CONTRACT, "format: text\n")
        if form is as_geojson
        else dataset("parks", "copy.csv", sensitivity="public")
    )
    ran = site("run", "parks")
    assert ran.code == 4 and "gate." in ran.err, ran.err
    assert not any(name.startswith("public/datasets/parks") for name in every_byte())
    assert site("promote", "parks").code != 0


def test_what_was_made_before_it_was_known_is_denied_when_it_is_promoted(site: Kfm) -> None:
    labels()
    Path("copy.csv").write_text(only_points())
    installation(dataset("parks", "copy.csv", sensitivity="public"), custodians=False)
    assert site("run", "parks").code == 0
    labels(label("source: sites.csv"))
    parks, sites = dataset("parks", "copy.csv", sensitivity="public"), dataset("sites", "sites.csv", mask=True)
    installation(parks, sites)
    assert site("run", "sites").code == 0
    promoted = by_order(site, SAFE, "promote", "parks")
    assert promoted.code == 4 and "gate.point: 12" in promoted.err, promoted.err
    assert not Path("public/datasets/parks").exists()


def test_without_the_key_nothing_can_be_compared_and_nothing_is_published(
    site: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels()
    Path("copy.csv").write_text("a,b\n1,2\n")
    parks, sites = dataset("parks", "copy.csv", sensitivity="public"), dataset("sites", "sites.csv", mask=True)
    installation(parks, custodians=False)
    assert site("run", "parks").code == 0
    installation(parks, sites)
    labels(label("source: sites.csv"))
    assert site("run", "sites").code == 0
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    promoted = by_order(site, SAFE, "promote", "parks")
    assert promoted.code == 4 and "which is missing" in promoted.err


def test_other_public_data_is_published_next_to_it(site: Kfm) -> None:
    known_again(site, "generalised")
    Path("copy.csv").write_text(
        "town,lat,lon\n" + "".join(f"t{n},{38 + n / 7:.4f},{-99 + n / 9:.4f}\n" for n in range(9))
    )
    installation(dataset("parks", "copy.csv", sensitivity="public"))
    assert site("run", "parks").code == 0
    promoted = by_order(site, SAFE, "promote", "parks")
    assert promoted.code == 0, promoted.err
    assert any(name.startswith("public/datasets/parks") for name in every_byte())


def test_cells_go_out_and_nothing_finer(site: Kfm) -> None:
    features = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {key: row[key] for key in ("trinomial", "kind", "found", "note")},
                "geometry": {"type": "Point", "coordinates": [float(row["lon"]), float(row["lat"])]},
            }
            for row in rows()
        ],
    }
    installation(
        dataset("sites", "sites.csv", mask=True, sensitivity="public").replace("format: csv", "format: geojson")
    )
    Path("sites.csv").write_text(json.dumps(features))
    mask = Path("mask.yml").read_text().replace("  latitude: lat\n  longitude: lon\n", "  geometry: true\n")
    Path("mask.yml").write_text(mask)
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    made = json.loads(site("cat", "processed/sites", "all").out)
    assert [one["properties"]["resolution"] for one in made["features"]] == [6] * 12
    promoted = by_order(site, SAFE, "promote", "sites")
    assert promoted.code == 0, promoted.err
    assert hits() == []
    assert any(name.startswith("public/datasets/sites") for name in every_byte())


def test_an_updater_that_wants_the_raw_source_gets_what_is_public(site: Kfm) -> None:
    Path("updaters.py").write_text(
        Path("updaters.py").read_text()
        + """

class Nosy(Copy):
    def perform(self, step, read):
        ref = read.inputs[0]
        found = [read.bytes(0), read.bytes("sites"), b"\\n".join(str(row).encode() for row in read.csv(0))]
        for name in (ref.content_hash, "raw/nosy/0", 1):
            try:
                found.append(read.bytes(name))
            except Exception as problem:
                found.append(str(problem).encode())
        try:
            found.append(read._objects.read(ref.content_hash))
        except Exception as problem:
            found.append(type(problem).__name__.encode())
        return Output(body=b"\\n".join(found), media_type="application/octet-stream")
"""
    )
    kept = Path("updaters.py").read_text()
    installation(dataset("nosy", "sites.csv", mask=True, updater="Nosy"))
    Path("updaters.py").write_text(kept)
    labels(label("source: sites.csv"))
    ran = site("run", "nosy")
    assert ran.code in (0, 4), ran.err  # sealed bytes are no text: the gate may say no to them
    assert hits() == []
