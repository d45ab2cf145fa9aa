"""`kfm mask scan` searches files for protected places."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.protected import as_csv, as_geojson, laid_out
from tests.masking.sites import rows

from .conftest import Kfm, tree

AGAINST = ("--against", "sites.csv", "--mask", "mask.yml")


def test_a_folder_without_anything_protected_is_clean(kfm: Kfm) -> None:
    laid_out(40)
    Path("out").mkdir()
    Path("out/readme.txt").write_text("Cells of resolution 7, at 38 degrees north.\n")
    before = tree()
    answer = kfm("mask", "scan", "out", *AGAINST)
    assert answer.code == 0, answer.err
    assert "1 file" in answer.err and "nothing protected" in answer.err
    assert tree() == before


COPIES = ("the same bytes", "other line ends", "a column subset", "a GeoJSON", "fewer digits", "packed", "one id")


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_under_another_name_is_found(kfm: Kfm, name: str) -> None:
    sites = laid_out(40)
    table = rows(sites)
    short = [row | {"lat": f"{float(row['lat']):.3f}", "lng": f"{float(row['lng']):.3f}"} for row in table]
    copy = {
        "the same bytes": as_csv(table),
        "other line ends": as_csv(table, end="\r\n"),
        "a column subset": as_csv(table, "lng", "lat"),
        "a GeoJSON": as_geojson(table),
        "fewer digits": as_csv(short, "lat", "lng"),
        "packed": gzip.compress(as_csv(table)),
        "one id": b"The dig at 14-bo-4000 went well.\n",
    }[name]
    Path("out/deep").mkdir(parents=True)
    Path("out/deep/parcels.txt").write_bytes(copy)
    Path("out/fine.txt").write_text("nothing here\n")
    answer = kfm("mask", "scan", "out", *AGAINST, "--json")
    assert answer.code == 4
    assert answer.data["verdict"] == "deny" and answer.data["files"] == 2
    (found,) = answer.data["found"]
    assert found["file"] == "deep/parcels.txt" and found["verdict"] == "deny"
    assert all(leak["rule"].startswith("gate.") and leak["count"] > 0 for leak in found["leaks"])
    assert not [site for site in sites if site.trinomial in answer.out + answer.err]
    assert kfm("mask", "scan", "out/deep/parcels.txt", *AGAINST).code == 4


def test_a_name_is_scanned_and_not_repeated(kfm: Kfm) -> None:
    laid_out(40)
    Path("out/14BO4000").mkdir(parents=True)
    Path("out/14BO4000/map.txt").write_text("a map\n")
    Path("out/plain.txt").write_text("a map\n")
    answer = kfm("mask", "scan", "out", *AGAINST, "--json")
    assert answer.code == 4
    (found,) = answer.data["found"]
    assert found["leaks"] == [{"rule": "gate.name", "count": 1}]
    assert "14BO4000" not in answer.out + answer.err and "file 2" in found["file"]


def test_what_cannot_be_read_is_not_called_clean(kfm: Kfm) -> None:
    laid_out(5)
    Path("out").mkdir()
    Path("out/picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    Path("out/link.txt").symlink_to("/etc/hostname")
    answer = kfm("mask", "scan", "out", *AGAINST, "--json")
    assert answer.code == 4
    assert {one["file"]: one["leaks"][0]["rule"] for one in answer.data["found"]} == {
        "picture.png": "gate.unreadable",
        "link.txt": "gate.unreadable",
    }


def test_masked_records_are_clean(kfm: Kfm) -> None:
    laid_out(40)
    shown = kfm("mask", "preview", "sites.csv", "--mask", "mask.yml", "--rows", "0", "--json").data
    Path("cells.json").write_text(json.dumps([one["after"] for one in shown["records"]]))
    assert kfm("mask", "scan", "cells.json", *AGAINST).code == 0
    Path("all.json").write_text(json.dumps(shown["records"]))
    assert kfm("mask", "scan", "all.json", *AGAINST).code == 4


def test_without_anything_to_compare_with_nothing_is_called_clean(kfm: Kfm, started: Kfm) -> None:
    Path("out.txt").write_text("text\n")
    answer = started("mask", "scan", "out.txt")
    assert answer.code == 3 and "--against" in answer.complaint
    for words in (["mask", "scan", "nowhere", *AGAINST], ["mask", "scan", "out.txt", "--against", "out.txt"]):
        answer = kfm(*words)
        assert answer.code == 3 and answer.complaint
