"""An updater's version is a semantic version in both languages; runs that began under another one are finished."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.scheduling.triggers import keep, update_trigger
from tests.engine.installations import Installation
from tests.engine.site_under_test import folder_site, opened
from tests.node.sites import Site, declared

BAD = ["1", "1.0", "v1.0.0", "2026-01-05", "01.0.0", "1.0.0-", "latest"]
UPDATER = """
import os, signal
from kfm import Output, Plan, Step, Updater

class U(Updater):
    version = "VERSION"

    def inputs(self, trigger, sources):
        return [sources.pin("source")]

    def plan(self, inputs):
        return Plan([Step(id="a", key=("a",))])

    def perform(self, step, read):
        if os.environ.get("DIE_HERE"):
            os.kill(os.getpid(), signal.SIGKILL)
        return Output.text("a")
"""


def site(folder: Path, version: str) -> Installation:
    folder_site(folder, UPDATER.replace("VERSION", version), b"a\n1\n")
    return Installation(folder)


@pytest.mark.parametrize("runner", ["python", "node"])
@pytest.mark.parametrize("version", BAD)
def test_a_declared_dataset_of_another_version_is_not_run(tmp_path: Path, runner: str, version: str) -> None:
    text = declared("rain").replace('"1.0.0"', json.dumps(version))
    at = Site(tmp_path / "site", {"kfm.yml": text, "rain.csv": "mm\n1\n"}, lambda _n: runner)
    answer = at.run("run", "rain", code=3).answer
    assert f"kfm: rain: version '{version}' of updater rain is not a semantic version; write one like" in answer.err
    assert at.ref("processed/rain") == ""
    assert at.kfm("runs", "receipts", "--json").data == []


@pytest.mark.parametrize("runner", ["python", "node"])
@pytest.mark.parametrize("version", ["1.0.0", "0.1.0-rc.1+build.7"])
def test_one_of_a_semantic_version_is(tmp_path: Path, runner: str, version: str) -> None:
    text = declared("rain").replace('"1.0.0"', json.dumps(version))
    at = Site(tmp_path / "site", {"kfm.yml": text, "rain.csv": "mm\n1\n"}, lambda _n: runner)
    at.run("run", "rain")
    assert at.ref("processed/rain") != ""


def test_every_way_to_ask_for_a_run_of_python_code_says_so_and_doctor_too(tmp_path: Path) -> None:
    at = site(tmp_path, "1.0")
    for words in (["run"], ["run", "--dry-run"], ["plan"], ["plan", "--check"], ["run", "--force", "--reason", "r"]):
        answer = at.kfm(words[0], "demo", *words[1:], expect=3)
        assert "version '1.0' of updater demo is not a semantic version" in answer.err, words
    told = {row["check"]: row for row in at.kfm("doctor", "--json", expect=3).data["checks"]}
    assert not told["demo.updater"]["ok"] and "not a semantic version" in told["demo.updater"]["found"]


def test_a_run_that_was_begun_under_another_version_is_finished(tmp_path: Path) -> None:
    at = site(tmp_path, "7")
    child = os.fork()
    if child == 0:  # as an earlier program did, which took any version
        os.environ["DIE_HERE"] = "1"
        try:
            with opened(tmp_path / "kfm.yml") as session:
                run_trigger(
                    session, update_trigger(dataset_updater(session, "demo"), "demo", session.clock, actor="earlier")
                )
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    (unfinished,) = at.kfm("runs", "list", "--json").data
    assert unfinished["status"] == "RUNNING"
    assert "`kfm resume`" in at.kfm("run", "demo", expect=3).err
    at.kfm("resume")
    (ended,) = at.kfm("runs", "list", "--json").data
    assert (ended["run"], ended["status"]) == (unfinished["run"], "SUCCESS")


def test_a_trigger_that_was_kept_under_another_version_is_answered(tmp_path: Path) -> None:
    at = site(tmp_path, "7")
    with opened(tmp_path / "kfm.yml") as session:
        keep(session.state, update_trigger(dataset_updater(session, "demo"), "demo", session.clock, actor="earlier"))
    at.kfm("resume")
    assert [row["ref"] for row in at.kfm("refs", "list", "--json").data if row["ref"] == "processed/demo"]
