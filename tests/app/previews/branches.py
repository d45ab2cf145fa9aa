"""An installation in a real git repository, with a bare one that it pushes to, and `kfm` as a person types it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.engine.installations import Answer, warm
from tests.sinks.github.pulls import WHO

NOW = "2026-03-04T05:06:07Z"
CONFIG = """\
kfm: 1
accept_weak_storage: true
datasets:
  wells:
    updater: wells.py:Wells
    title: Wells
    license: CC-PDM-1.0
    sensitivity: public
    extent: {bbox: [-102.1, 36.9, -94.6, 40.1]}
    sources:
      wells: {uri: data/wells.csv, format: csv, contract: {columns: [{name: side}, {name: depth, type: integer}]}}
  gauges:
    version: 1.0.0
    title: Gauges
    license: CC-PDM-1.0
    sensitivity: public
    sources:
      gauges: {uri: data/gauges.csv, format: csv, contract: {columns: [{name: id}, {name: flow, type: integer}]}}
    outputs:
      all: {from: gauges, format: csv}
"""
UPDATER = """\
from kfm import Output, Plan, Step, Updater


class Wells(Updater):
    id = "wells"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("wells")]

    def plan(self, inputs):
        return Plan([Step(id=name, key=(name,)) for name in ("east", "west")], complete=True)

    def perform(self, step, read):
        return Output.csv(row for row in read.csv(0) if row["side"] == step.id)
"""


class Site:
    """`main` is checked out in `folder`; people work in a clone of their own, `desk`."""

    def __init__(self, above: Path, config: str = CONFIG, files: dict[str, str] | None = None) -> None:
        self.above, self.bare = above, above / "hub.git"
        self.folder, self.desk = above / "site", above / "desk"
        git(above, "init", "-q", "--bare", "-b", "main", "hub.git")
        git(above, "clone", "-q", "hub.git", "desk")
        written = {
            ".gitignore": ".kfm/\npublic/\n",
            "kfm.yml": config,
            "wells.py": UPDATER,
            "data/wells.csv": wells(1),
            "data/gauges.csv": "id,flow\n1,10\n2,20\n",
            **(files or {}),
        }
        for name, text in written.items():
            self.write(name, text)
        self.commit("the installation")
        git(above, "clone", "-q", "hub.git", "site")

    def write(self, name: str, text: str) -> None:
        path = self.desk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.desk / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def commit(self, message: str) -> str:
        git(self.desk, "add", "-A")
        git(self.desk, "commit", "-q", "-m", message)
        git(self.desk, "push", "-q", "origin", "HEAD")
        if self.folder.exists():
            git(self.folder, "fetch", "-q", "--prune")
        return git(self.desk, "rev-parse", "HEAD").strip()

    def branch(self, name: str) -> None:
        git(self.desk, "switch", "-q", "-c", name, "origin/main")

    def on(self, name: str) -> None:
        git(self.desk, "switch", "-q", name)

    def merge(self, name: str, *how: str) -> None:
        """As somebody who presses the button; then `main` is pulled where it is checked out."""
        git(self.desk, "fetch", "-q")
        git(self.desk, "switch", "-q", "main")
        git(self.desk, "merge", "-q", "--ff-only", "origin/main")
        git(self.desk, "merge", "-q", *(how or ("--no-ff",)), "-m", f"Merge {name}", name)
        git(self.desk, "push", "-q", "origin", "main")
        self.pull()

    def pull(self) -> None:
        git(self.folder, "fetch", "-q", "--prune")
        git(self.folder, "merge", "-q", "--ff-only", "origin/main")

    def kfm(self, *words: str, env: dict[str, str] | None = None) -> Answer:
        given = {**os.environ, "KFM_NOW": NOW, "KFM_ACTOR": "ann", "HOME": str(self.above), **(env or {})}
        answer = warm().kfm(self.folder, words, given)
        assert "Traceback" not in answer.err, answer.err
        return answer

    def refs(self, prefix: str = "") -> dict[str, str]:
        said = self.kfm("refs", "list", *([prefix] if prefix else []), "--json")
        assert said.code == 0, said
        return {each["ref"]: each["version"] for each in said.data}

    def published(self) -> None:
        for name in ("wells", "gauges"):
            assert self.kfm("run", name).code == 0
            assert self.kfm("promote", name, "--reason", "first").code == 0

    def previewed(self, branch: str, *words: str) -> str:
        """The digest that is to be approved."""
        said = self.kfm("preview", "build", branch, *words, "--json")
        assert said.code == 0, said
        return str(said.data["preview"])

    def copy(self, to: Path) -> Site:
        """Another one with the same history: what is tried on it stays there."""
        other = object.__new__(Site)
        other.above, other.bare, other.folder, other.desk = to, to / "hub.git", to / "site", to / "desk"
        shutil.copytree(self.above, to, symlinks=True, dirs_exist_ok=True)
        for clone in (other.folder, other.desk):
            git(clone, "remote", "set-url", "origin", str(other.bare))
        return other


def wells(n: int) -> str:
    return f"side,depth\neast,{n}00\nwest,{n}50\n"


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **WHO}
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout
