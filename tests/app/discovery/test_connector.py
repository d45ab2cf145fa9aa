"""A connector is an updater: discover, acquire, transform, validate and publish pass through the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kfm.app.session.session import open_session
from kfm.config import load
from tests.engine.installations import Answer, Installation

STATIONS = """
import os
import signal

from kfm import Capabilities, Check, Connector, DatasetVersionRef, Output, ValidationReport, WorkArtifacts


class Stations(Connector):
    version = "1.0.0"

    def discover(self, ctx):
        listing = ctx.sources.pin("listing")
        names = ctx.sources.bytes(listing).decode().split()
        return Capabilities(tuple(f"data/{name}" for name in names))

    def transform(self, ctx, manifest):
        def made(position):
            return lambda read: Output.text(read.text(position).upper())

        sources = manifest.sources[1:]
        return WorkArtifacts({(ref.uri.split("/")[-1],): made(n) for n, ref in enumerate(sources, 1)})

    def validate(self, ctx, work):
        texts = [ctx.read.text(work.name(key)) for key in work.artifacts]
        return ValidationReport((Check("rows.some", bool(texts)), Check("no.empty", all(map(str.strip, texts)))))

    def publish(self, ctx, work, report):
        if os.environ.get("DIE_HERE"):
            os.kill(os.getpid(), signal.SIGKILL)
        said = {"checks": [check.id for check in report.checks], "artifacts": len(work.artifacts)}
        return DatasetVersionRef(ctx.version.dataset, ctx.version.digest, said)
"""

CONFIG = """\
accept_weak_storage: true
datasets:
  stations:
    updater: stations.py:Stations
    title: Stations
    license: CC0-1.0
    sensitivity: public
    sources:
      listing: {uri: data/listing.txt}
"""


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return installation(tmp_path, STATIONS)


def installation(folder: Path, code: str, names: str = "a.txt b.txt\n") -> Installation:
    (folder / "data").mkdir(parents=True)
    (folder / "kfm.yml").write_text(CONFIG)
    (folder / "stations.py").write_text(code)
    (folder / "data" / "listing.txt").write_text(names)
    for name in "abc":
        (folder / "data" / f"{name}.txt").write_text(f"rain at {name}\n")
    return Installation(folder)


def runs(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.data["receipts"]
    return found


def said_of(place: Installation) -> dict[str, Any]:
    """The metadata of the version there is, as the state has them."""
    with open_session(load(str(place.folder / "kfm.yml"), {}), mode="read") as session:
        version = session.state.ledger.version("stations", session.state.refs.at("processed/stations"))
    assert version is not None
    return version.metadata


def test_its_five_words_are_one_run_with_one_receipt(place: Installation) -> None:
    (receipt,) = runs(place.kfm("run", "--json"))
    assert (receipt["status"], receipt["outcome"]) == ("SUCCESS", "done")
    read = [item["id"] for item in receipt["inputs"]]
    assert read == ["data/listing.txt", "data/a.txt", "data/b.txt"]  # what discover() read is an input too
    assert place.kfm("cat", "processed/stations", "a.txt").out == "RAIN AT A\n"
    (again,) = runs(place.kfm("run", "--json"))
    assert again["outcome"] == "noop"


def test_what_publish_says_stands_with_the_version(place: Installation) -> None:
    place.kfm("run")
    said = said_of(place)
    assert (said["checks"], said["artifacts"], said["title"]) == (["rows.some", "no.empty"], 2, "Stations")


def test_a_new_name_in_the_listing_is_acquired_with_the_next_run(place: Installation) -> None:
    place.kfm("run")
    (place.folder / "data" / "listing.txt").write_text("a.txt b.txt c.txt\n")
    (receipt,) = runs(place.kfm("run", "--json"))
    assert receipt["outcome"] == "done"
    assert [entry["key"] for entry in place.kfm("cat", "processed/stations", "--json").data] == [
        ["a.txt"],
        ["b.txt"],
        ["c.txt"],
    ]


def test_a_check_that_fails_lets_nothing_be_published(place: Installation) -> None:
    place.kfm("run")
    before = place.kfm("refs", "list", "--json").data
    (place.folder / "data" / "a.txt").write_text(" \n")
    answer = place.kfm("run", expect=3)
    assert "validate() of stations: 1 of 2 checks failed: no.empty" in answer.err
    assert place.kfm("refs", "list", "--json").data == before
    (place.folder / "data" / "a.txt").write_text("rain again\n")
    place.kfm("run")


def test_a_dry_run_says_what_it_would_make_and_makes_nothing(place: Installation) -> None:
    (foretold,) = runs(place.kfm("run", "--dry-run", "--json"))
    assert not (place.folder / ".kfm").exists()
    (done,) = runs(place.kfm("run", "--json"))
    assert foretold["outputs"] == done["outputs"] and done["outputs"]


def test_killed_before_its_commit_it_publishes_what_the_report_said(tmp_path: Path) -> None:
    quiet = installation(tmp_path / "quiet", STATIONS)
    quiet.kfm("run")
    killed = installation(tmp_path / "killed", STATIONS)
    assert killed.kfm("run", env={"DIE_HERE": "1"}, expect=None).code == -9
    killed.kfm("resume")
    asked = ("cat", "processed/stations", "--json")
    assert killed.kfm(*asked).data == quiet.kfm(*asked).data
    assert said_of(killed) == said_of(quiet) and said_of(killed)["checks"] == ["rows.some", "no.empty"]


CHECKS = 'Check("rows.some", bool(texts)), Check("no.empty", all(map(str.strip, texts)))'
PART = "sources = manifest.sources[1:]"
LICENSE = 'said = {"license": "none", "checks"'

WRONG = {
    "discover() gives no Capabilities": ("return Capabilities(", "return tuple(", "discover() did not return"),
    "transform() gives no artifacts": ("return WorkArtifacts({", "return ({", "transform() did not return"),
    "a key that is a text": ("{(ref.uri.split", "{str(ref.uri.split", "is not a tuple of texts"),
    "validate() checks nothing": (f"({CHECKS})", "()", "it checked nothing"),
    "an answer that is no bool": ('Check("rows.some", bool(texts))', 'Check("rows.some", texts)', "not true or false"),
    "an id made of data": ('Check("rows.some"', "Check(texts[0]", "no plain id"),
    "publish() names another version": (
        "ctx.version.digest, said",
        '"sha256:" + "0" * 64, said',
        "a version that this run did not make",
    ),
    "publish() changes the licence": ('said = {"checks"', LICENSE, "sensitivity or license"),
    "transform() reaches outside": (PART, "open('/etc/hostname').read(); sources = ()", "open"),
    "transform() asks for a reader": (PART, "sources = ctx.read.inputs", "transform() has no read"),
    "discover() reads what it did not pin": ("bytes(listing)", "bytes(None)", "that was not pinned"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_connector_is_reported_in_one_line(tmp_path: Path, case: str) -> None:
    old, new, words = WRONG[case]
    assert old in STATIONS
    place = installation(tmp_path / "x", STATIONS.replace(old, new))
    answer = place.kfm("run", expect=3)
    assert words in answer.err and "Traceback" not in answer.err
    assert not any(ref["ref"].startswith("processed/") for ref in place.kfm("refs", "list", "--json").data)
