"""What people do to an installation of two datasets, sometimes killed on the way, and the model of what readers see."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.app.dependencies.conftest import DOWN, TOPS, UP
from tests.app.interventions.conftest import HEAD
from tests.app.move.carried import kfm
from tests.crash.harness import Voice, in_child
from tests.crash.points import Points, boundary, die, install

TITLES = ("tops", "Tops", "Wells", "Depths of wells")

Count = Callable[..., None]


class Line:
    """The published ref of one dataset: its moves, and what a reader finds."""

    def __init__(self) -> None:
        self.moves: list[tuple[str, bool]] = []  # version, and whether a rollback moved there
        self.live: dict[str, int] = {}  # public versions, each with the number of its last promotion
        self.promoted: dict[str, int] = {}

    @property
    def at(self) -> str:
        return self.moves[-1][0] if self.moves else ""

    def go(self, version: str, *, back: bool) -> None:
        if version == self.at:
            return
        self.moves.append((version, back))
        number = len(self.moves)
        if version and not back:
            self.live.pop(version, None)
            self.live[version] = self.promoted[version] = number
        elif not version:
            self.live = {}
        else:
            own = self.promoted[version]
            self.live = {one: since for one, since in self.live.items() if since < own and one != version}
            self.live[version] = own

    def taken_back(self, target: str) -> set[str]:
        """The versions that are wrong after a rollback to `target`: all that readers do not find then, but superseded
        ones."""
        then = Line()
        then.moves, then.live, then.promoted = list(self.moves), dict(self.live), dict(self.promoted)
        then.go(target, back=True)
        return {version for version, _ in self.moves if version} - set(then.live)


class Model:
    def __init__(self) -> None:
        self.tops, self.deep = Line(), Line()
        self.made_of: dict[str, set[str]] = {}  # versions of deep: the versions of tops that they were made of
        self.fixes: list[tuple[str, str, str]] = []  # name, expected title, title

    @property
    def title(self) -> str:
        found = "tops"
        for _, before, after in self.fixes:
            found = after if found == before else found
        return found

    def good(self, wrong: set[str]) -> str:
        """The version of deep that a cascade goes to; empty: there is none."""
        for version, _ in reversed(self.deep.moves):
            if version and version in self.deep.live and not self.made_of[version] <= wrong:
                return version
        return ""


class History:
    """One installation, and the model of it."""

    def __init__(self, folder: str, seed: int, count: Count) -> None:
        self.folder, self.random, self.count = folder, random.Random(seed), count
        self.model, self.texts, self.told = Model(), 0, list[str]()
        os.makedirs(folder)
        Path(folder, "kfm.yml").write_text(HEAD + UP + DOWN)
        Path(folder, "tops.csv").write_text(TOPS)

    def done(self, *words: str) -> bool:
        """Carry a command out, sometimes after it was killed, and say whether it was granted."""
        self.told.append(" ".join(words))
        if self.random.random() < 0.4 and self.killed(self.random.randrange(1, 60), *words):
            self.count("commands killed at a boundary")
            self.told[-1] += "  (killed)"
            kfm(self.folder, "resume")
        answer = kfm(self.folder, *words)
        assert "Traceback" not in answer.err, (self.told, answer.err)
        return answer.code == 0

    def killed(self, at: int, *words: str) -> bool:
        """Run a command that dies at its boundary number `at`; return False if it ended before."""

        def work(_voice: Voice) -> int:
            install(Points(at, die, only=boundary))
            return kfm(self.folder, *words).code

        return in_child(work).killed

    def at(self, ref: str) -> str:
        rows = json.loads(kfm(self.folder, "refs", "list", "--json").out)
        return next((each["version"] for each in rows if each["ref"] == ref), "")

    # -- what people do

    def publish(self) -> None:
        self.texts += 1
        Path(self.folder, "tops.csv").write_text(TOPS + f"x{self.texts},{300 + self.texts}\n")
        for name, line in (("tops", self.model.tops), ("deep", self.model.deep)):
            if name == "deep" and self.random.random() < 0.3:
                continue
            assert self.done("run", name), self.told
            made = self.at(f"processed/{name}")
            if name == "deep":
                self.model.made_of.setdefault(made, set()).add(self.at("processed/tops"))
            assert self.done("publish", name, "--to", made, "--reason", "new") or line.at == made, self.told
            line.go(made, back=False)

    def correct(self) -> None:
        name, before, after = f"fix-{len(self.told)}", self.model.title, self.random.choice(TITLES)
        Path(self.folder, "fix.json").write_text(
            json.dumps(
                {"hotfix": name, "dataset": "tops", "stac": {"expect": {"title": before}, "merge": {"title": after}}}
            )
        )
        granted = self.done("hotfix", "apply", os.path.join(self.folder, "fix.json"), "--reason", "wrong")
        assert granted == (before != after and bool(self.model.tops.at)), self.told
        if granted:
            self.model.fixes.append((name, before, after))

    def revert(self) -> None:
        if not self.model.fixes:
            return
        name = self.model.fixes[-1][0]
        assert self.done("hotfix", "revert", name, "--reason", "not wrong") or not self.applied(name), self.told
        self.model.fixes.pop()

    def applied(self, name: str) -> bool:
        return name in kfm(self.folder, "hotfix", "list").out

    def roll_back(self) -> None:
        known = [version for version in dict.fromkeys(one for one, _ in self.model.tops.moves) if version]
        target = self.random.choice([*known, ""])
        cascade = self.random.random() < 0.5
        wrong = self.model.tops.taken_back(target)
        deep = self.model.deep.at
        makers = self.model.made_of.get(deep, set())  # bytes that a right version gives, too, are right
        along = cascade and bool(deep) and (makers <= wrong if target else bool(makers & wrong))
        goal = self.model.good(wrong) if along and target else ""
        words = ["rollback", "tops", "--to", target or "nothing", *(["--cascade"] if cascade else [])]
        granted = self.done(*words, "--reason", "it was wrong")
        if along and target and not goal:
            assert not granted, self.told
            return
        assert granted, self.told
        self.model.tops.go(target, back=True)
        if along:
            self.model.deep.go(goal, back=True)

    def freeze(self) -> None:
        scope, level = self.random.choice(["global", "tops"]), self.random.choice(["red", "amber"])
        assert self.done("freeze", scope, "--level", level, "--reason", "look"), self.told
        before = self.seen()
        kfm(self.folder, "hotfix", "new", f"n{len(self.told)}", "tops", "--set", "title=Frozen")
        kfm(
            self.folder,
            "hotfix",
            "apply",
            os.path.join(self.folder, "hotfixes", f"n{len(self.told)}.yml"),
            "--reason",
            "x",
        )
        if level == "red":
            kfm(self.folder, "rollback", "tops", "--reason", "x")
        assert self.seen() == before, (self.told, "something changed while it was frozen")
        assert self.done("thaw", scope, "--catch-up", "none", "--reason", "go"), self.told
        assert self.seen() == before, (self.told, "a dropped request ran")

    # -- what readers see

    def seen(self) -> tuple[str, str, str]:
        path = Path(self.folder, "catalog/tops/collection.json")
        title = json.loads(path.read_text())["title"] if path.exists() else ""
        return self.at("published/tops"), self.at("published/deep"), title

    def check(self) -> None:
        model = self.model
        title = model.title if model.tops.at else ""
        assert self.seen() == (model.tops.at, model.deep.at, title), self.told
        compared = kfm(self.folder, "reconcile")
        assert compared.code == 0, (self.told, compared.out)
        links = list(self.links())
        assert [link for link in links if not os.path.exists(link)] == [], self.told
        self.count("catalog links followed", len(links))

    def links(self) -> Iterator[str]:
        for path in Path(self.folder, "catalog").rglob("*.json"):
            document = json.loads(path.read_text())
            for link in document.get("links", ()) if isinstance(document, dict) else ():
                if "://" not in link["href"] and not link["href"].startswith(("data:", "kfm:", "urn:")):
                    yield os.path.normpath(os.path.join(path.parent, link["href"]))
