"""A dataset reads another: pinned to a version, recorded in the receipt, followed by every lineage command."""

from __future__ import annotations

from pathlib import Path

from tests.app.dependencies.conftest import DOWN, TOPS, UP, at, declared, last_receipt, written
from tests.cli.conftest import Kfm


def test_a_run_is_pinned_to_the_version_it_read(pair: Kfm) -> None:
    assert pair("run", "tops").code == 0
    assert pair("run", "deep").code == 0
    version = at(pair, "processed/tops")
    assert pair("cat", "processed/deep").out == "well,depth\nb,250\n"
    told = last_receipt(pair)
    assert told["inputs"] == [
        {"kind": "ref", "id": "kfm://ref/processed/tops", "checksum": version, "zone": "processed"}
    ]
    assert pair("run", "deep").out.count("noop") == 1, "the same version is the same work"


def test_another_version_is_other_work_and_the_same_one_again_is_none(pair: Kfm) -> None:
    for dataset in ("tops", "deep"):
        assert pair("run", dataset).code == 0
    first = at(pair, "processed/deep")
    Path("tops.csv").write_text(TOPS + "c,900\n")
    assert pair("run", "tops").code == 0
    assert at(pair, "processed/deep") == first, "nobody ran it"
    assert pair("run", "deep").code == 0
    assert pair("cat", "processed/deep").out == "well,depth\nb,250\nc,900\n"
    back = ("rollback", "tops", "--ref", "processed/tops", "--reason", "wrong")
    assert pair(*back).code == 0
    assert pair("run", "deep").code == 0
    assert at(pair, "processed/deep") == first


def test_all_of_them_are_run_in_the_order_in_which_they_read_each_other(pair: Kfm) -> None:
    assert pair("run").code == 0, "deep comes before tops only by name"
    assert pair("cat", "processed/deep").out == "well,depth\nb,250\n"
    Path("tops.csv").write_text(TOPS + "c,900\n")
    assert pair("run").code == 0
    assert pair("cat", "processed/deep").out == "well,depth\nb,250\nc,900\n"


def test_what_has_no_version_yet_is_said_so(pair: Kfm) -> None:
    answer = pair("run", "deep")
    assert answer.code == 3
    assert "source tops: tops has no processed version yet" in answer.complaint
    assert "kfm run tops" in answer.err


def test_what_was_withdrawn_is_said_so(kfm: Kfm) -> None:
    written(UP, DOWN.replace("dataset: tops", "dataset: tops, zone: published"))
    assert kfm("run", "tops").code == 0
    assert "kfm publish tops" in kfm("run", "deep").err
    assert kfm("promote", "tops", "--reason", "ready").code == 0
    assert kfm("run", "deep").code == 0
    assert kfm("rollback", "tops", "--to", "nothing", "--reason", "wrong").code == 0
    answer = kfm("run", "deep")
    assert answer.code == 3 and "published/tops was withdrawn" in answer.complaint
    assert at(kfm, "processed/deep"), "what was made before stays"


def test_a_version_can_be_named_and_then_no_newer_one_is_read(pair: Kfm) -> None:
    assert pair("run", "tops").code == 0
    first = at(pair, "processed/tops")
    Path("tops.csv").write_text(TOPS + "c,900\n")
    assert pair("run", "tops").code == 0
    written(UP, DOWN.replace("dataset: tops", f"dataset: tops, version: '{first}'"))
    assert pair("run", "deep").code == 0
    assert pair("cat", "processed/deep").out == "well,depth\nb,250\n"
    written(UP, DOWN.replace("dataset: tops", f"dataset: tops, version: 'sha256:{'0' * 64}'"))
    answer = pair("run", "deep")
    assert answer.code == 3 and "tops never had the version sha256:000000000000" in answer.complaint


TWO = declared("two", "{wells: {uri: tops.csv, format: csv}}").replace(
    "outputs: {two: {from: wells}}", "outputs: {one: {from: wells}, other: {from: wells, format: json}}"
)


def test_of_several_keys_one_is_named(kfm: Kfm) -> None:
    reads = declared("deep", "{tops: {dataset: two, format: csv}}")
    written(TWO, reads)
    assert kfm("run", "two").code == 0
    answer = kfm("run", "deep")
    assert answer.code == 3 and "two has 2 keys, and one of them is to be read" in answer.complaint
    written(TWO, reads.replace("dataset: two", "dataset: two, key: [one]"))
    assert kfm("run", "deep").code == 0
    assert kfm("cat", "processed/deep").out == TOPS
    written(TWO, reads.replace("dataset: two", "dataset: two, key: [none]"))
    answer = kfm("run", "deep")
    assert answer.code == 3 and "does not have the key it reads" in answer.complaint


def test_another_key_of_the_same_version_is_other_work(kfm: Kfm) -> None:
    two = TWO.replace("other: {from: wells, format: json}", "other: {from: wells, steps: [{select: [well]}]}")
    reads = declared("deep", "{tops: {dataset: two, key: [one], format: csv}}")
    written(two, reads)
    assert kfm("run", "two").code == kfm("run", "deep").code == 0
    written(two, reads.replace("key: [one]", "key: [other]"))
    assert kfm("run", "deep").code == 0
    assert kfm("cat", "processed/deep").out == "well\na\nb\n"


CODE = """
from kfm import Output, Plan, Step, Updater

class Counts(Updater):
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("all")]
    def plan(self, inputs):
        return Plan([Step(id="n", key=("n",))])
    def perform(self, step, read):
        return Output.json({"/".join(key): len(read.bytes(("all", *key))) for key in read.keys("all")})
"""


def test_code_reads_every_key_of_a_version(kfm: Kfm) -> None:
    Path("code.py").write_text(CODE)
    written(TWO, "  sizes: {updater: 'code.py:Counts', sources: {all: {dataset: two}}}\n")
    assert kfm("run", "two").code == kfm("run", "sizes").code == 0
    entries = kfm("cat", "processed/two", "--json").data
    assert sorted(each["size"] for each in entries) == sorted(
        int(n)
        for n in kfm("cat", "processed/sizes").out.strip("{}\n").replace('"', "").replace(":", ",").split(",")[1::2]
    )


def test_a_contract_is_held_against_what_is_read(kfm: Kfm) -> None:
    strict = "{tops: {dataset: tops, contract: {format: csv, columns: [{name: depth, type: integer, maximum: 200}]}}}"
    written(UP, declared("deep", strict))
    assert kfm("run", "tops").code == 0
    answer = kfm("run", "deep")
    assert answer.code == 3 and "is held" in answer.complaint
    assert at(kfm, "processed/deep") == ""


def test_it_may_be_promoted_like_any_other(pair: Kfm) -> None:
    assert pair("run", "tops").code == pair("run", "deep").code == 0
    answer = pair("promote", "deep", "--reason", "ready")
    assert answer.code == 0, answer.err
    assert at(pair, "published/deep") == at(pair, "processed/deep")


def test_lineage_explain_and_reproduce_go_through_it(pair: Kfm) -> None:
    assert pair("run", "tops").code == pair("run", "deep").code == 0
    above = pair("lineage", "upstream", "deep", "--json").data["steps"]
    assert [(each["to"]["id"], each["depth"]) for each in above] == [("tops", 1), ("tops.csv", 2)]
    below = pair("lineage", "downstream", "tops.csv", "--json").data["steps"]
    assert [each["to"]["id"] for each in below] == ["tops", "deep"]
    told = pair("explain", "deep", "--json").data
    assert [link["name"] for link in told["chain"]] == ["wells", "tops", "deep"]
    Path("tops.csv").write_text(TOPS + "c,900\n")
    assert pair("run", "tops").code == 0
    again = pair("reproduce", "deep", "--json")
    assert again.code == 0 and again.data["identical"], again.out


def test_a_dry_run_reads_it_and_changes_nothing(pair: Kfm) -> None:
    assert pair("run", "tops").code == 0
    answer = pair("run", "deep", "--dry-run", "--json")
    assert answer.code == 0, answer.err
    assert at(pair, "processed/deep") == ""
