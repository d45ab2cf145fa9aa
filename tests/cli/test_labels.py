"""`kfm labels show` prints the labels in force, why and until when; `kfm labels set` changes them and loses no
comment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.protected import KEY, LABELS, laid_out

from .conftest import Kfm, tree

CONFIG = """\
labels: labels.yml
custodians:
  society: {key: "env:KFM_SECRET_SOCIETY"}
datasets:
  sites:
    title: Sites
    license: CC-BY-4.0
    updater: kfm:Table
    sources:
      sites: {uri: sites.csv, format: csv, mask: mask.yml}
      roads: {uri: roads.csv, format: csv}
  roads:
    title: Roads
    license: CC0-1.0
    sensitivity: public
    updater: kfm:Table
    sources:
      roads: {uri: roads.csv, format: csv}
"""


@pytest.fixture
def steward(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    laid_out(3)
    Path("kfm.yml").write_text(CONFIG)
    Path("roads.csv").write_text("road,kind\nK-18,state\n")
    monkeypatch.setenv("KFM_NOW", "2027-06-20T12:00:00Z")
    monkeypatch.setenv("KFM_SECRET_SOCIETY", KEY)
    return kfm


def test_a_label_in_force_is_shown_with_its_reason_its_end_and_its_place(steward: Kfm) -> None:
    before = tree()
    answer = steward("labels", "show", "sites", "--json")
    assert answer.code == 0, answer.err
    rows = {row["source"]: row for row in answer.data}
    assert set(rows) == {"sites", "roads"}
    one = rows["sites"]
    assert (one["level"], one["resolution"], one["publishable"]) == ("generalised", 7, True)
    assert one["custodians"] == ["society"] and one["expires"] == "2027-06-30" and one["days_left"] == 10
    assert one["labels"] == [{"on": "dataset sites", "at": "labels.yml:4"}]
    assert "label.resolution" in one["rules"]
    assert tree() == before
    shown = steward("labels", "show").out
    assert "generalised" in shown and "labels.yml:4" in shown and "public" in shown


def test_an_expired_consent_is_reported(steward: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_NOW", "2027-07-01T00:00:00Z")
    (one, _) = steward("labels", "show", "sites", "--json").data
    assert one["level"] == "closed" and "label.expired" in one["rules"] and one["days_left"] == -1
    assert "the consent ended" in steward("labels", "show", "sites").err
    monkeypatch.setenv("KFM_NOW", "2027-06-28T00:00:00Z")
    assert "ends in 2 days" in steward("labels", "show", "sites").err


def test_a_source_is_found_by_its_address_too(steward: Kfm) -> None:
    rows = steward("labels", "show", "roads.csv", "--json").data
    assert [row["dataset"] for row in rows] == ["roads", "sites"]
    assert {row["dataset"]: row["level"] for row in rows} == {"sites": "generalised", "roads": "public"}
    answer = steward("labels", "show", "rods.csv")
    assert answer.code == 3 and "roads.csv" in answer.complaint


def test_a_label_on_nothing_that_is_read_is_reported(steward: Kfm) -> None:
    Path("labels.yml").write_text(LABELS.replace("dataset: sites", "dataset: sties"))
    answer = steward("labels", "show")
    assert "labels.yml:4" in answer.err and "nothing here" in answer.err


def test_a_new_label_is_added_and_every_comment_stays(steward: Kfm) -> None:
    words = ["labels", "set", "source:roads.csv", "--sensitivity", "restricted", "--care", "community",
             "--custodian", "society", "--community-label", "TK CS", "--reason", "a road of theirs"]  # fmt: skip
    answer = steward(*words, "--dry-run")
    assert answer.code == 0, answer.err
    assert Path("labels.yml").read_text() == LABELS
    assert "+    sensitivity: restricted" in answer.out
    answer = steward(*words)
    assert answer.code == 0, answer.err
    assert Path("labels.yml").read_text().startswith(LABELS)
    assert {row["level"] for row in steward("labels", "show", "roads.csv", "--json").data} == {"restricted"}


def test_tightening_a_label_takes_one_and_changes_one_line(steward: Kfm) -> None:
    answer = steward("labels", "set", "dataset:sites", "--resolution", "5", "--reason", "too fine")
    assert answer.code == 0, answer.err
    assert Path("labels.yml").read_text() == LABELS.replace("public_resolution: 7", "public_resolution: 5")
    assert steward("labels", "set", "dataset:sites", "--sensitivity", "closed", "--reason", "x").code == 0
    assert {row["level"] for row in steward("labels", "show", "sites", "--json").data} == {"closed"}
    assert "# The society decided" in Path("labels.yml").read_text()


LOOSER = {
    "a finer cell": ["--resolution", "8"],
    "a longer consent": ["--expires", "2030-01-01"],
    "no end": ["--expires", ""],
    "open words": ["--sensitivity", "public", "--care", "open"],
    "another care": ["--care", "open"],
    "another custodian": ["--custodian", "museum"],
    "nobody who decides": ["--authority", ""],
}


@pytest.mark.parametrize("name", LOOSER)
def test_one_alone_does_not_loosen(steward: Kfm, name: str) -> None:
    answer = steward("labels", "set", "dataset:sites", *LOOSER[name], "--reason", "a trial")
    assert answer.code == 4
    assert "two" in answer.complaint
    assert Path("labels.yml").read_text() == LABELS


def test_a_label_in_brackets_is_changed_where_it_stands(steward: Kfm) -> None:
    flow = (
        "version: 1\nlabels: [{of: {dataset: sites}, sensitivity: generalised, care: community, custodian: society, "
        "public_resolution: 7}]  # decided\n"
    )
    Path("labels.yml").write_text(flow)
    assert steward("labels", "set", "dataset:sites", "--resolution", "5", "--reason", "x").code == 0
    assert Path("labels.yml").read_text() == flow.replace("public_resolution: 7", "public_resolution: 5")


def test_a_file_that_cannot_be_changed_in_place_is_left_alone_and_the_line_is_named(steward: Kfm) -> None:
    text = LABELS + "    community_labels:\n      - TK A  # the elders asked for it\n      - TK CS\n"
    Path("labels.yml").write_text(text)
    answer = steward("labels", "set", "dataset:sites", "--community-label", "TK F", "--reason", "x")
    assert answer.code == 3
    assert "under dataset sites: community_labels: [TK F]" in answer.complaint
    assert Path("labels.yml").read_text() == text


WRONG = {
    "no such dataset": ["dataset:stes", "--sensitivity", "closed"],
    "no such thing": ["sites", "--sensitivity", "closed"],
    "no word": ["dataset:sites"],
    "a word nobody knows": ["dataset:sites", "--sensitivity", "secret"],
    "a day that is none": ["dataset:sites", "--expires", "2027-02-30"],
    "a code nobody knows": ["dataset:sites", "--community-label", "TK XX"],
    "a first label without care": ["dataset:roads", "--sensitivity", "closed"],
    "bytes that are none": ["bytes:sha256:12", "--sensitivity", "closed", "--care", "open"],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_reported(steward: Kfm, name: str) -> None:
    answer = steward("labels", "set", *WRONG[name], "--reason", "x")
    assert answer.code == 3 and answer.complaint
    assert Path("labels.yml").read_text() == LABELS


def test_without_a_file_of_labels_the_error_says_how_to_get_one(kfm: Kfm, started: Kfm) -> None:
    answer = started("labels", "set", "dataset:rain-gauges", "--sensitivity", "closed", "--care", "open")
    assert answer.code == 3 and "labels: labels.yml" in answer.complaint
    assert started("labels", "show").code == 0
    with Path("kfm.yml").open("a") as file:
        file.write("\nlabels: labels.yml\n")
    words = ["labels", "set", "dataset:rain-gauges", "--sensitivity", "closed", "--care", "sacred", "--reason", "x"]
    assert started(*words).code == 0
    assert "rain-gauges" in Path("labels.yml").read_text()
    assert {row["level"] for row in kfm("labels", "show", "--json").data} == {"closed"}
