"""The generated workflow is valid, safe, means what it says, and its commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kfm import config
from kfm.app.runs.run_exports import github_workflow
from kfm.errors import BadInput
from kfm.projections.runners.github_workflow import workflow
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[3]
TOOLS = Path(sys.executable).parent


def written(*datasets: str, releases: bool = False) -> str:
    return workflow(datasets, cron="17 * * * *", package="kansas-frontier-matrix==0.1.0", writes_releases=releases)


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(TOOLS / name), *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("releases", sampled([True, False]))
def test_it_is_what_github_takes_and_an_auditor_finds_nothing(tmp_path: Path, releases: bool) -> None:
    path = tmp_path / ".github/workflows/updater.yml"
    path.parent.mkdir(parents=True)
    path.write_text(written("wells", "noaa-stations", releases=releases))
    checked = tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(path))
    assert checked.returncode == 0, checked.stdout
    audited = tool("zizmor", "--offline", str(path))
    assert audited.returncode == 0 and "No findings" in audited.stdout + audited.stderr, audited.stdout


def test_an_auditor_would_find_something(tmp_path: Path) -> None:
    path = tmp_path / ".github/workflows/updater.yml"
    path.parent.mkdir(parents=True)
    worse = written("wells").replace('"$ONLY" --artifacts', "${{ github.event.client_payload.dataset }} --artifacts")
    assert worse != written("wells")
    path.write_text(worse)
    assert tool("zizmor", "--offline", str(path)).returncode != 0


def test_every_action_is_pinned_to_a_commit() -> None:
    found = re.findall(r"uses: (\S+) # (v\S+)", written("wells"))
    assert len(found) == written("wells").count("uses:") == 5
    assert all(re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40}", uses) for uses, _ in found)


def test_nothing_in_a_name_becomes_structure() -> None:
    for name in ("a\nb", "a: b", "${{ secrets.X }}", "A", "", "-a", "a" * 64, "a.b", "'", '"', "#", "é"):
        with pytest.raises(BadInput):
            written(name)
    for cron in ("* * * *", "* * * * * *", "* * * * *\n- evil", "@daily", "$(x) * * * *"):
        with pytest.raises(BadInput):
            workflow(["a"], cron=cron, package="x", writes_releases=False)
    parsed = yaml.safe_load(written("null", "true", "1e3"))
    assert parsed["on"]["schedule"] == [{"cron": "17 * * * *"}]


@pytest.mark.parametrize(
    "cron",
    [
        "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * 0 *", "* * * * 7", "*/0 * * * *",
        "5-1 * * * *", "1- * * * *", ", * * * *", "1,,2 * * * *", "--- * * * *", "* * * * 1-9", "0 0 30 2 *",
        "0 0 31 4,6,9,11 *", "  * * * *", "1/ * * * *", "**/2 * * * *", "111 * * * *",
    ],
)  # fmt: skip
def test_a_timetable_that_cannot_be_is_refused(cron: str) -> None:
    with pytest.raises(BadInput, match="--cron"):
        workflow(["a"], cron=cron, package="x", writes_releases=False)


@pytest.mark.parametrize(
    "cron", ["17 * * * *", "*/5 0-6 1,15 */2 1-5", "0 0 29 2 *", "0 0 31 2 1", "20/15 * * * *", "0 0 31 1,2 *"]
)
def test_a_timetable_that_can_be_is_taken(cron: str) -> None:
    written = yaml.safe_load(workflow(["a"], cron=cron, package="x", writes_releases=False))
    assert written["on"]["schedule"] == [{"cron": cron}]


def test_the_example_is_what_is_written_for_it() -> None:
    resolved = config.load(str(ROOT / "examples/config.example.yml"), {})
    assert (ROOT / "examples/cron.yml").read_text() == github_workflow(resolved, "17 * * * *")


def filled_in(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)


def test_there_is_one_job_over_one_state_and_it_is_kept_whatever_becomes_of_the_run() -> None:
    parsed = yaml.safe_load(written("wells", "noaa-stations"))
    (job,) = parsed["jobs"].values()
    assert "strategy" not in job and parsed["concurrency"] == {"group": "updater", "cancel-in-progress": False}
    steps = {step.get("name", step.get("uses", "")): step for step in job["steps"]}
    order = list(steps)
    restore, save = steps["Bring back the state"], steps["Keep the state"]
    assert restore["with"]["path"] == save["with"]["path"] == ".kfm"
    assert restore["with"]["key"] == save["with"]["key"] and save["with"]["key"].startswith(
        restore["with"]["restore-keys"]
    )
    assert save["if"] == "always()" and "if" not in steps["Update"]
    assert order.index("Bring back the state") < order.index("Update") < order.index("Keep the state")
    assert "/save@" in save["uses"] and "/restore@" in restore["uses"], "the action that does both saves only a success"


@pytest.mark.parametrize(
    "only", sampled(["", "$(touch evil)", "--help", "rain-gauges", "another", "a b", "../x"], keep=3)
)
def test_its_commands_run(tmp_path: Path, only: str) -> None:
    runs = only in ("", "rain-gauges")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "kfm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kfm.cli.main "$@"\n')
    (tools / "python").write_text("#!/bin/sh\n")  # what is installed there is installed here already
    for name in ("kfm", "python"):
        (tools / name).chmod(0o755)
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    base = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(output),
        "KFM_ACCEPT_WEAK_STORAGE": "true",
    }
    subprocess.run([str(tools / "kfm"), "init", "site"], cwd=tmp_path, env=base, check=True, capture_output=True)
    done = subprocess.run(
        [str(tools / "kfm"), "runners", "workflow"], cwd=tmp_path / "site", env=base, check=True, capture_output=True
    )
    steps: list[dict[str, Any]] = yaml.safe_load(done.stdout)["jobs"]["update"]["steps"]
    values = {"inputs.dataset || github.event.client_payload.dataset": only}
    for step in steps:
        if "run" in step:
            env = {**base, **{name: filled_in(text, values) for name, text in step.get("env", {}).items()}}
            ran = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path / "site", env=env, capture_output=True)
            assert (ran.returncode == 0) == (runs or step["name"] != "Update"), ran.stderr
    assert (tmp_path / "site/artifacts/run.jsonl").exists() == runs
    assert summary.exists() == output.exists() == runs
    if runs:
        assert "| `rain-gauges` | SUCCESS | done |" in summary.read_text()
        lines = dict(line.split("=", 1) for line in output.read_text().splitlines())
        assert (lines["changed"], lines["datasets"]) == ("true", "rain-gauges")
