"""A dataset is never more open than the datasets it reads: by declaration or by label, at its run or today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.dependencies.conftest import DOWN, UP, at, declared, written
from tests.app.governance.people import by_order, make_list
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import IDS, KEY, SAFE, dataset, hits, installation, label, labels, table

EDGE = declared("edge", "{deep: {dataset: deep, format: csv}}")


@pytest.mark.parametrize("said", ["restricted", "generalised", ""])
def test_nothing_that_is_less_than_public_above_is_published_below(kfm: Kfm, said: str) -> None:
    written(
        UP.replace("sensitivity: public", f"sensitivity: {said}")
        if said
        else UP.replace("    sensitivity: public\n", ""),
        DOWN,
        EDGE,
    )
    for name in ("tops", "deep", "edge"):
        assert kfm("run", name).code == 0
    for name in ("deep", "edge"):
        answer = kfm("promote", name, "--reason", "I say it is public")
        assert answer.code in (4, 7), (name, answer.err)
        assert at(kfm, f"published/{name}") == ""


def test_what_is_closed_above_is_not_used_below(kfm: Kfm) -> None:
    written(UP, DOWN)
    assert kfm("run", "tops").code == 0
    written(UP.replace("sensitivity: public", "sensitivity: closed"), DOWN)
    answer = kfm("run", "deep")
    assert answer.code == 4 and "closed" in answer.complaint
    assert at(kfm, "processed/deep") == ""


@pytest.mark.parametrize("said", ["restricted", "closed", "generalised"])
def test_what_is_closed_above_after_publication_takes_back_what_is_below(kfm: Kfm, said: str) -> None:
    written(UP, DOWN, EDGE)
    for name in ("tops", "deep", "edge"):
        assert kfm("run", name).code == kfm("publish", name, "--reason", "new").code == 0
    written(UP.replace("sensitivity: public", f"sensitivity: {said}"), DOWN, EDGE)
    found = kfm("doctor", "--json").data
    closed = {one["check"] for one in found["checks"] if "closed since" in one["found"]}
    assert closed == {"published.tops", "published.deep", "published.edge"}
    assert kfm("resume").code == 0
    assert [at(kfm, f"published/{name}") for name in ("tops", "deep", "edge")] == ["", "", ""]
    assert not list(Path("public").rglob("*.csv"))


def test_what_once_read_a_closed_dataset_is_taken_back_whatever_it_reads_now(kfm: Kfm) -> None:
    written(UP, DOWN)
    for name in ("tops", "deep"):
        assert kfm("run", name).code == kfm("publish", name, "--reason", "new").code == 0
    apart = DOWN.replace("{dataset: tops,", "{uri: tops.csv,")
    written(UP.replace("sensitivity: public", "sensitivity: restricted"), apart)
    assert kfm("resume").code == 0
    assert at(kfm, "published/deep") == ""


def test_what_it_was_when_it_was_made_counts_whatever_is_declared_now(kfm: Kfm) -> None:
    written(UP.replace("sensitivity: public", "sensitivity: restricted"), DOWN)
    assert kfm("run", "tops").code == 0
    written(UP, DOWN)  # somebody takes the word out; the version is the same
    assert kfm("run", "deep").code == 0
    answer = kfm("promote", "deep", "--reason", "it says public")
    assert answer.code in (4, 7), answer.err
    assert at(kfm, "published/deep") == ""


def reads(name: str, other: str) -> str:
    return (
        f"  {name}:\n    updater: updaters.py:Copy\n    title: {name}\n    license: CC0-1.0\n    sensitivity: public\n"
        f"    sources: {{sites: {{dataset: {other}}}}}\n"
    )


@pytest.fixture
def site(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """A restricted table, one dataset that reads it, and one that reads that."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    installation(dataset("sites", "sites.csv"), reads("below", "sites"), reads("further", "below"))
    labels(label("dataset: sites", "restricted"))
    make_list(kfm, SAFE, "office")
    return kfm


def test_what_is_made_of_what_is_sealed_is_sealed_under_the_same_key(
    site: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sites", "below", "further"):
        answer = site("run", name)
        assert answer.code == 0, (name, answer.err)
        assert not any(secret in answer.out + answer.err for secret in IDS)
    assert hits() == [], "nothing protected lies in clear"
    assert IDS[0] in site("cat", "processed/further").out, "whoever has the key reads it"
    assert by_order(site, SAFE, "promote", "further").code in (4, 7)
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    Path("sites.csv").write_text(table() + f"{IDS[0]}9,camp,1950-06-01,37.1,-99.1,x\n")
    answer = site("run", "below", "--force", "--reason", "again")
    assert answer.code != 0 and IDS[0] not in answer.out + answer.err


def test_a_label_that_came_after_the_version_counts_for_what_reads_it(
    kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    every = dataset("sites", "plain.csv", sensitivity="public"), reads("below", "sites"), reads("further", "below")
    installation(*every, custodians=False)
    Path("plain.csv").write_text("name,kind\nEllis,county\n")
    labels()
    make_list(kfm, SAFE, "office")
    for name in ("sites", "below", "further"):
        assert kfm("run", name).code == 0
    assert by_order(kfm, SAFE, "promote", "further").code == 0
    assert at(kfm, "published/further")
    installation(*every)
    labels(label("dataset: sites", "restricted"))
    assert by_order(kfm, SAFE, "promote", "below").code in (4, 7)
    refused = kfm("run", "below", "--force", "--reason", "again")
    assert refused.code == 4 and "more protected than when it was made" in refused.complaint, refused.err
    assert at(kfm, "published/further") == "", "what was made of it was taken back"
    assert kfm("run", "sites").code == kfm("run", "below").code == 0
    assert by_order(kfm, SAFE, "promote", "below").code in (4, 7)


def test_what_was_masked_above_may_be_published_below(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    below = reads("below", "sites").replace("sensitivity: public", "sensitivity: generalised")
    installation(dataset("sites", "sites.csv", mask=True), below)
    labels(label("dataset: sites"), label("source: sites.csv"))
    make_list(kfm, SAFE, "office")
    ran = [kfm("run", name) for name in ("sites", "below")]
    assert [one.code for one in ran] == [0, 0], ran[1].err
    assert hits() == []
    assert not any(secret in kfm("cat", "processed/below").out for secret in IDS)
    assert by_order(kfm, SAFE, "promote", "below").code == 0
    assert at(kfm, "published/below")


def test_a_closed_label_above_keeps_what_reads_it_from_running(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    labels(label("dataset: sites", "closed"))
    answer = site("run", "below")
    assert answer.code == 4 and "closed" in answer.complaint
    assert at(site, "processed/below") == ""
