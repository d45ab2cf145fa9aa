"""A run of either runner names its sinks as pending; a Python process that settles notifies them and completes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.node.sites import Site, declared

SINK = "openlineage.file"
CONFIG = f"catalog: file:catalog\nopenlineage: {{file: sink/events.ndjson}}\n{declared('rain')}"


def ran(folder: Path, runner: str) -> Site:
    site = Site(folder, {"kfm.yml": CONFIG, "rain.csv": "mm\n1.25\n", "sink": "in the way\n"}, lambda _n: runner)
    site.run("run", "rain")
    return site


def lineage(site: Site, run: str) -> list[tuple[str, str]]:
    records = map(json.loads, site.kfm("runs", "wal", run).out.splitlines())
    return [(each["step_id"], each["status"]) for each in records if each["phase"] == "LINEAGE"]


def test_a_run_of_node_is_pending_until_python_has_notified_its_sinks(tmp_path: Path) -> None:
    site = ran(tmp_path / "site", "node")
    run = site.kfm("runs", "list", "--json").data[0]["run"]
    begun = [("", "IN_PROGRESS"), ("catalog", "PENDING"), (SINK, "PENDING")]
    assert lineage(site, run) == begun
    assert [each["sink"] for each in site.kfm("status", "--json").data["pending"]] == ["catalog", SINK]
    site.kfm("resume", code=None)
    (site.folder / "sink").unlink()
    site.kfm("sinks", "retry", SINK)
    assert lineage(site, run) == [*begun, ("catalog", "DONE"), (SINK, "DONE"), ("", "DONE")]
    found = site.kfm("runs", "show", run, "--json").data
    assert found["pending"] is None and [each["sink"] for each in found["completion"]["followed"]] == ["catalog", SINK]


def test_both_runners_write_the_same_record_of_a_pending_run(tmp_path: Path) -> None:
    rows = {runner: ran(tmp_path / runner / "site", runner).seen[0].rows["outbox"] for runner in ("node", "python")}
    name = "pending/000000000001"
    one, other = (json.loads(rows[runner][name]) for runner in ("node", "python"))
    assert [each["sink"] for each in other.pop("followed")] == ["catalog"] and one.pop("followed") == []
    assert one == other and one["sinks"] == ["catalog", SINK]


@pytest.mark.parametrize("runner", ["node", "python"])
def test_a_quarantined_run_of_either_runner_leaves_a_record(runner: str, tmp_path: Path) -> None:
    site = ran(tmp_path / "site", runner)
    site.put("rain.csv", "")
    site.run("run", "rain", code=None)
    (record,) = map(json.loads, site.kfm("runs", "wal", "last").out.splitlines())
    assert (record["phase"], record["status"], record["payload"]["outcome"]) == ("PLAN", "FAILED", "held")
    assert record["payload"] == {"code": "source.held", "outcome": "held", "stage": "QUARANTINE"}


def test_a_run_of_node_leaves_the_pages_and_the_catalog_of_the_default_to_python(tmp_path: Path) -> None:
    by_default = declared("rain").encode()  # as text the site would leave both out
    site = Site(tmp_path / "site", {"kfm.yml": by_default, "rain.csv": "mm\n1.25\n"}, lambda _n: "node")
    site.run("run", "rain")
    run = site.kfm("runs", "list", "--json").data[0]["run"]
    assert lineage(site, run)[:3] == [("", "IN_PROGRESS"), ("catalog", "PENDING"), ("pages", "PENDING")]
    assert not (site.folder / "public/index.html").exists()
    site.kfm("resume", code=None)
    assert lineage(site, run)[-1] == ("", "DONE")
