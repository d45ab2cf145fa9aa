"""The stand-in is as strict with pull requests as GitHub is: what it lets through would go through there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.sinks.github.pulls import WHO
from tests.sinks.github.standin import REPOSITORY, TOKEN, GitHub, github


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[GitHub]:
    with github() as hub:
        hub.pulls.repository = tmp_path / "hub.git"
        git(tmp_path, "init", "-q", "--bare", "-b", "main", "hub.git")
        git(tmp_path, "clone", "-q", "hub.git", "work")
        commit(tmp_path, "first")
        git(tmp_path / "work", "switch", "-q", "-c", "new-wells")
        commit(tmp_path, "second")
        yield hub


def git(folder: Path, *words: str) -> str:
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), **WHO}
    return subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


def commit(folder: Path, text: str) -> str:
    work = folder / "work"
    (work / "kfm.yml").write_text(f"# {text}\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", text)
    git(work, "push", "-q", "origin", "HEAD")
    return git(work, "rev-parse", "HEAD").strip()


def ask(hub: GitHub, method: str, path: str, said: Any = None) -> tuple[int, Any]:
    body = None if said is None else json.dumps(said).encode()
    request = Request(f"{hub.url}/repos/{REPOSITORY}{path}", body, {"Authorization": f"Bearer {TOKEN}"}, method=method)
    try:
        with urlopen(request) as answer:
            return answer.status, json.loads(answer.read() or "null")
    except HTTPError as refusal:
        return refusal.code, json.loads(refusal.read() or "null")


def opened(hub: GitHub, **more: Any) -> dict[str, Any]:
    status, made = ask(hub, "POST", "/pulls", {"title": "wells", "head": "new-wells", "base": "main", **more})
    assert status == 201, made
    return dict(made)


def test_a_pull_request_of_two_branches_is_open_once(hub: GitHub) -> None:
    number = opened(hub, draft=True)["number"]
    assert ask(hub, "POST", "/pulls", {"title": "again", "head": "new-wells", "base": "main"})[0] == 422
    assert ask(hub, "POST", "/pulls", {"title": "none", "head": "nobody", "base": "main"})[0] == 422
    assert [each["number"] for each in ask(hub, "GET", "/pulls?head=kansas%3Anew-wells")[1]] == [number]
    assert ask(hub, "GET", "/pulls?head=kansas:other")[1] == []
    assert ask(hub, "PATCH", f"/pulls/{number}", {"state": "closed"})[1]["state"] == "closed"
    opened(hub)


def test_a_draft_is_not_merged_nor_a_head_that_moved_nor_one_whose_checks_are_missing(
    hub: GitHub, tmp_path: Path
) -> None:
    hub.pulls.required["main"] = ["kfm"]
    hub.pulls.approvals["main"] = 1
    pull = opened(hub, draft=True)
    number, head = pull["number"], pull["head"]["sha"]
    merge = f"/pulls/{number}/merge"
    assert ask(hub, "PUT", merge, {"sha": head})[0] == 405
    hub.pulls.ready(number)
    assert ask(hub, "PUT", merge, {"sha": head})[0] == 405  # no check
    assert ask(hub, "POST", f"/statuses/{head}", {"state": "success", "context": "kfm"})[0] == 201
    assert ask(hub, "PUT", merge, {"sha": head})[0] == 405  # no approval
    hub.pulls.approve(number)
    assert ask(hub, "GET", f"/pulls/{number}")[1]["mergeable_state"] == "clean"
    moved = commit(tmp_path, "third")
    assert ask(hub, "PUT", merge, {"sha": head})[0] == 405  # what was said was of the head before
    assert ask(hub, "POST", "/check-runs", {"name": "kfm", "head_sha": moved, "conclusion": "success"})[0] == 201
    hub.pulls.approve(number)
    assert ask(hub, "PUT", merge, {"sha": head})[0] == 409
    status, merged = ask(hub, "PUT", merge, {"sha": moved})
    assert status == 200
    git(tmp_path / "work", "fetch", "-q")
    parents = git(tmp_path / "work", "rev-list", "--parents", "-1", "origin/main").split()
    assert parents[0] == merged["sha"]
    assert parents[2] == moved
    assert ask(hub, "PUT", merge, {"sha": moved})[0] == 405


def test_the_last_word_of_a_status_or_a_check_counts(hub: GitHub) -> None:
    hub.pulls.required["main"] = ["kfm"]
    pull = opened(hub)
    head = pull["head"]["sha"]
    for state, combined in (("success", "success"), ("failure", "failure"), ("pending", "pending")):
        assert ask(hub, "POST", f"/statuses/{head}", {"state": state, "context": "kfm"})[0] == 201
        assert ask(hub, "GET", f"/commits/{head}/status")[1]["state"] == combined
    assert ask(hub, "GET", "/commits/new-wells/statuses?per_page=1")[1][0]["state"] == "pending"
    check = ask(hub, "POST", "/check-runs", {"name": "kfm", "head_sha": head, "status": "in_progress"})[1]
    assert not hub.pulls.is_green(head, "kfm")
    assert ask(hub, "PATCH", f"/check-runs/{check['id']}", {"conclusion": "success"})[1]["status"] == "completed"
    assert hub.pulls.is_green(head, "kfm")
    assert ask(hub, "GET", f"/commits/{head}/check-runs?check_name=kfm")[1]["total_count"] == 1


def test_what_is_malformed_is_refused(hub: GitHub) -> None:
    pull = opened(hub)
    head, number = pull["head"]["sha"], pull["number"]
    assert ask(hub, "POST", f"/statuses/{'0' * 40}", {"state": "success"})[0] == 422
    assert ask(hub, "POST", f"/statuses/{head}", {"state": "fine"})[0] == 422
    assert ask(hub, "POST", f"/statuses/{head}", {"state": "success", "description": "x" * 141})[0] == 422
    assert ask(hub, "POST", "/check-runs", {"name": "kfm", "head_sha": head, "conclusion": "fine"})[0] == 422
    long = {"title": "t", "summary": "x" * 65536}
    assert ask(hub, "POST", "/check-runs", {"name": "kfm", "head_sha": head, "output": long})[0] == 422
    assert ask(hub, "POST", f"/issues/{number}/comments", {"body": "x" * 65537})[0] == 422
    made = ask(hub, "POST", f"/issues/{number}/comments", {"body": "a report"})[1]
    assert ask(hub, "PATCH", f"/issues/comments/{made['id']}", {"body": "another"})[0] == 200
    assert [each["body"] for each in ask(hub, "GET", f"/issues/{number}/comments")[1]] == ["another"]


def test_branches_that_conflict_are_not_merged(hub: GitHub, tmp_path: Path) -> None:
    number = opened(hub)["number"]
    git(tmp_path / "work", "switch", "-q", "main")
    commit(tmp_path, "meanwhile")
    assert ask(hub, "GET", f"/pulls/{number}")[1]["mergeable_state"] == "dirty"
    assert ask(hub, "PUT", f"/pulls/{number}/merge", {})[0] == 405


def test_refs_are_made_once_and_protection_is_reported(hub: GitHub, tmp_path: Path) -> None:
    sha = git(tmp_path / "work", "rev-parse", "main").strip()
    assert ask(hub, "GET", "/branches/main/protection")[0] == 404
    hub.pulls.required["main"] = ["kfm"]
    told = ask(hub, "GET", "/branches/main/protection")[1]
    assert told["required_status_checks"]["contexts"] == ["kfm"]
    assert ask(hub, "POST", "/git/refs", {"ref": "refs/heads/draft", "sha": sha})[0] == 201
    assert ask(hub, "POST", "/git/refs", {"ref": "refs/heads/draft", "sha": sha})[0] == 422
    assert ask(hub, "GET", "/git/ref/heads/draft")[1]["object"]["sha"] == sha
    assert ask(hub, "GET", "/git/ref/heads/none")[0] == 404
