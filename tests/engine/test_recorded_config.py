"""The configuration of every run is stored under the digest that its receipt names, and a resumed run uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.session.backends import open_tables
from kfm.model.keys import digest
from kfm.model.ports import Tables
from tests.engine.installations import Installation

CONFIG = """\
kfm: 1
datasets:
  gauges:
    updater: code.py:Gauges
    title: Gauges
    license: CC0-1.0
    sensitivity: public
    sources:
      gauges: {uri: gauges.csv, format: csv, contract: {columns: [{name: gauge}]}}
      later: {uri: "https://example.org/gauges.csv", headers: {Authorization: env:GAUGES_TOKEN}}
"""
CODE = """\
import os, signal
from kfm import Output, Plan, Step, Updater

class Gauges(Updater):
    version = "1.0.0"
    unit = "metres"

    def inputs(self, trigger, sources):
        return [sources.pin("gauges")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        if os.path.exists("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        return Output.csv([{**row, "unit": self.unit} for row in read.csv("gauges")])

class InFeet(Gauges):
    unit = "feet"
"""
SECRET = "a-token-that-no-file-may-hold"
ENV = {"KFM_ACCEPT_WEAK_STORAGE": "true", "GAUGES_TOKEN": SECRET}
KILLED = -9


class Site(Installation):
    """An installation whose updater kills its process while there is a file `kill`."""

    def configure(self, *pairs: tuple[str, str]) -> None:
        text = CONFIG
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        (self.folder / "kfm.yml").write_text(text)

    def do(self, *words: str, expect: int = 0) -> Any:
        return self.kfm(*words, env=ENV, expect=expect)

    def receipts(self) -> list[dict[str, Any]]:
        """Newest first."""
        found: list[dict[str, Any]] = self.do("runs", "receipts", "--json").data
        return [self.do("runs", "receipt", each["run_id"], "--json").data for each in found]

    def tables(self) -> Iterator[Tables]:
        tables = open_tables(config.load(str(self.folder / "kfm.yml"), {}), "write")
        tables.begin()
        yield tables
        tables.commit()
        tables.close()

    def stored(self, name: str) -> bytes | None:
        found = None
        for tables in self.tables():
            found = tables.get("objects", name)
        return found

    def remove(self, name: str) -> None:
        for tables in self.tables():
            tables.delete("objects", name)


@pytest.fixture
def site(place: Path) -> Site:
    (place / "code.py").write_text(CODE)
    (place / "gauges.csv").write_text("gauge,level\na,1\n")
    site = Site(place)
    site.configure()
    return site


def interrupted(site: Site) -> None:
    (site.folder / "kill").touch()
    site.do("run", expect=KILLED)
    (site.folder / "kill").unlink()


def test_each_distinct_configuration_is_stored_once_under_the_digest_that_receipts_name(site: Site) -> None:
    site.do("run")
    site.do("run")
    site.configure(("title: Gauges", "title: River gauges"))
    site.do("run")
    (site.folder / "gauges.csv").unlink()
    site.configure(("title: Gauges", "title: All gauges"))
    site.do("run", expect=3)
    receipts = site.receipts()
    assert [each["outcome"] for each in receipts] == ["failed", "noop", "noop", "done"]
    named = [each["config_hash"] for each in receipts]
    assert len(set(named)) == 3 and named[2] == named[3], named
    for name, title in zip(named, ("All gauges", "River gauges", "Gauges", "Gauges"), strict=True):
        body = site.stored(name)
        assert body is not None and digest(body) == name
        said = json.loads(body)
        assert said["title"] == title
        assert said["sources"]["later"]["headers"] == {"Authorization": "env:GAUGES_TOKEN"}
        assert SECRET.encode() not in body


def test_the_recorded_configuration_of_a_run_can_be_seen(site: Site) -> None:
    site.do("run")
    site.configure(("title: Gauges", "title: River gauges"))
    shown = site.do("config", "show", "--run", "last", "--json").data["settings"]
    assert shown["datasets.gauges.title"] == {"value": "Gauges", "origin": "run"}
    text = site.do("config", "show", "--run", "last")
    assert "env:GAUGES_TOKEN" in text.out and "recorded by run" in text.err
    assert SECRET not in text.out
    assert "is not the id of a run" in site.do("config", "show", "--run", "x", expect=3).err


def test_no_public_copy_holds_the_configuration(site: Site) -> None:
    site.configure(("title: Gauges", "title: Gauges\n    description: the settings of gauges"))
    site.do("run")
    site.do("publish", "gauges", "--reason", "ready")
    stored = site.stored(site.receipts()[0]["config_hash"])
    assert stored is not None and b"GAUGES_TOKEN" in stored
    files = [path for path in (site.folder / "public").rglob("*") if path.is_file()]
    assert files and not any(b"GAUGES_TOKEN" in path.read_bytes() for path in files)


def test_a_resumed_run_is_finished_with_the_configuration_it_was_planned_with_and_says_so(site: Site) -> None:
    interrupted(site)
    site.configure(("code.py:Gauges", "code.py:InFeet"), ("title: Gauges", "title: Other gauges"))
    said = site.do("resume")
    assert "finished with the settings it was planned with" in said.err
    (receipt,) = site.receipts()
    assert json.loads(site.stored(receipt["config_hash"]) or b"")["title"] == "Gauges"
    assert [note["code"] for note in receipt["warnings"]] == ["configuration.changed"]
    assert "metres" in site.do("cat", "processed/gauges", "all").out
    assert site.do("reproduce", "gauges", "--json").data["identical"] is True


def test_a_resumed_run_can_use_the_configuration_of_today(site: Site) -> None:
    interrupted(site)
    site.configure(("title: Gauges", "title: Other gauges"))
    site.do("resume", "--today")
    (receipt,) = site.receipts()
    assert json.loads(site.stored(receipt["config_hash"]) or b"")["title"] == "Other gauges"
    assert receipt["warnings"] == []


def test_a_run_whose_configuration_is_lost_is_not_resumed_with_another_one(site: Site) -> None:
    interrupted(site)
    (record,) = site.do("runs", "list", "--json").data
    wal = site.do("runs", "wal", record["run"], "--json").out.splitlines()
    name = json.loads(wal[0])["payload"]["config_hash"]
    site.remove(name)
    site.configure(("title: Gauges", "title: Other gauges"))
    problem = site.do("resume", expect=65).err
    assert f"{name} is missing" in problem and f"kfm resume {record['run']} --today" in problem
    assert site.receipts() == []
    site.do("resume", record["run"], "--today")


def test_the_receipt_of_a_superseded_run_names_the_configuration_it_was_planned_with(site: Site) -> None:
    interrupted(site)
    site.configure(("title: Gauges", "title: Other gauges"))
    (site.folder / "gauges.csv").write_text("gauge,level\na,2\n")
    site.do("run")
    receipts = {each["outcome"]: each for each in site.receipts()}
    titles = {word: json.loads(site.stored(each["config_hash"]) or b"")["title"] for word, each in receipts.items()}
    assert titles == {"superseded": "Gauges", "done": "Other gauges"}
