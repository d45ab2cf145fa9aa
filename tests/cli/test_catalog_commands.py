"""`kfm catalog`, `kfm sinks` and `kfm reconcile` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Kfm

ITEM = Path("catalog/rain-gauges/items")


@pytest.fixture
def published(ran: Kfm) -> Kfm:
    assert ran("promote", "rain-gauges").code == 0
    return ran


def test_a_new_installation_has_a_catalog_that_says_what_is_published(published: Kfm) -> None:
    assert json.loads(Path("catalog/catalog.json").read_text())["stac_version"] == "1.1.0"
    (shown,) = published("catalog", "show", "--json").data
    assert shown["dataset"] == "rain-gauges" and shown["versions"] == 1
    assert Path("catalog", shown["path"]).is_file()
    collection = published("catalog", "show", "rain-gauges", "--json").data[0]
    assert collection["version"] == shown["version"]
    assert "current" in published("catalog", "show", "rain-gauges").out
    assert published("catalog", "show", "nobody").code == 3


def test_the_items_are_the_files_of_the_catalog_a_line_each(published: Kfm) -> None:
    lines = published("catalog", "show", "rain-gauges", "--items").out.splitlines()
    assert sorted(lines) == sorted(path.read_text() for path in ITEM.iterdir()) and len(lines) == 3
    Path("items.ndjson").write_text("\n".join(lines))
    assert published("catalog", "validate", "items.ndjson").out == "3 valid, 0 unchecked, 0 broken\n"
    answer = published("catalog", "show", "--items")
    assert answer.code == 3 and "--items is of one dataset" in answer.complaint
    assert published("rollback", "rain-gauges", "--to", "nothing", "--reason", "wrong").code == 0
    answer = published("catalog", "show", "rain-gauges", "--items")
    assert answer.code == 3 and "nothing of rain-gauges is published" in answer.complaint


def test_building_writes_what_is_missing_and_nothing_else(published: Kfm) -> None:
    built = published("catalog", "build", "--json").data
    assert built["written"] == built["removed"] == 0 and built["files"] > 5
    next(ITEM.iterdir()).unlink()
    assert published("catalog", "build", "--json").data["written"] == 1
    other = published("catalog", "build", "--out", "other", "--json").data
    assert other["written"] == other["files"] == built["files"]
    shutil.rmtree("other")


def test_drift_has_an_exit_code_and_can_be_repaired(published: Kfm) -> None:
    assert published("reconcile").code == 0
    lost, altered = sorted(ITEM.iterdir())[:2]
    lost.unlink()
    altered.write_text("{}")
    public = next(path for path in Path("public").rglob("*.csv"))
    public.unlink()
    found = published("reconcile", "--json")
    assert found.code == 3
    assert {(each["place"], each["what"]) for each in found.data["drift"]} == {
        ("catalog", "missing"), ("catalog", "altered"), ("public", "missing"),
    }  # fmt: skip
    repaired = published("reconcile", "--repair", "--json")
    assert (repaired.code, repaired.data["left"], len(repaired.data["drift"])) == (0, [], 3)
    assert published("reconcile").code == 0 and public.is_file() and lost.is_file()


@pytest.mark.parametrize("name", ["Old stuff", ".git", "con", "x" * 70])
def test_a_folder_that_no_dataset_can_have_is_left_alone(published: Kfm, name: str) -> None:
    folder = Path("catalog", name)
    folder.mkdir()
    (folder / "collection.json").write_text("{}")
    assert published("reconcile").code == 0 and published("catalog", "build").code == 0
    assert (folder / "collection.json").read_text() == "{}"


def test_a_sink_that_is_kept_fails_no_run_and_says_so_where_it_is_asked(published: Kfm) -> None:
    assert published("sinks").code == 0
    shutil.rmtree("catalog")
    Path("catalog").write_text("in the way")
    gone = published("rollback", "rain-gauges", "--to", "nothing", "--reason", "r")
    assert gone.code == 0, "the run is done; the outage is somebody else's"
    assert "catalog: cannot write the catalog" in gone.err
    kept = published("sinks", "--json")
    assert kept.code == 69 and kept.data[0]["lag"] == 1 and kept.data[0]["stopped"]["code"] == "storage.failed"
    assert published("sinks", "retry", "catalog").code == 74
    assert published("resume").code == 74
    Path("catalog").unlink()
    again = published("sinks", "retry", "catalog", "--json")
    assert (again.code, again.data["lag"], again.data["stopped"]) == (0, 0, None)
    assert published("sinks").code == 0 and published("reconcile").code == 0


def test_a_sink_that_is_not_there_is_refused(published: Kfm) -> None:
    assert published("sinks", "retry", "nobody").code == 3
    assert published("sinks", "retry").code == 3
    assert published("sinks", "again").code == 2


def test_without_the_setting_there_is_no_catalog_and_nothing_to_configure(ran: Kfm) -> None:
    file = Path("kfm.yml")
    file.write_text(file.read_text().replace("catalog: file:catalog\n", ""))
    shutil.rmtree("catalog", ignore_errors=True)
    assert ran("promote", "rain-gauges").code == 0
    assert not Path("catalog").exists() and ran("sinks", "--json").data == []
    assert ran("catalog", "build").code == 3
    assert ran("catalog", "build", "--out", "somewhere").code == 0 and Path("somewhere/catalog.json").is_file()
    assert ran("reconcile").code == 0
