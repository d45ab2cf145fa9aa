"""Maintenance leaves a record: who changed which files besides the runs, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Kfm

ITEMS = Path("catalog/rain-gauges/items")


def last(kfm: Kfm) -> dict[str, Any]:
    """The newest receipt."""
    found: dict[str, Any] = kfm("runs", "receipt", "last", "--json").data
    return found


def entries(kfm: Kfm) -> int:
    return len(kfm("runs", "receipts", "--json").data)


def test_a_repair_of_public_files_leaves_a_receipt_with_actor_and_reason(ran: Kfm) -> None:
    file = next(path for path in Path("public").rglob("*.csv"))
    whole = file.read_bytes()
    file.write_text("altered")
    why = ("--reason", "a disk was replaced", "--actor", "mia")
    assert ran("reconcile", "rain-gauges", "--repair", *why).code == 0
    assert file.read_bytes() == whole
    receipt = last(ran)
    assert (receipt["job_type"], receipt["dataset"]) == ("operation.repair", "rain-gauges")
    assert (receipt["outcome"], receipt["actor"], receipt["reason"]) == ("done", "mia", "a disk was replaced")
    (move,) = receipt["moves"]
    assert move["ref"] == "maintenance/repair"
    report = json.loads(ran("cat", move["after"]).out)
    assert report["differences"] == [{"place": "public", "dataset": "rain-gauges", "what": "altered", "count": 1}]
    assert [path.rpartition("/")[2] for path in report["files"]] == [file.name]
    assert ran("doctor", "--deep").code == 0


def test_a_repair_of_everything_leaves_one_receipt_and_none_if_nothing_differs(
    ran: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KFM_REASON")
    before = entries(ran)
    assert ran("reconcile", "--repair").code == 0
    assert entries(ran) == before
    next(ITEMS.iterdir()).unlink()
    next(path for path in Path("public").rglob("*.csv")).unlink()
    assert ran("reconcile", "--repair").code == 0
    assert entries(ran) == before + 1
    receipt = last(ran)
    assert (receipt["job_type"], receipt["dataset"]) == ("operation.repair", "global")
    assert receipt["reason"] == "what differs from the refs is repaired"
    assert ran("reconcile", "--json").data["drift"] == []
    assert ran("sinks", "--json").data[0]["lag"] == 0


def test_compaction_leaves_a_receipt_and_none_if_there_is_nothing_to_archive(ran: Kfm) -> None:
    assert ran("runs", "compact", "--json").data == {"archived_runs": 2}
    assert last(ran)["job_type"] == "operation.compact"
    before = entries(ran)
    assert ran("runs", "compact", "--json").data == {"archived_runs": 0}
    assert entries(ran) == before
    assert ran("doctor", "--deep").code == 0
    assert ran("reconcile").code == 0


def test_a_catalog_that_is_built_leaves_an_entry_that_no_sink_follows(ran: Kfm) -> None:
    before, (sink,) = entries(ran), ran("sinks", "--json").data
    assert ran("catalog", "build").code == 0
    assert entries(ran) == before  # nothing changed
    next(ITEMS.iterdir()).unlink()
    assert ran("catalog", "build", "--json").data["written"] == 1
    assert entries(ran) == before + 1
    assert last(ran)["job_type"] == "operation.catalog"
    assert ran("sinks", "--json").data == [sink]
    assert ran("catalog", "build", "--json").data["written"] == 0
    assert entries(ran) == before + 1


def test_a_catalog_that_is_built_elsewhere_is_an_export_and_leaves_no_entry(ran: Kfm) -> None:
    before = entries(ran)
    assert ran("catalog", "build", "--out", "elsewhere", "--json").data["written"] > 5
    assert entries(ran) == before


def test_a_sink_that_is_notified_again_leaves_an_entry_that_no_sink_follows(ran: Kfm) -> None:
    before = entries(ran)
    assert ran("sinks", "retry", "catalog").code == 0
    assert entries(ran) == before  # it had everything
    catalog = Path("catalog")
    catalog.rename("kept")
    catalog.write_text("in the way")
    assert ran("rollback", "rain-gauges", "--to", "nothing", "--reason", "wrong").code == 0
    assert ran("sinks", "--json").data[0]["lag"] == 1
    catalog.unlink()
    Path("kept").rename(catalog)
    assert ran("sinks", "retry", "catalog", "--reason", "the folder is back").code == 0
    receipt = last(ran)
    assert (receipt["job_type"], receipt["reason"]) == ("operation.sinks", "the folder is back")
    assert entries(ran) == before + 2  # the rollback, and this
    assert ran("sinks", "--json").data[0]["lag"] == 0
    assert ran("sinks", "retry", "catalog").code == 0
    assert entries(ran) == before + 2
