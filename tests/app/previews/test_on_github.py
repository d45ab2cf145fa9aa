"""Previews on GitHub: a check on exactly the commit, one comment, and the approvals of people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.previews.branches import CONFIG, Site, wells
from tests.engine.installations import Answer
from tests.sinks.github.standin import REPOSITORY, TOKEN, GitHub, github

CHECK = "kfm preview"


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github() as hub:
        hub.pulls.required["main"] = [CHECK]
        hub.pulls.approvals["main"] = 1
        yield hub


def opened(hub: GitHub, folder: Path) -> tuple[Site, int]:
    said = f'github: {{api: "{hub.url}", repository: {REPOSITORY}}}\n'
    site = Site(folder, said + CONFIG)
    hub.pulls.repository = site.bare
    site.published()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    site.replace("kfm.yml", "    title: Wells\n    license: CC-PDM-1.0\n", "    title: Wells\n")
    site.commit("deeper, and no licence")
    hub.pulls.pulls[7] = {
        "number": 7, "title": "deeper", "body": "", "draft": False, "state": "open", "head": "deeper", "base": "main",
        "merge_commit_sha": None, "merged_head": "", "user": {"login": "ann"}, "html_url": "",
    }  # fmt: skip
    return site, 7


def kfm(site: Site, *words: str) -> Answer:
    return site.kfm(*words, env={"GITHUB_TOKEN": TOKEN})


def merge(hub: GitHub, number: int) -> int:
    from tests.sinks.github.pulls import answer

    return answer(hub, REPOSITORY.partition("/")[0], "PUT", f"/pulls/{number}/merge", {}, b"{}")[0]


def test_a_pull_request_goes_red_green_and_is_promoted_once_merged(hub: GitHub, tmp_path: Path) -> None:
    site, number = opened(hub, tmp_path)
    site.previewed("deeper")
    assert kfm(site, "preview", "report", "deeper", "--pull", "7").code == 4
    hub.pulls.approve(number)
    assert merge(hub, number) == 405
    site.replace("kfm.yml", "    title: Wells\n", "    title: Wells\n    license: CC0-1.0\n")
    head = site.commit("with a licence")
    digest = site.previewed("deeper")
    assert kfm(site, "preview", "report", "deeper", "--pull", "7").code == 0
    assert kfm(site, "preview", "report", "deeper", "--pull", "7").code == 0
    assert [each["external_id"] for each in hub.pulls.checks.values() if each["head_sha"] == head] == [digest]
    comments = [each["body"] for each in hub.pulls.comments.values()]
    assert len(comments) == 1
    assert "every gate says yes" in comments[0]
    assert merge(hub, number) == 405  # what was approved is the commit before
    hub.pulls.approve(number)
    assert merge(hub, number) == 200
    site.pull()
    done = kfm(site, "preview", "publish", "deeper", "--pull", "7", "--json")
    assert done.code == 0, done
    assert TOKEN not in done.out + done.err
    assert site.refs()["published/wells"] == site.refs()["processed/wells"]


def test_an_approval_of_another_commit_is_refused_by_digest(hub: GitHub, tmp_path: Path) -> None:
    site, number = opened(hub, tmp_path)
    hub.pulls.approve(number)
    site.replace("kfm.yml", "    title: Wells\n", "    title: Wells\n    license: CC0-1.0\n")
    site.commit("pushed after the approval")
    digest = site.previewed("deeper")
    assert kfm(site, "preview", "report", "deeper", "--pull", "7").code == 0
    hub.pulls.approvals["main"] = 0  # a rule that somebody took away
    assert merge(hub, number) == 200
    site.pull()
    before = site.refs()
    said = kfm(site, "preview", "publish", "deeper", "--pull", "7", "--json")
    assert said.code == 4
    assert [(each["rule"], each["found"]) for each in said.data["refused"]] == [("approval.stale", digest)]
    assert site.refs() == before
    assert said.data["receipts"] == []
