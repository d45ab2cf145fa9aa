"""`validate.qa_dataset`: the report counts, a missed threshold holds the run, and no value is quoted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.derived_jobs.conftest import PLACES, REPORT, Run, body, derived, written
from tests.cli.conftest import Kfm
from tests.sampling import sampled

HEAD = """\
kfm: 1
datasets:
  days:
    version: "1.0.0"
    title: x
    license: CC0-1.0
    sensitivity: public
    sources: {days: {uri: days.csv, format: csv, contract: {shrink_limit: 1}}}
    outputs: {days: {from: days}}
"""
DAYS = "id,day,mm\nsecret-a,2026-01-01,1\nsecret-b,2026-01-03,2\nsecret-b,2026-01-02,\n"


def report(parameters: str) -> None:
    written(derived("report", "validate.qa_dataset", parameters, "{days: {dataset: days}}"), head=HEAD)


@pytest.fixture
def days(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    monkeypatch.setenv("KFM_NOW", "2026-01-10T00:00:00Z")
    Path("days.csv").write_text(DAYS)
    report("")
    assert kfm("run", "days").code == 0
    return kfm


def test_the_report_of_real_wells_passes_and_says_what_it_found(wells: Kfm, run: Run) -> None:
    receipt = run("well-report")
    assert (receipt["status"], receipt["job_type"]) == ("SUCCESS", "validate.qa_dataset")
    said = json.loads(body("processed/well-report", "report"))
    rows = len(Path("wells.csv").read_text().splitlines()) - 1
    assert (said["rows"], said["passed"], said["masked"]) == (rows, True, False)
    assert said["version"] == next(i["checksum"] for i in receipt["inputs"])
    assert {check["check"] for check in said["checks"]} == {"rows", "duplicates", "outside_range", "outside_extent"}
    assert said["columns"]["KID"] == 0


MISSED = {
    "min_rows: 4": "rows is 3, the threshold 4",
    "max_null_share: {mm: 0.2}": "null_share of 'mm' is 0.333333, the threshold 0.2",
    "key: [id]": "duplicates is 1, the threshold 0",
    "ranges: {mm: {maximum: 1}}": "outside_range of 'mm' is 1, the threshold 0",
    "ranges: {id: {minimum: 0}}": "outside_range of 'id' is 3, the threshold 0",
    "newest: {column: day, days: 6}": "newest_age_days of 'day' is 7, the threshold 6",
    "newest: {column: mm, days: 6}": "newest_age_days of 'mm' is",
    "extent: [-102, 37, -94, 40]": "outside_extent is 0, the threshold 0",
}


@pytest.mark.parametrize("parameters", sampled(MISSED, 3))
def test_a_missed_threshold_holds_the_run_and_its_receipt_says_which(days: Kfm, run: Run, parameters: str) -> None:
    report(parameters)
    receipt = run("report")
    assert (receipt["status"], receipt["outcome"]) == ("FAILED", "held")
    assert MISSED[parameters] in receipt["errors"][0]["message"]
    assert "secret" not in json.dumps(receipt) and receipt["outputs"] == []


PASSED = [
    "min_rows: 3", "max_null_share: {mm: 0.34}", "key: [id, day]", "key: [id], max_duplicates: 1",
    "ranges: {mm: {minimum: 1, maximum: 2}}", "newest: {column: day, days: 7}",
]  # fmt: skip


@pytest.mark.parametrize("parameters", sampled(PASSED, 3))
def test_a_threshold_that_is_just_met_passes(days: Kfm, run: Run, parameters: str) -> None:
    report(parameters)
    assert run("report")["outcome"] == "done"
    assert b"secret" not in body("processed/report", "report")


def test_a_report_that_passed_stays_when_the_next_one_is_held(days: Kfm, run: Run) -> None:
    report("max_null_share: {mm: 0.4}")
    run("report")
    before = body("processed/report", "report")
    Path("days.csv").write_text(DAYS + "secret-c,2026-01-04,\n")
    run("days")
    assert run("report")["outcome"] == "held"
    assert body("processed/report", "report") == before
    assert days("status").code == 0


def test_a_column_that_is_not_there_is_refused(days: Kfm, run: Run) -> None:
    report("max_null_share: {depth: 0}")
    assert "no column 'depth'" in run("report")["errors"][0]["message"]


def test_rows_of_the_wells_in_another_order_give_the_same_counts(wells: Kfm, run: Run) -> None:
    run("well-report")
    before = json.loads(body("processed/well-report", "report"))
    lines = Path("wells.csv").read_text().splitlines()
    Path("wells.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    run("wells")
    run("well-report")
    after = json.loads(body("processed/well-report", "report"))
    assert {**before, "version": ""} == {**after, "version": ""}
    assert REPORT and PLACES
