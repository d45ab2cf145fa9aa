"""`kfm explain` says in sentences how something was produced, each with a digest; a mistake gives one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kfm.store.sqlite import SqliteTables

from .conftest import Kfm, tree

CONFIG = """\
kfm: 1
datasets:
  stations:
    updater: chain.py:Stations
    title: "Stations & <others>"
    license: CC0-1.0
    sensitivity: public
    extent: {bbox: [-102.1, 36.9, -94.5, 40.1]}
    sources:
      stations: {uri: stations.csv, format: csv, contract: {columns: [{name: id}]}}
  monthly:
    updater: chain.py:Monthly
    title: By month
    license: CC0-1.0
    sensitivity: public
  yearly:
    updater: chain.py:Yearly
    title: By year
    license: CC0-1.0
    sensitivity: public
"""
UPDATERS = """\
from kfm import Output, Plan, Step, Updater


class Stations(Updater):
    id = "stations"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("stations")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.csv(list(read.csv(0)))


class Monthly(Stations):
    id = "monthly"
    version = "2.1.0"
    of = "processed/stations"

    def inputs(self, trigger, sources):
        return [sources.ref(self.of)]

    def perform(self, step, read):
        return Output.text(f"{self.id} of {len(read.bytes(0))} bytes")


class Yearly(Monthly):
    id = "yearly"
    of = "processed/monthly"
"""


@pytest.fixture
def chain(kfm: Kfm) -> Kfm:
    """Raw stations, harmonised, derived, and derived again."""
    Path("kfm.yml").write_text(CONFIG)
    Path("chain.py").write_text(UPDATERS)
    Path("stations.csv").write_text("station,rain\na,1\nb,2\n")
    for name in ("stations", "monthly", "yearly"):
        assert kfm("run", name).code == 0
    return kfm


def told(kfm: Kfm, thing: str) -> dict[str, Any]:
    answer = kfm("explain", thing, "--json")
    assert answer.code == 0, answer.err
    found: dict[str, Any] = answer.data
    return found


def tables() -> SqliteTables:
    return SqliteTables(".kfm/state.db")


def test_every_sentence_cites_a_digest_of_something_that_is_recorded(chain: Kfm) -> None:
    before = tree()
    found = told(chain, "yearly")
    assert len(found["lines"]) >= 8
    known = {item for row in chain("refs", "list", "--json").data for item in row.values()}
    entries = chain("audit", "export", "--stdout").out
    receipts = "".join(
        chain("runs", "receipt", row["run"], "--json").out for row in chain("runs", "list", "--json").data
    )
    objects = "".join(chain("cat", f"processed/{name}", "--json").out for name in ("stations", "monthly", "yearly"))
    for line in found["lines"]:
        assert line["cites"], line
        for cite in line["cites"]:
            assert re.fullmatch(r"sha256:[0-9a-f]{64}", cite), line
            assert cite in known or cite in entries + receipts + objects, line
    assert tree() == before


def test_the_chain_goes_from_raw_over_harmonised_to_derived(chain: Kfm) -> None:
    links = told(chain, "yearly")["chain"]
    assert [(link["stage"], link["name"]) for link in links] == [
        ("raw", "stations"),
        ("harmonised", "stations"),
        ("derived", "monthly"),
        ("derived", "yearly"),
    ]
    assert [link["reads"] for link in links] == [[], [0], [1], [2]]
    assert links[2]["updater"] == "monthly 2.1.0" and links[0]["run_id"] == ""


def test_it_shows_the_trigger_the_updater_and_the_last_good_run(chain: Kfm) -> None:
    made = told(chain, "stations")
    assert (made["trigger"], made["trigger_type"]) == ("manual", "on demand")
    assert (made["updater_id"], made["updater_version"]) == ("stations", "1.0.0")
    assert made["last_good"]["run_id"] == made["run_id"]
    assert chain("run", "stations").code == 0  # nothing to do: a good run all the same
    again = told(chain, "stations")
    assert again["run_id"] == made["run_id"] and again["last_good"]["outcome"] == "noop"
    assert again["last_good"]["run_id"] == chain("runs", "list", "--json").data[0]["run"]
    Path("stations.csv").unlink()
    assert chain("run", "stations").code != 0
    assert told(chain, "stations")["last_good"] == again["last_good"]


def test_a_thing_is_found_by_whatever_it_is_called(ran: Kfm) -> None:
    made = told(ran, "rain-gauges")
    version = made["version"]
    path = next(Path("public").glob("datasets/rain-gauges/versions/*/ford.csv"))
    for thing, kind in (
        ("kfm://dataset/rain-gauges", "dataset"),
        (version, "version"),
        (version[7:17], "version"),
        (f"rain-gauges@{version[7:15]}", "version"),
        ("published/rain-gauges", "ref"),
        ("kfm://ref/processed/rain-gauges", "ref"),
        (made["run_id"], "run"),
        (made["run_id"][:13], "run"),
        (str(path), "file"),
        (str(path.absolute()), "file"),
        (str(path.relative_to("public")), "file"),
        (str(path.parent.relative_to("public")), "version"),
        ("datasets/rain-gauges/current.json", "dataset"),
    ):
        found = told(ran, thing)
        assert (found["kind"], found["run_id"]) == (kind, made["run_id"]), thing
    entry = ran("cat", "processed/rain-gauges", "--json").data[0]
    assert (told(ran, entry["digest"])["kind"], told(ran, entry["digest"])["dataset"]) == ("object", "rain-gauges")
    assert told(ran, "last")["op"] == "promote"


def test_a_file_is_explained_by_the_run_that_was_the_first_to_give_it(ran: Kfm) -> None:
    first = told(ran, "rain-gauges")["run_id"]
    with Path("data/rain_gauges.csv").open("a") as file:
        file.write("colby,thomas,2026-01,9.9\n")
    assert ran("run").code == 0 and ran("promote", "rain-gauges", "--reason", "more").code == 0
    second = told(ran, "rain-gauges")["run_id"]
    version = told(ran, "rain-gauges")["version"][7:23]
    assert first != second
    assert told(ran, f"datasets/rain-gauges/versions/{version}/ford.csv")["run_id"] == first
    assert told(ran, f"datasets/rain-gauges/versions/{version}/thomas.csv")["run_id"] == second


def test_what_reads_a_public_file_is_derived_from_who_made_it(ran: Kfm) -> None:
    path = next(Path("public").glob("datasets/rain-gauges/versions/*/ford.csv"))
    with Path("kfm.yml").open("a") as file:
        file.write(
            "  ford:\n    version: 1.0.0\n    title: Ford\n    license: CC0-1.0\n    sensitivity: public\n"
            f"    sources: {{rain: {{uri: {path}, format: csv}}}}\n    outputs: {{rain: {{from: rain}}}}\n"
        )
    assert ran("run", "ford").code == 0
    links = told(ran, "ford")["chain"]
    assert [(link["stage"], link["name"]) for link in links] == [
        ("raw", "gauges"),
        ("harmonised", "rain-gauges"),
        ("derived", "ford"),
    ]


def test_the_other_forms_say_the_same(chain: Kfm) -> None:
    text = chain("explain", "yearly")
    assert text.code == 0 and "raw → harmonised → derived" in text.out
    found = told(chain, "yearly")
    for line in found["lines"]:
        assert line["text"] in text.out and line["cites"][0][:19] in text.out
    chart = chain("explain", "yearly", "--format", "mermaid").out
    assert chart.startswith("flowchart LR") and chart.count("-->") >= 6
    page = chain("explain", "yearly", "--format", "html").out
    assert page.startswith("<!doctype html>") and page.count("<svg") == 1
    for line in found["lines"]:
        assert line["cites"][0] in page


def test_a_page_is_written_whole_and_stands_alone(chain: Kfm) -> None:
    answer = chain("explain", "stations", "--format", "html", "--out", "page.html")
    assert (answer.code, answer.out) == (0, "")
    page = Path("page.html").read_text()
    assert page.count("<svg") == 2, "the chain, and the extent as a map"
    assert "Stations &amp; &lt;others&gt;" in page and "<others>" not in page
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", page)
    assert chain("explain", "stations", "--out", "page.json", "--json").code == 0
    assert json.loads(Path("page.json").read_text())["kind"] == "dataset"
    for bad in ("nowhere/page.html", "."):
        assert "kfm: " in chain("explain", "stations", "--out", bad).complaint


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ("station", "did you mean stations?"),
        ("processed/station", "did you mean processed/stations?"),
        ("sha256:" + "0" * 64, "there is no version and no object"),
        ("stations@beef", "no version of 'stations' begins with 'beef'"),
        ("00000000-0000", "there is no run"),
        ("datasets/stations/versions/0000000000000000/all.csv", "nothing here is called"),
        ("../../etc/passwd", "nothing here is called"),
        ("\x1b[31m", "nothing here is called"),
        ("", "nothing is named"),
    ],
)
def test_a_missing_name_is_reported_in_one_line(chain: Kfm, thing: str, said: str) -> None:
    for command in ("explain", "why-not"):
        answer = chain(command, thing)
        assert answer.code == 3 and answer.out == "", answer
        assert said in answer.complaint


def test_a_lineage_that_leads_back_to_itself_is_reported_as_damage(chain: Kfm) -> None:
    last = told(chain, "yearly")["run_id"]
    store = tables()
    store.begin()
    (key, body), *_ = store.scan("versions", "stations@")
    store.put("versions", key, json.dumps(json.loads(body) | {"run_id": last}).encode())
    store.commit()
    store.close()
    answer = chain("explain", "yearly")
    assert answer.code == 65 and "leads back to itself" in answer.complaint


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_missing_or_damaged_manifest_is_reported_in_one_line(chain: Kfm, how: str) -> None:
    version = told(chain, "yearly")["version"]
    store = tables()
    store.begin()
    if how == "missing":
        store.delete("objects", version)
    else:
        store.put("objects", version, b'{"digest":"sha256:00"}\n')
    store.commit()
    store.close()
    answer = chain("explain", "yearly")
    assert answer.code == 65 and how in answer.complaint and answer.out == ""


def test_a_dataset_that_never_ran_is_reported_so(started: Kfm) -> None:
    answer = started("explain", "rain-gauges")
    assert answer.code == 3 and "was never run" in answer.complaint


def test_what_no_run_ever_made_is_said_to_have_no_version(started: Kfm) -> None:
    Path("data/rain_gauges.csv").unlink()
    assert started("run").code != 0
    answer = started("explain", "rain-gauges", "--json")
    assert answer.code == 0, answer.err
    first = answer.data["lines"][0]
    assert first["text"].startswith("rain-gauges has no version: its last run, "), first
    assert all(all(each["cites"]) for each in answer.data["lines"])
    assert all(each["digest"] for each in answer.data["chain"])
