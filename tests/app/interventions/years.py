"""Years of an installation: a label is tightened, objects are collected, backups are taken and restored elsewhere."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.app.dependencies.conftest import TOPS
from tests.app.interventions.history import Count, History, Model
from tests.app.move.carried import kfm

PUBLIC, CLOSED = "    sensitivity: public\n", "    sensitivity: restricted\n"


class Kept(NamedTuple):
    """A backup, and the model of the moment when it was taken."""

    folder: str
    model: Model


class Years(History):
    """A history in which everything else happens, too."""

    def __init__(self, folder: str, seed: int, count: Count) -> None:
        super().__init__(folder, seed, count)
        self.backups: list[Kept] = []
        self.places = 0

    @property
    def acts(self) -> list[Callable[[], None]]:
        often = [self.publish, self.correct, self.correct, self.revert, self.roll_back, self.roll_back]
        return [*often, self.freeze, self.tighten, self.collect, self.back_up, self.back_up, self.restore, self.restore]

    # -- what is closed stays closed

    def tighten(self) -> None:
        """Close what `tops` is, and try everything that could bring it back."""
        config = Path(self.folder, "kfm.yml")
        head, mark, rest = config.read_text().partition("  tops:")
        config.write_text(head + mark + rest.replace(PUBLIC, CLOSED, 1))
        public = bool(self.model.tops.at or self.model.deep.at)
        assert self.done("resume"), self.told
        self.model.tops.go("", back=True)
        self.model.deep.go("", back=True)
        self.is_closed()
        for words in self.ways_back():
            self.told.append("closed: " + " ".join(words))
            kfm(self.folder, *words)
            self.is_closed()
            self.count("ways back to what is closed, tried in vain", 1 if public else 0)
        if self.backups:
            self.restore_while_closed()
        config.write_text(head + mark + rest)
        for words in (("resume",), ("reconcile", "--repair"), ("gc",)):
            self.told.append("opened: " + " ".join(words))
            assert kfm(self.folder, *words).code == 0, self.told
            self.is_closed()

    def ways_back(self) -> list[tuple[str, ...]]:
        why = ("--reason", "bring it back")
        known = list(dict.fromkeys(one for one, _ in self.model.tops.moves if one))[-2:]
        made = list(dict.fromkeys(one for one, _ in self.model.deep.moves if one))[-2:]
        ways = [("rollback", "tops", "--to", one, *why) for one in known]
        ways += [("publish", "tops", "--to", one, *why) for one in known]
        ways += [("rollback", "deep", "--to", one, *why) for one in made]
        ways += [("publish", "deep", "--to", one, *why) for one in made]
        ways += [("hotfix", "revert", name, *why) for name, _, _ in self.model.fixes[-1:]]
        self.model.fixes = self.model.fixes[:-1]  # a correction may be taken back while nothing is public
        name = f"c{len(self.told)}"
        fix = os.path.join(self.folder, "hotfixes", f"{name}.yml")
        ways += [("hotfix", "new", name, "tops", "--set", "title=Closed"), ("hotfix", "apply", fix, *why)]
        ways += [("gc",), ("reconcile", "--repair"), ("rollback", "tops", *why), ("resume",)]
        return ways

    def restore_while_closed(self) -> None:
        """Restore a backup of when it was public to an empty place, under the label of today."""
        elsewhere = self.place()
        for name in ("kfm.yml", "tops.csv"):
            shutil.copy(os.path.join(self.folder, name), elsewhere)
        kept = self.random.choice(self.backups)
        home, self.folder = self.folder, elsewhere
        self.told.append(f"closed: restore {kept.folder}")
        assert kfm(elsewhere, "restore", kept.folder, "--reason", "lost").code == 0, self.told
        self.no_row_is_outside()  # the refs are those of the backup, until a person thaws it
        for words in (
            ("thaw", "--reason", "go"),
            ("resume",),
            ("reconcile", "--repair"),
            ("rollback", "tops", "--reason", "x"),
        ):
            kfm(elsewhere, *words)
            self.is_closed()
        self.count("backups restored under a tightened label")
        self.folder = home
        shutil.rmtree(elsewhere)

    def is_closed(self) -> None:
        assert (self.at("published/tops"), self.at("published/deep")) == ("", ""), self.told
        self.no_row_is_outside()

    def no_row_is_outside(self) -> None:
        """No row of any version is in a public file, whatever its name is."""
        rows = [line.encode() for line in TOPS.splitlines()[1:]]
        for top in ("public", "catalog"):
            for path in Path(self.folder, top).rglob("*"):
                body = path.read_bytes() if path.is_file() else b""
                assert not any(row in body for row in rows), (self.told, path)

    # -- what is kept

    def collect(self) -> None:
        assert self.done("gc", "--reason", "every night"), self.told

    def back_up(self) -> None:
        folder = os.path.join(os.path.dirname(self.folder), f"backup-{len(self.backups)}")
        assert self.done("backup", folder, "--reason", "every night"), self.told
        self.backups.append(Kept(folder, copy.deepcopy(self.model)))

    def place(self) -> str:
        self.places += 1
        folder = os.path.join(os.path.dirname(self.folder), f"place-{self.places}")
        os.makedirs(folder)
        return folder

    def restore(self) -> None:
        """Go on in another folder, from a backup; what is public there moved on since, or was lost with the rest."""
        if not self.backups:
            return
        kept, home, public = self.random.choice(self.backups), self.folder, self.random.random() < 0.5
        self.folder = self.place()
        for name in ("kfm.yml", "tops.csv", *(["public", "catalog"] if public else [])):
            source = os.path.join(home, name)
            if os.path.isdir(source):
                shutil.copytree(source, os.path.join(self.folder, name))
            elif os.path.exists(source):
                shutil.copy(source, self.folder)
        self.told.append(f"now in {os.path.basename(self.folder)}, {'with' if public else 'without'} public files")
        if self.random.random() < 0.4 and self.killed(
            self.random.randrange(1, 60), "restore", kept.folder, "--reason", "lost"
        ):
            self.count("restores killed at a boundary")
        answer = kfm(self.folder, "restore", kept.folder, "--reason", "lost")
        assert answer.code in (0, 3), (self.told, answer.err)  # 3: the killed one was complete
        assert kfm(self.folder, "run", "tops").code == 5, (self.told, "a restored installation works unasked")
        assert self.done("thaw", "--reason", "looked at everything"), self.told
        assert self.done("reconcile", "--repair"), self.told
        now, self.model = self.model, copy.deepcopy(kept.model)
        if public:
            for line, later in ((self.model.tops, now.tops), (self.model.deep, now.deep)):
                if line.at and later.moves != line.moves:
                    line.go("", back=True)
        self.count("backups restored elsewhere")
        shutil.rmtree(home)
