"""A run of protected data is killed and resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import IDS, dataset, hits, installation, label, labels, table

KILLED = """

import os


class Killed(Copy):
    def plan(self, inputs):
        return Plan([Step(id=f"part-{n}", key=(str(n),), params={"n": n}) for n in range(3)], complete=True)

    def perform(self, step, read):
        if step.params["n"] == 2 and os.path.exists("kill"):
            os._exit(9)
        return Output(body=read.bytes(0) + str(step.params["n"]).encode(), media_type="text/csv")
"""


def killed(site: Kfm, sensitivity: str) -> None:
    labels(label("source: sites.csv", sensitivity))
    installation(dataset("sites", "sites.csv", mask=True, updater="Killed"))
    Path("updaters.py").write_text(Path("updaters.py").read_text() + KILLED)
    Path("kill").touch()
    done = subprocess.run([sys.executable, "-m", "kfm", "run", "sites"], env=dict(os.environ), check=False)
    assert done.returncode == 9
    Path("kill").unlink()


@pytest.mark.parametrize("sensitivity", ["generalised", "restricted"])
def test_it_is_finished_and_nothing_can_be_read_before_or_after(site: Kfm, sensitivity: str) -> None:
    killed(site, sensitivity)
    assert hits() == []
    resumed = site("resume")
    assert resumed.code == 0, resumed.err
    assert hits() == []
    shown = site("cat", "processed/sites", "2").out
    assert (IDS[0] in shown) == (sensitivity == "restricted")
    Path("copy.csv").write_text(table().replace("\n", "\r\n"), newline="")
    installation(dataset("parks", "copy.csv", sensitivity="public"))
    assert site("run", "parks").code == 4  # what it learned was kept


@pytest.mark.parametrize("sensitivity", ["generalised", "restricted"])
def test_without_the_key_it_stays_as_it_is(site: Kfm, sensitivity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(site, sensitivity)
    with monkeypatch.context() as other:
        other.delenv("KFM_SECRET_OFFICE")
        assert site("resume").code == 4
    assert site("resume").code == 0
    assert hits() == []


def test_what_was_closed_meanwhile_is_not_taken_up(site: Kfm) -> None:
    killed(site, "generalised")
    labels(label("source: sites.csv", "restricted"))
    resumed = site("resume")
    assert resumed.code == 4 and "more protected" in resumed.err
    labels(label("source: sites.csv"))
    assert hits() == []


def test_a_step_that_failed_shows_nothing_and_can_be_repeated(site: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv", updater="Loud", sensitivity="public"))
    Path("updaters.py").write_text(
        Path("updaters.py").read_text()
        + """

class Loud(Copy):
    def perform(self, step, read):
        raise ValueError("found " + read.text(0))
"""
    )
    ran = site("run", "sites")
    assert ran.code == 1 and "ValueError" in ran.err
    assert IDS[0] not in ran.out + ran.err
    assert hits() == []


def test_looking_at_it_in_every_way_shows_nothing_without_the_key(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv", updater="Named", sensitivity="public"))
    Path("updaters.py").write_text(
        Path("updaters.py").read_text()
        + """

class Named(Copy):
    def plan(self, inputs):
        return Plan([Step(id="site-14QX100", key=("14QX100",), params={"site": "14QX100"})])
"""
    )
    assert site("run", "sites").code == 0
    assert hits() == []
    run_id = site("refs", "history", "processed/sites", "--json").data[0]["run_id"]
    assert "14QX100" in site("runs", "steps", run_id).out  # a reader with the key sees it
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    for words in (
        ("cat", "processed/sites"),
        ("runs", "list"),
        ("doctor",),
        ("doctor", "--deep"),
        ("refs", "list"),
        ("runs", "steps", run_id),
        ("runs", "wal", run_id),
        ("publish", "check"),
        ("held", "sites"),
        ("plan", "sites"),
        ("run", "sites", "--dry-run"),
    ):
        shown = site(*words)
        assert "internal error" not in shown.err, (words, shown.err)
        assert "14QX" not in shown.out + shown.err, words


def test_the_plan_of_a_restricted_dataset_is_shown_with_the_key_and_is_the_same(site: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv"))
    assert site("run", "sites").code == 0
    shown = site("plan", "sites", "--json")
    assert shown.code == 0, shown.err
    assert shown.data["against"] == "locked" and shown.data["before"] == shown.data["plan_hash"]
    assert site("doctor").code == 0
    assert hits() == []
