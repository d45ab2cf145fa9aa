"""Random histories of a masked dataset: nothing comes back that is too precise now, withdrawn, or held."""

from __future__ import annotations

import csv
import io
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import OURS, SAFE, SECRETS, hits, label, labels, site, table
from tests.sampling import sampled

__all__ = ["site"]

STEPS = 12
HELD = "14QX999"  # the id of a row that is quarantined


class Custody:
    """The installation, and what the public may see of it."""

    def __init__(self, kfm: Kfm, seed: int, count: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
        self.kfm, self.random, self.count, self.monkeypatch = kfm, random.Random(seed), count, monkeypatch
        self.resolution, self.is_closed, self.rows = 6, False, 0
        self.versions: list[str] = []  # that were published once
        self.backups: list[Path] = []
        self.told: list[str] = []
        self.secrets = list(SECRETS)

    def asked(self, *words: str) -> None:
        """Whoever asks may be refused: what counts is what is outside afterwards."""
        answer = by_order(self.kfm, SAFE, *words)
        self.told.append(f"{' '.join(words)} → {answer.code}")
        assert "Traceback" not in answer.err, self.told

    def typed(self, *words: str) -> None:
        answer = self.kfm(*words)
        self.told.append(f"{' '.join(words)} → {answer.code}")
        assert "Traceback" not in answer.err, self.told

    # -- what people do

    def change(self) -> None:
        self.rows += 1
        own = [f"14QX{200 + self.rows}", f"37.{self.rows}31234", f"-99.{self.rows}51234"]
        self.secrets += own
        new = f"{own[0]},camp,1960-06-01,{own[1]},{own[2]},near the cottonwood\n"
        held = f"{HELD},camp,1960-06-01,not a number,-99.1,x\n" if self.random.random() < 0.3 else ""
        Path("sites.csv").write_text(table() + new + held)
        self.typed("run", "sites")
        self.publish()

    def publish(self) -> None:
        self.asked("promote", "sites")
        now = {row["ref"]: row["version"] for row in self.kfm("refs", "list", "--json").data}.get("published/sites")
        if now and now not in self.versions:
            self.versions.append(now)

    def back(self) -> None:
        target = self.random.choice([*self.versions, "nothing"])
        self.asked("rollback", "sites", "--to", target)
        if self.random.random() < 0.5 and self.versions:
            self.asked("publish", "sites", "--to", self.random.choice(self.versions))

    def coarser(self) -> None:
        self.resolution = max(3, self.resolution - 1)
        self.labelled()
        self.typed(*self.random.choice([("run", "sites"), ("resume",), ("gc",)]))

    def close(self) -> None:
        self.is_closed = True
        self.labelled()
        self.typed(*self.random.choice([("run", "sites"), ("resume",), ("gc",), ("reconcile", "--repair")]))

    def labelled(self) -> None:
        said = {"public_resolution": self.resolution}
        word = "closed" if self.is_closed else "generalised"
        labels(label("dataset: sites", word, **said), label("source: sites.csv", word, **said))

    def correct(self) -> None:
        name = f"fix-{len(self.told)}"
        self.typed("hotfix", "new", name, "sites", "--set", f"title=Places {len(self.told)}")
        self.asked("hotfix", "apply", f"hotfixes/{name}.yml")
        if self.random.random() < 0.5:
            self.asked("hotfix", "revert", name)

    def collect(self) -> None:
        self.typed("gc")

    def back_up(self) -> None:
        place = Path(f"../backup-{len(self.backups)}").absolute()
        answer = self.kfm("backup", str(place), "--reason", "every night")
        assert answer.code == 0, answer.err
        self.backups.append(place)

    def restore(self) -> None:
        """Go on elsewhere with an older state, under the labels of today; half of the time with the public files."""
        if not self.backups:
            return
        elsewhere = Path(f"../elsewhere-{len(self.told)}").absolute()
        elsewhere.mkdir()
        for name in (*OURS, "keys.json"):
            if Path(name).exists():
                shutil.copy(name, elsewhere)
        if self.random.random() < 0.5 and Path("public").exists():
            shutil.copytree("public", elsewhere / "public")
        place = self.random.choice(self.backups)
        self.monkeypatch.chdir(elsewhere)
        answer = self.kfm("restore", str(place), "--reason", "the disk is lost")
        assert answer.code == 0, answer.err
        self.told.append(f"restored {place.name}")
        self.check(settled=False)
        self.asked("thaw")
        self.typed("resume")
        self.typed("reconcile", "--repair")
        self.count("backups of protected data restored")

    # -- what is outside

    def check(self, *, settled: bool = True) -> None:
        """No canary is anywhere in clear, and no cell is finer than today's label, wherever it lies."""
        assert hits(self.secrets) == [], self.told
        for path in Path("public").rglob("*"):
            body = path.read_bytes() if path.is_file() else b""
            assert HELD.encode() not in body, self.told
            if path.suffix == ".csv" and path.is_file():
                finest = max(
                    (int(row["resolution"] or 0) for row in csv.DictReader(io.StringIO(body.decode()))), default=0
                )
                assert not settled or not self.is_closed, (self.told, path)
                assert not settled or finest <= self.resolution, (self.told, path, finest, self.resolution)
                self.count("public files of masked data read")


@pytest.mark.parametrize("seed", sampled(range(40), every=20))
def test_nothing_comes_back_that_may_not_be_seen_now(
    site: Kfm, seed: int, count: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path("kfm.yml")
    path.write_text("publish: file:public\npages: true\n" + path.read_text())
    custody = Custody(site, seed, count, monkeypatch)
    custody.typed("run", "sites")
    custody.publish()
    assert custody.versions, custody.told
    custody.check()
    often = [custody.change, custody.back, custody.back, custody.correct, custody.collect, custody.back_up]
    for number in range(STEPS):
        rare = [custody.coarser] if number < 8 else [custody.coarser, custody.close]
        custody.random.choice([*often, custody.restore, custody.restore, *rare])()
        custody.check()
    count("histories of masked data")


def test_an_installation_with_a_key_list_is_restored_and_two_persons_thaw_it(
    site: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site("run", "sites").code == 0
    assert site("backup", str(Path("../backup").absolute()), "--reason", "every night").code == 0
    Path("../elsewhere").mkdir()
    for name in (*OURS, "keys.json"):
        if Path(name).exists():
            shutil.copy(name, "../elsewhere")
    monkeypatch.chdir("../elsewhere")
    assert site("restore", "../backup").code == 0
    assert site("run", "sites").code == 5
    last = site("runs", "list", "--json").data
    assert [row["op"] for row in last if row["op"] in ("freeze", "restore")] == ["freeze", "restore"]
    assert site("thaw", "--reason", "looked at everything").code == 4, "whoever restores does not thaw alone"
    assert by_order(site, SAFE, "thaw").code == 0
    assert site("run", "sites").code == 0
