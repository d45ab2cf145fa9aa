"""The workflow for pull requests previews and reports what is opened, and publishes what is merged."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.app.previews.branches import CONFIG, Site, git, wells
from tests.app.runners.conftest import declare
from tests.app.runners.steps import kfm_at
from tests.app.runners.test_accepted import tool
from tests.cli.conftest import Kfm
from tests.sinks.github.standin import REPOSITORY, TOKEN, GitHub, github

FILE = Path(".github/workflows/kfm-pulls.yml")


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github() as hub:
        hub.pulls.required["main"] = ["kfm preview"]
        hub.pulls.approvals["main"] = 1
        yield hub


def repository(text: str) -> str:
    return f"github: {{repository: {REPOSITORY}}}\n" + text


def test_it_is_written_current_and_accepted_by_the_linter_of_github(kfm: Kfm) -> None:
    declare()
    Path("kfm.yml").write_text(repository(Path("kfm.yml").read_text()))
    answer = kfm("runners", "write", "github-pulls", "--json")
    assert [(each["file"], each["state"]) for each in answer.data] == [(str(FILE), "written")]
    assert kfm("runners", "check").out == f"{FILE}: current\n"
    linted = tool("actionlint", "-no-color", str(FILE))
    assert (linted.returncode, linted.stdout) == (0, ""), linted
    said = FILE.read_text()
    assert "secrets.KFM_SECRET_SIGNING" in said and "secrets.GITHUB_TOKEN" not in said
    on = yaml.safe_load(said.replace("\non:", "\n'on':"))["on"]
    assert on["pull_request"]["types"] == ["opened", "synchronize", "reopened"]
    assert on["pull_request_target"]["types"] == ["closed"]


def test_without_a_repository_it_is_refused_with_the_line_to_write(kfm: Kfm) -> None:
    declare()
    answer = kfm("runners", "write", "github-pulls")
    assert answer.code == 3 and "github: {repository: OWNER/NAME}" in answer.err


def job(site: Site, name: str, copy: Path, given: dict[str, str], now: str) -> subprocess.CompletedProcess[str]:
    """Do the work of one job of the file, as GitHub would: in a fresh checkout, with the state of the main branch."""
    (work,) = [step for step in jobs(site)[name]["steps"] if "NUMBER" in step.get("env", {})]
    git(site.above, "clone", "-q", str(site.bare), str(copy))
    git(copy, "checkout", "-q", given["ref"])
    for kept in (".kfm", "public"):
        if (site.folder / kept).exists():
            shutil.copytree(site.folder / kept, copy / kept)
    programs = kfm_at(site.above / "programs").parent
    env = {
        **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "KFM_NOW": now, "KFM_ACTOR": "github",
        "HOME": str(site.above), "GITHUB_TOKEN": TOKEN, "NUMBER": "7", "HEAD": given["head"],
        "MERGED": given.get("merged", ""),
    }  # fmt: skip
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", work["run"]]
    return subprocess.run(words, cwd=copy, env=env, capture_output=True, text=True, timeout=300, check=False)


def jobs(site: Site) -> dict[str, Any]:
    written = site.kfm("runners", "write", "github-pulls", "--stdout")
    assert written.code == 0, written
    return dict(yaml.safe_load(written.out)["jobs"])


@pytest.mark.long
def test_a_pull_request_is_previewed_reported_and_published_once_merged(hub: GitHub, tmp_path: Path) -> None:
    from tests.sinks.github.pulls import answer

    site = Site(tmp_path, f'github: {{api: "{hub.url}", repository: {REPOSITORY}}}\n' + CONFIG)
    hub.pulls.repository = site.bare
    site.published()
    before = site.refs()
    base = git(site.folder, "rev-parse", "HEAD").strip()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    head = site.commit("deeper")
    hub.pulls.pulls[7] = {
        "number": 7, "title": "deeper", "body": "", "draft": False, "state": "open", "head": "deeper", "base": "main",
        "merge_commit_sha": None, "merged_head": "", "user": {"login": "ann"}, "html_url": "",
    }  # fmt: skip
    done = job(site, "preview", tmp_path / "one", {"ref": base, "head": head}, "2026-03-05T00:00:00Z")
    assert done.returncode == 0, done
    assert (tmp_path / "one/report/report.md").exists()
    assert "every gate says yes" in next(iter(hub.pulls.comments.values()))["body"]
    hub.pulls.approve(7)
    assert answer(hub, REPOSITORY.partition("/")[0], "PUT", "/pulls/7/merge", {}, b"{}")[0] == 200
    merged = hub.pulls.pulls[7]["merge_commit_sha"]
    given = {"ref": merged, "head": head, "merged": merged}
    done = job(site, "publish", tmp_path / "two", given, "2026-03-07T00:00:00Z")
    assert done.returncode == 0, done
    site.folder = tmp_path / "two"
    after = site.refs()
    assert after["published/wells"] == after["processed/wells"] != before["published/wells"]
