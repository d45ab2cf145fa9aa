"""The generated workflow, truly executed by `act` on this host: every step in its order, with stand-ins for actions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.abilities import lacking
from tests.app.runners import steps
from tests.app.runners.test_same import DAYS, SIGNING, Site, lived
from tests.policy.tools import Absent, built

# What the actions of others do, as far as the workflow needs it. A cache is a folder; its newest entry is brought back.
SETUP = """\
name: setup-python
inputs: {python-version: {required: true}}
runs: {using: composite, steps: [{shell: bash, run: 'echo "$STAND_INS/bin" >> "$GITHUB_PATH"'}]}
"""
RESTORE = """\
name: restore
inputs: {path: {required: true}, key: {required: true}, restore-keys: {required: false}}
runs:
  using: composite
  steps:
    - shell: bash
      run: |
        last=$(ls "$STAND_INS/cache" | sort -n | tail -1)
        [ -z "$last" ] || tar -xf "$STAND_INS/cache/$last"
"""
SAVE = """\
name: save
inputs: {path: {required: true}, key: {required: true}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {KEPT: '${{ inputs.path }}'}
      run: |
        there=""
        for path in $KEPT; do [ ! -e "$path" ] || there="$there $path"; done
        tar -cf "$STAND_INS/cache/$(ls "$STAND_INS/cache" | wc -l)" $there
"""
UPLOAD = """\
name: upload
inputs: {name: {required: true}, path: {required: true}, if-no-files-found: {required: false}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {FROM: '${{ inputs.path }}'}
      run: '[ ! -d "$FROM" ] || cp -r "$FROM" "$STAND_INS/uploaded/$(ls "$STAND_INS/uploaded" | wc -l)"'
"""
ACTIONS = {
    "actions/setup-python": {"action.yml": SETUP},
    "actions/cache": {"restore/action.yml": RESTORE, "save/action.yml": SAVE},
    "actions/upload-artifact": {"action.yml": UPLOAD},
}


class Github:
    """A repository with the installation in it, and the runner of GitHub, or nearly."""

    def __init__(self, folder: Path, act: Path) -> None:
        self.site = Site(folder)
        self.folder = folder
        self.act = act
        for name in ("cache", "uploaded"):
            (folder / name).mkdir()
        self.site.change(DAYS[0][1])
        self.site.kfm("runners", "write", "github")
        text = (self.site.folder / ".github/workflows/kfm.yml").read_text()
        self.local = []
        for action, files in ACTIONS.items():
            there = folder / "actions" / action
            for file, body in files.items():
                (there / file).parent.mkdir(parents=True, exist_ok=True)
                (there / file).write_text(body)
            commits = {line.split("@")[1].split()[0] for line in text.splitlines() if f"uses: {action}" in line}
            assert len(commits) == 1
            git(there, "init", "-q")
            git(there, "add", "-A")
            git(there, "commit", "-qm", "stand-in")
            self.local += ["--local-repository", f"{action}@{commits.pop()}={there}"]
        git(self.site.folder, "init", "-q")

    def wakes(self, now: str, event: str = "schedule", **inputs: str) -> subprocess.CompletedProcess[str]:
        git(self.site.folder, "add", "-A", "kfm.yml", ".github", "*.csv")
        git(self.site.folder, "commit", "-qm", "as it is", "--allow-empty")
        git(self.site.folder, "clean", "-qfdx")  # a machine of GitHub's knows nothing of the run before
        words = [str(self.act), event, "-P", "ubuntu-24.04=-self-hosted", "--pull=false", *self.local]
        for name, value in {**self.site.env, "KFM_NOW": now, "STAND_INS": str(self.folder)}.items():
            if name not in ("PATH", "HOME"):
                words += ["--env", f"{name}={value}"]
        words += ["--secret", f"KFM_SECRET_SIGNING={SIGNING}", "--no-cache-server"]
        for name, value in inputs.items():
            words += ["--input", f"{name}={value}"]
        return steps.done(words, self.site.folder, {**os.environ, "HOME": str(self.folder)})

    def brought_back(self) -> Site:
        """The newest of the cache, unpacked where the installation is."""
        last = max((self.folder / "cache").iterdir(), key=lambda path: int(path.name))
        subprocess.run(["tar", "-xf", str(last)], cwd=self.site.folder, check=True)
        return self.site


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def github(tmp_path: Path) -> Github:
    try:
        return Github(tmp_path, built("act"))
    except Absent as problem:
        lacking(str(problem))


@pytest.mark.long
def test_the_workflow_gives_the_same_versions_and_receipts(
    github: Github, tmp_path_factory: pytest.TempPathFactory, count: Any
) -> None:
    """A fresh machine each time: what it knows it knows from the cache. A day that fails keeps its state, too."""
    beside = Site(tmp_path_factory.mktemp("up"))
    codes = lived(beside, "up")
    found = []
    for now, files in DAYS:
        github.site.change(files)
        done = github.wakes(now)
        found.append(done.returncode)
        assert "Keep the state" in done.stdout, done.stdout + done.stderr
    assert [bool(code) for code in found] == [bool(code) for code in codes], found
    site = github.brought_back()
    site.kfm("promote", "rain", KFM_NOW="2026-06-06T00:00:00Z", KFM_SECRET_SIGNING=SIGNING)
    results, expected = site.results(), beside.results()
    for what, said in expected.items():
        assert results[what] == said, what
    uploaded = sorted((github.folder / "uploaded").iterdir())
    assert len(uploaded) >= len(DAYS) - 1 and all((each / "run.jsonl").exists() for each in uploaded)
    count("workflows executed by act", len(DAYS))


@pytest.mark.long
def test_one_dataset_is_run_by_hand_and_a_name_that_is_none_is_refused(github: Github) -> None:
    assert github.wakes(DAYS[0][0], "workflow_dispatch", dataset="counties").returncode == 0
    runs = {each["dataset"] for each in github.brought_back().runs()}
    assert runs == {"counties"}
    evil = github.wakes(DAYS[1][0], "workflow_dispatch", dataset="$(touch evil)")
    assert evil.returncode != 0 and "no name of a dataset" in evil.stdout
    assert not list(github.folder.rglob("evil"))
