"""What starts each kind of job is what a dataset that reads another has always been started by; and a package brings
its own kind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.jobs import job_types as registry
from kfm.app.session.session import open_session
from kfm.config import load
from tests.app.derived_jobs.conftest import Run, body, derived, written
from tests.cli.conftest import Kfm


def kept_up() -> list[str]:
    """The datasets that the loop of `kfm up` runs until there is nothing to do, in this order."""
    found: list[str] = []
    with open_session(load("kfm.yml", os.environ)) as session:
        daemon = Daemon(session, sorted(session.config.datasets), lambda _name, _problem: None)
        for _ in range(20):
            receipts = list(daemon.turn(patient=False))
            found += [f"{each.dataset}: {each.outcome}" for each in receipts]
            if not receipts:
                return found
    raise AssertionError(found)


def test_a_new_version_starts_the_report_and_its_publication_tiles_and_index(wells: Kfm, run: Run) -> None:
    assert sorted(kept_up()) == ["well-index: done", "well-report: done", "well-tiles: done"]
    assert kept_up() == []
    lines = Path("wells.csv").read_text().splitlines()
    Path("wells.csv").write_text("\n".join(lines[:-1]) + "\n")
    assert run("wells")["outcome"] == "done"
    assert kept_up() == ["well-report: done"], "ingest was completed, and nothing was published"
    assert wells("publish", "wells").code == 0
    assert sorted(kept_up()) == ["well-index: done", "well-tiles: done"]
    assert wells("rollback", "wells").code == 0
    assert sorted(kept_up()) == ["well-index: done", "well-tiles: done"], "what was taken back is not indexed"


PACKAGE = """
from kfm import JobSettings, JobUpdater, Output, Plan, Step
from kfm.app.jobs.job_types import JobType


class CountSettings(JobSettings, frozen=True):
    least: int = 1


class Count(JobUpdater):
    version = "1.0.0"

    def plan(self, inputs):
        return Plan([Step(id="count", key=("count",), params={"least": self.parameters.least})])

    def perform(self, step, read):
        return Output.json(max(step.params["least"], sum(1 for _ in read.csv(0))))


COUNT = JobType(name="audit.count_rows", purpose="count", triggers="by hand", inputs="a table", outputs="a number",
                derived=True, updater="counting_package:Count", settings=CountSettings)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An installed package that brings a type of job."""
    site = tmp_path / "site"
    (site / "counting_package-1.0.dist-info").mkdir(parents=True)
    (site / "counting_package.py").write_text(PACKAGE)
    (site / "counting_package-1.0.dist-info/METADATA").write_text("Name: counting-package\nVersion: 1.0\n")
    named = "[kfm.jobs]\naudit.count_rows = counting_package:COUNT\n"
    (site / "counting_package-1.0.dist-info/entry_points.txt").write_text(named)
    monkeypatch.syspath_prepend(str(site))
    registry.job_types.cache_clear()
    yield site
    registry.job_types.cache_clear()
    sys.modules.pop("counting_package", None)


def test_a_package_brings_a_job_with_typed_parameters(package: Path, wells: Kfm, run: Run) -> None:
    written(derived("count", "audit.count_rows", "least: 3", "{rows: {dataset: wells}}"))
    receipt = run("count")
    assert (receipt["status"], receipt["job_type"]) == ("SUCCESS", "audit.count_rows"), receipt["errors"]
    assert int(body("processed/count", "count")) == len(Path("wells.csv").read_text().splitlines()) - 1
    assert "audit.count_rows" in wells("jobs", "types").out
    written(derived("count", "audit.count_rows", "most: 3", "{rows: {dataset: wells}}"))
    answer = wells("run", "count")
    assert answer.code == 3 and "kfm.yml:" in answer.err and "unknown key datasets.count.parameters.most" in answer.err
