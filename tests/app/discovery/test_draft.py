"""`kfm catalog discover --draft-pr` opens a branch with a reproducible difference, and a draft that gates keep from
merging.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.discovery import catalogs
from tests.app.discovery.catalogs import Site, item
from tests.engine.installations import Answer, Installation, stamps
from tests.sampling import sampled
from tests.sinks.github.standin import REPOSITORY, TOKEN, GitHub, github

CONFIG = """\
# the archive of the county
accept_weak_storage: true
network: {{allow: ["127.0.0.1:{port}"]}}
github: {{api: "{api}", repository: {repository}}}
datasets:
  mine:
    updater: kfm.updaters.mirror:Mirror
    title: Mine
    license: CC0-1.0
    sensitivity: public
    sources:
      first: {{uri: data/first.csv, format: csv}}   # by hand
# what is public
publish: file:public
"""
CHECK = "kfm preview"


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=you", "-c", "user.email=you@example.org"]
    done = subprocess.run(["git", *who, *words], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Place(Installation):
    """An installation in a clone of the repository that the stand-in speaks of."""

    def __init__(self, folder: Path, hub: GitHub, web: Site) -> None:
        super().__init__(folder / "clone")
        self.hub, self.web = hub, web
        self.bare = folder / "bare.git"
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.bare))
        git(folder, "clone", "-q", str(self.bare), "clone")
        hub.pulls.repository = self.bare
        (self.folder / "data").mkdir()
        (self.folder / "data" / "first.csv").write_text("a\n1\n")
        (self.folder / ".gitignore").write_text(".kfm/\npublic/\n")
        port = web.url.rpartition(":")[2]
        (self.folder / "kfm.yml").write_text(CONFIG.format(port=port, api=hub.url, repository=REPOSITORY))
        self.commit("The archive")

    def commit(self, message: str) -> None:
        git(self.folder, "checkout", "-q", "-B", "main")
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-qm", message)
        git(self.folder, "push", "-q", "origin", "main")

    def draft(self, *words: str, expect: int = 0) -> Answer:
        asked = ("catalog", "discover", f"{self.web.url}/stac", "--draft-pr", *words)
        return self.kfm(*asked, env={"GITHUB_TOKEN": TOKEN}, expect=expect)

    def drafted(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = self.draft("--json", *words).data["draft"]
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with github() as hub, catalogs.site() as web:
        catalogs.api(
            web, {"wells": [item("w1", f"{web.url}/w1.csv", "wells"), item("w2", f"{web.url}/w2.csv", "wells")]}
        )
        yield Place(tmp_path, hub, web)


def test_what_is_new_becomes_a_branch_and_a_draft_that_is_pending(place: Place) -> None:
    before = stamps(place.folder / "data"), git(place.folder, "status", "--porcelain"), git(place.folder, "log", "-1")
    draft = place.drafted()
    (pull,) = place.hub.pulls.pulls.values()
    assert (pull["draft"], pull["head"], pull["base"], pull["number"]) == (True, draft["branch"], "main", draft["pull"])
    assert "`w1`" in pull["body"] and CHECK in pull["body"]
    (said,) = place.hub.pulls.statuses[draft["commit"]]
    assert (said["context"], said["state"]) == (CHECK, "pending")
    # nothing that is checked out was touched
    assert before == (
        stamps(place.folder / "data"),
        git(place.folder, "status", "--porcelain"),
        git(place.folder, "log", "-1"),
    )
    changed = git(place.bare, "diff", "--name-only", "main", draft["branch"]).split()
    assert (
        changed
        == draft["files"]
        == [
            "kfm.yml",
            "pipelines/discovered/wells/collection.json",
            "pipelines/discovered/wells/dataset.jsonld",
            "pipelines/discovered/wells/provenance.json",
        ]
    )
    # every line that was there is there
    assert not [
        line
        for line in git(place.bare, "diff", "main", draft["branch"], "--", "kfm.yml").splitlines()
        if line[:2] == "- "
    ]


def test_what_was_drafted_is_valid_and_runs(place: Place) -> None:
    draft = place.drafted()
    git(place.folder, "checkout", "-q", draft["branch"])
    answer = place.kfm("catalog", "validate", "pipelines/discovered", "--strict")
    assert answer.out == "3 valid, 0 unchecked, 0 broken\n"
    for name in ("w1", "w2"):
        place.web.put(f"/{name}.csv", f"well\n{name}\n".encode(), "text/csv")
    place.kfm("run", "wells")
    assert place.kfm("cat", "processed/wells", "w2").out == "well\nw2\n"
    assert (
        "sensitivity" in place.kfm("promote", "wells", "--reason", "r", expect=4).err
    )  # a person has to say how open it is
    assert "0 new" in place.kfm("catalog", "discover", f"{place.web.url}/stac").err


def test_the_difference_is_the_same_wherever_and_whenever_it_is_made(place: Place, tmp_path: Path) -> None:
    """Two clones, two clocks, another order of the items: the same difference, branch and commit."""
    shown = place.draft("--dry-run").out
    again = place.kfm(
        "catalog",
        "discover",
        f"{place.web.url}/stac",
        "--draft-pr",
        "--dry-run",
        env={"KFM_NOW": "2030-01-01T00:00:00Z"},
    )
    catalogs.api(
        place.web,
        {"wells": [item("w2", f"{place.web.url}/w2.csv", "wells"), item("w1", f"{place.web.url}/w1.csv", "wells")]},
    )
    first = place.drafted("--dry-run")
    made = place.drafted()
    assert again.out == shown and first["diff"] in shown and first["branch"] == made["branch"]
    git(tmp_path, "clone", "-q", str(place.bare), "other")
    git(place.bare, "update-ref", "-d", f"refs/heads/{made['branch']}")
    other = Installation(tmp_path / "other")
    found = other.kfm(
        "catalog", "discover", f"{place.web.url}/stac", "--draft-pr", "--json", env={"GITHUB_TOKEN": TOKEN}
    ).data["draft"]
    assert (found["branch"], found["commit"], found["diff"]) == (made["branch"], made["commit"], made["diff"])
    theirs = git(place.bare, "diff", "--no-color", "main", made["branch"])
    kept = [line for line in theirs.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    ours = [line for line in made["diff"].splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    assert kept == ours  # what git says is what was shown


def test_a_dry_run_changes_nothing(place: Place) -> None:
    before = stamps(place.folder), stamps(place.bare), len(place.hub.calls)
    place.draft("--dry-run")
    assert (stamps(place.folder), stamps(place.bare), len(place.hub.calls)) == before


def merge(place: Place, number: int) -> int:
    """The button, as GitHub's own page presses it."""
    asked = urllib.request.Request(
        f"{place.hub.url}/repos/{REPOSITORY}/pulls/{number}/merge",
        data=b"{}",
        method="PUT",
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    try:
        with urllib.request.urlopen(asked) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_it_cannot_be_merged_before_every_gate_said_yes(place: Place) -> None:
    place.hub.pulls.required["main"] = [CHECK]
    draft = place.drafted()
    assert merge(place, draft["pull"]) == 405  # a draft
    place.hub.pulls.ready(draft["pull"])
    assert merge(place, draft["pull"]) == 405  # pending
    for name in ("w1", "w2"):
        place.web.put(f"/{name}.csv", f"well\n{name}\n".encode(), "text/csv")
    env = {"GITHUB_TOKEN": TOKEN}
    place.kfm("preview", "build", draft["branch"], env=env)
    number = str(draft["pull"])
    place.kfm("preview", "report", draft["branch"], "--pull", number, env=env, expect=4)
    assert merge(place, draft["pull"]) == 405  # a gate says no: nobody has said how open it is
    git(place.folder, "fetch", "-q")
    git(place.folder, "checkout", "-q", draft["branch"])
    text = (place.folder / "kfm.yml").read_text()
    text = text.replace('    license: "CC0-1.0"', "    sensitivity: public\n    license: CC0-1.0")
    text = text.replace('format: "csv"', 'format: "csv", contract: {columns: [{name: well}]}')
    (place.folder / "kfm.yml").write_text(text)
    git(place.folder, "commit", "-qam", "It is public")
    git(place.folder, "push", "-q", "origin", draft["branch"])
    git(place.folder, "checkout", "-q", "main")
    assert merge(place, draft["pull"]) == 405  # nothing was said of this commit yet
    place.kfm("preview", "build", draft["branch"], env=env)
    place.kfm("preview", "report", draft["branch"], "--pull", number, env=env)
    assert merge(place, draft["pull"]) == 200
    assert "wells:" in git(place.bare, "show", "main:kfm.yml")


def test_the_same_findings_are_proposed_once_and_green_stays_green(place: Place) -> None:
    first = place.drafted()
    place.hub.pulls.statuses[first["commit"]].append({"context": CHECK, "state": "success", "id": 0})
    (place.folder / "data" / "first.csv").write_text("a\n2\n")
    place.commit("Main moved meanwhile")
    second = place.drafted()
    assert (second["pull"], second["commit"]) == (first["pull"], first["commit"])
    assert len(place.hub.pulls.pulls) == 1
    assert [said["state"] for said in place.hub.pulls.statuses[first["commit"]]] == ["pending", "success"]


def test_a_closed_proposal_is_not_made_again(place: Place) -> None:
    first = place.drafted()
    place.hub.pulls.pulls[first["pull"]]["state"] = "closed"
    answer = place.draft()
    assert "was closed" in answer.err and len(place.hub.pulls.pulls) == 1


def test_a_file_that_is_added_later_is_added_to_its_dataset(place: Place) -> None:
    draft = place.drafted()
    git(place.folder, "fetch", "-q")
    git(place.folder, "merge", "-q", "--ff-only", draft["branch"])
    git(place.folder, "push", "-q", "origin", "main")
    assert place.drafted()["state"] == "nothing"
    more = [item(f"w{n}", f"{place.web.url}/w{n}.csv", "wells") for n in (1, 2, 3)]
    catalogs.api(place.web, {"wells": more})
    second = place.drafted()
    added = [line for line in second["diff"].splitlines() if line.startswith("+      w")]
    assert len(added) == 1 and added[0].startswith("+      w3: ")


def test_a_new_hash_is_proposed_where_one_was_declared(place: Place) -> None:
    def offered(digest: str) -> None:
        catalogs.api(
            place.web, {"wells": [item("w1", f"{place.web.url}/w1.csv", "wells", **{"file:checksum": "1220" + digest})]}
        )

    offered("ab" * 32)
    draft = place.drafted()
    git(place.folder, "fetch", "-q")
    git(place.folder, "merge", "-q", "--ff-only", draft["branch"])
    offered("cd" * 32)
    second = place.drafted("--dry-run")
    lines = [line for line in second["diff"].splitlines() if "expect_hash" in line]
    assert [(line[0], "ab" * 32 in line, "cd" * 32 in line) for line in lines] == [
        ("-", True, False),
        ("+", False, True),
    ]


def test_no_draft_adds_a_source_to_an_updater_with_code(place: Place) -> None:
    text = (place.folder / "kfm.yml").read_text()
    (place.folder / "kfm.yml").write_text(
        text.replace("kfm.updaters.mirror:Mirror", "mine.py:Mine").replace("data/first.csv", f"{place.web.url}/w1.csv")
    )
    place.commit("Code of our own")
    answer = place.draft()
    assert "add what is new to it by hand" in answer.err and "nothing to propose" in answer.err
    assert not place.hub.pulls.pulls


@pytest.mark.parametrize("trouble", sampled(["lost", "dropped", "500"]))
@pytest.mark.parametrize("call", range(1, 6))
def test_a_bad_day_at_any_call_is_made_good_by_the_next_look(place: Place, call: int, trouble: str) -> None:
    place.hub.bad_day = {call: trouble}
    asked = place.draft(expect=None)  # type: ignore[arg-type]
    place.hub.bad_day = {}
    draft = place.drafted()
    fired = place.hub.fired == [trouble]
    assert fired == (asked.code == 69) and (fired or call == 5), (asked, place.hub.calls)
    (pull,) = place.hub.pulls.pulls.values()
    assert pull["draft"] and pull["number"] == draft["pull"]
    assert {said["state"] for said in place.hub.pulls.statuses[draft["commit"]]} == {"pending"}


WRONG = {
    "no repository": ("no git", 3, "is not in a git repository"),
    "a file that was changed": ("dirty", 3, "is not the one of 'main'"),
    "a base that is not there": ("base", 3, "there is no branch 'nowhere'"),
    "a remote that is not there": ("remote", 3, "there is no remote 'nowhere'"),
    "a remote that is a flag": ("flag", 3, "there is no remote"),
    "a remote that does not answer": ("away", 69, "does not reach the other repository"),
    "no token": ("token", 3, "GITHUB_TOKEN"),
    "no name of a repository": ("name", 3, "names no repository of pull requests"),
    "a comment between brackets": ("comment", 3, "write there yourself, under datasets: wells: {updater: "),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_impossible_proposal_is_reported_in_one_line_and_nothing_is_made(place: Place, case: str) -> None:
    what, code, said = WRONG[case]
    words, env = ["--draft-pr"], {"GITHUB_TOKEN": TOKEN}
    config = place.folder / "kfm.yml"
    if what == "no git":
        (place.folder / ".git").rename(place.folder.parent / "away")
    elif what == "dirty":
        config.write_text(config.read_text() + "# more\n")
    elif what == "base":
        words += ["--base", "nowhere"]
    elif what == "remote":
        words += ["--remote", "nowhere"]
    elif what == "flag":
        words += ["--remote", "--upload-pack=touch x"]
    elif what == "away":
        git(place.folder, "remote", "set-url", "origin", str(place.folder / "nothing"))
    elif what == "token":
        env = {}
    elif what == "name":
        config.write_text(config.read_text().replace(f", repository: {REPOSITORY}", ""))
        place.commit("No name")
    elif what == "comment":
        config.write_text(config.read_text().partition("datasets:")[0] + "datasets: {  # none yet\n  }\n")
        place.commit("Nothing yet")
    before = git(place.bare, "for-each-ref")
    answer = place.kfm("catalog", "discover", f"{place.web.url}/stac", *words, env=env, expect=code)
    assert said in answer.err and "Traceback" not in answer.err
    assert git(place.bare, "for-each-ref") == before and not place.hub.pulls.pulls


def test_datasets_on_one_line_stay_there_and_get_company(place: Place) -> None:
    config = place.folder / "kfm.yml"
    line = "datasets: {mine: {updater: kfm.updaters.mirror:Mirror, sources: {a: {uri: data/first.csv}}}"
    config.write_text(config.read_text().partition("datasets:")[0] + line + "}\n")
    place.commit("On one line")
    diff = place.drafted()["diff"]
    assert f"+{line}, wells: {{updater: " in diff


def test_foreign_words_neither_name_anybody_nor_break_the_page(place: Place) -> None:
    bad = "@everyone `#1 <img src=x> | see https://x.example\n::warning::x"
    found = [item("w1", f"{place.web.url}/w1.csv", "wells")]
    catalogs.api(place.web, {"wells": found})
    listed = json.loads(place.web.files["/stac/collections"][2])
    listed["collections"][0] |= {"title": bad, "description": bad, "id": "we: lls\n#`x"}
    found[0]["collection"] = "we: lls\n#`x"
    place.web.put("/stac/collections", listed)
    place.web.put("/stac/collections/wells/items", {"type": "FeatureCollection", "features": found, "links": []})
    draft = place.drafted()
    (pull,) = place.hub.pulls.pulls.values()
    outside = "".join(pull["body"].split("`")[::2])
    assert "@everyone" not in outside and "<img" not in outside and "::warning" not in outside
    assert pull["title"] == "Discovered: we-lls-x"
    git(place.folder, "checkout", "-q", draft["branch"])
    shown = place.kfm("config", "show", "--resolved", "--json").out
    assert "@everyone" in shown and "warning" in shown  # kept, as one text
