"""A run checks its sources against today's kfm.yml, although the same bytes made this version before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.node.sites import Seen, Site

CONFIG = """\
accept_weak_storage: true
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources: {rain: {uri: rain.csv, format: csv, contract: {columns: [{name: mm, type: TYPE}]}}%s}
    outputs: {all: {from: rain}}
"""
CODE = """\
from kfm import Output, Plan, Step, Updater

class Rain(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rain")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.text(read.text("rain"))
"""
WITHOUT = """\
accept_weak_storage: true
datasets:
  rain:
    updater: rain.py:Rain
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources: {rain: {uri: rain.csv}}
"""
RAIN = "station,mm\nKMHK,1\nKTOP,2\n"


def outcome(seen: Seen) -> str:
    (receipt,) = json.loads(seen.answer.out)["receipts"]
    return str(receipt["outcome"])


def test_a_format_that_is_added_opens_the_gate_for_the_same_bytes(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", {"kfm.yml": WITHOUT, "rain.py": CODE, "rain.csv": RAIN}, lambda _n: "python")
    site.run("run", "--json")
    denied = site.kfm("promote", "rain", code=4)
    assert "not every source was held" in denied.err and "`kfm run rain`" in denied.err
    version = site.ref("processed/rain")
    site.put(
        "kfm.yml", WITHOUT.replace("uri: rain.csv", "uri: rain.csv, format: csv, contract: {columns: [{name: mm}]}")
    )
    assert outcome(site.run("run", "--json")) == "unchanged"
    assert site.ref("processed/rain") == version
    site.kfm("promote", "rain")
    assert site.ref("published/rain") == version


def test_a_format_that_is_taken_away_and_put_back_closes_the_gate_and_opens_it(tmp_path: Path) -> None:
    having = WITHOUT.replace("uri: rain.csv", "uri: rain.csv, format: csv, contract: {columns: [{name: mm}]}")
    site = Site(tmp_path / "site", {"kfm.yml": having, "rain.py": CODE, "rain.csv": RAIN}, lambda _n: "python")
    site.run("run", "--json")
    site.put("kfm.yml", WITHOUT)
    assert outcome(site.run("run", "--json")) == "unchanged"
    site.kfm("promote", "rain", code=4)
    site.put("kfm.yml", having)
    assert outcome(site.run("run", "--json")) == "unchanged"
    assert outcome(site.run("run", "--json")) == "noop"
    site.kfm("promote", "rain")


@pytest.mark.parametrize("runners", [("python", "node"), ("node", "python")], ids="-".join)
def test_a_contract_that_changed_is_no_repetition(tmp_path: Path, runners: tuple[str, str]) -> None:
    def config(kind: str) -> str:
        return (CONFIG % "").replace("TYPE", kind)

    site = Site(tmp_path / "site", {"kfm.yml": config("number"), "rain.csv": RAIN}, lambda n: runners[n % 2])
    said = []
    for kind in ("number", "number", "integer", "integer", "number", "number", "date"):
        site.put("kfm.yml", config(kind))
        said.append(outcome(site.run("run", "--json", code=3 if kind == "date" else 0)))
    assert said == ["done", "noop", "unchanged", "noop", "unchanged", "noop", "held"]
