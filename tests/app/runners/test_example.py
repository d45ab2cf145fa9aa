"""The example installation that runs itself: every folder of its pipelines is what it says, and works."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Kfm
from tests.project.guides import ROOT

EXAMPLE = ROOT / "examples/orchestrated"
FOLDERS = {"schedules", "backfills", "runners", "policies", "templates", "examples"}


@pytest.fixture
def site(kfm: Kfm) -> Kfm:
    shutil.copytree(EXAMPLE, ".", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".kfm", "public"))
    return kfm


def test_its_pipelines_have_the_folders_that_orchestration_has(site: Kfm) -> None:
    assert {path.name for path in Path("pipelines").iterdir() if path.is_dir()} == FOLDERS
    assert all(any((Path("pipelines") / name).iterdir()) for name in FOLDERS)
    said = Path("pipelines/README.md").read_text()
    assert all(f"| [{name}](" in said for name in FOLDERS)


def test_its_gates_in_a_pull_request_are_green(site: Kfm) -> None:
    for words in (
        ("schedule", "check"),
        ("runners", "check"),
        ("policy", "test"),
        ("backfill", "plan", "before-we-began"),
    ):
        answer = site(*words)
        assert answer.code == 0, (words, answer)
    told = site("schedule", "next", "8", "--after", "2026-10-20T00:00:00Z")
    assert told.out == Path("pipelines/examples/next.txt").read_text()


def test_a_template_filled_in_means_something(site: Kfm) -> None:
    for kind, folder in (("schedule", "schedules"), ("backfill", "backfills")):
        text = Path(f"pipelines/templates/{kind}.yml").read_text()
        text = text.replace("  NAME:", "  mine:").replace("dataset: DATASET", "dataset: riley-drought")
        Path(f"pipelines/{folder}/mine.yml").write_text(text)
    checked = site("schedule", "check")
    assert checked.code == 0 and "mine: 30 6 * * * America/Chicago" in checked.out
    planned = site("backfill", "plan", "mine")
    assert planned.code == 0 and "partitions  12 (12 missing" in planned.out


def test_it_runs_by_its_schedule_makes_its_past_and_publishes_by_its_policies(
    site: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_NOW", "2026-10-20T00:00:00Z")
    assert site("up", "--once").code == 0
    monkeypatch.setenv("KFM_NOW", "2026-10-22T13:30:00Z")
    woken = site("up", "--once")
    assert woken.code == 0
    assert [line.split()[1:4] for line in woken.out.splitlines()] == [
        ["riley-drought", "SUCCESS", "done"],
        ["dry-weeks", "SUCCESS", "done"],
    ]
    started = site("backfill", "start", "before-we-began")
    assert started.code == 0, started
    assert "partitions  14 (0 missing, 0 stale, 14 done)" in site("backfill", "plan", "before-we-began").out
    assert site("promote", "dry-weeks").code == 0
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("license: CC-PDM-1.0", "license: KGS-public-record", 1))
    assert site("run", "riley-drought", "--force", "--reason", "another licence").code == 0
    denied = site("promote", "riley-drought")
    assert denied.code == 4 and "licence" in denied.err
