"""A hotfix corrects what everything shows of a dataset, or changes nothing; it reverts byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.interventions.conftest import SECOND, at, made, tree
from tests.cli.conftest import Kfm

FILE = """\
hotfix: better-title
dataset: tops
stac:
  patch:
    - {op: test, path: /title, value: tops}
    - {op: replace, path: /title, value: Tops of wells}
"""


def corrected(kfm: Kfm, text: str = FILE, *more: str) -> str:
    Path("fix.yml").write_text(text)
    answer = kfm("hotfix", "apply", "fix.yml", "--reason", "it was wrong", *more)
    return answer.err if answer.code else ""


def signed_by_two(kfm: Kfm) -> None:
    """Make a key list: an operator requests, and a steward signs."""
    assert kfm("keys", "new", "--person", "ada", "--role", "admin", "--out", "../safe/ada.key").code == 0
    for name, role in (("olli", "operator"), ("sue", "steward")):
        whose = ("--custodian", "museum") if role == "steward" else ()
        words = ("--person", name, "--role", role, *whose, "--out", f"../safe/{name}.key", "--key", "../safe/ada.key")
        assert kfm("keys", "new", *words).code == 0


def titles() -> set[str]:
    """Every title of `tops` that a reader sees."""
    catalog = json.loads(Path("catalog/catalog.jsonld").read_text())
    page = Path("public/datasets/tops/index.html").read_text()
    root = json.loads(Path("catalog/catalog.json").read_text())
    return {
        json.loads(Path("catalog/tops/collection.json").read_text())["title"],
        *(each["title"] for each in catalog["dataset"] if each["identifier"] == ["kfm://dataset/tops"]),
        *(each["title"] for each in root["links"] if each["href"] == "./tops/collection.json"),
        page.partition("<h1")[2].partition(">")[2].partition("<")[0],
        Path("public/datasets/tops/CITATION.cff").read_text().partition('title: "')[2].partition('"')[0],
        Path("public/datasets/tops/feed.xml").read_text().partition("<title>")[2].partition(": versions")[0],
    }


def test_every_reader_sees_a_correction_and_its_end_byte_for_byte(published: Kfm) -> None:
    before = tree("public", "catalog")
    assert titles() == {"tops"}
    assert corrected(published) == ""
    assert titles() == {"Tops of wells"}
    data = {path: digest for path, digest in tree("public").items() if "/versions/" in path}
    assert data == {
        path: digest for path, digest in before.items() if path.startswith("public") and "/versions/" in path
    }
    assert published("reconcile").code == 0, "the catalog that grew is the one that is built"
    assert published("hotfix", "list", "--json").data[0]["state"] == "applied"
    assert published("hotfix", "revert", "better-title", "--reason", "not needed").code == 0
    assert tree("public", "catalog") == before
    assert published("hotfix", "list", "--json").data == []


def test_a_correction_is_an_operation_with_receipt_lineage_and_ledger_entry(published: Kfm) -> None:
    version = at(published, "published/tops")
    assert corrected(published) == ""
    row = published("runs", "receipts", "--limit", "1", "--json").data[0]
    receipt = published("runs", "receipt", row["run_id"], "--json").data
    assert (receipt["job_type"], receipt["reason"]) == ("operation.hotfix", "it was wrong")
    assert [move["ref"] for move in receipt["moves"]] == ["hotfix/tops"]
    assert {"kfm://ref/published/tops", "kfm://dataset/tops"} <= {item["id"] for item in receipt["inputs"]}
    assert all(item["checksum"] == version for item in receipt["inputs"] if item["id"] == "kfm://dataset/tops")
    assert [(one["gate"], one["allow"]) for one in receipt["policy_decisions"]] == [("promotion.checklist", True)]
    assert published("audit", "export").code == 0
    exported = next(Path().rglob("data_provenance_ledger.json"))
    assert '"op_type":"hotfix"' in exported.read_text().replace(" ", "")
    assert "A hotfix corrected its title." in published("explain", "tops").out
    assert published("doctor", "--deep").code == 0


def test_a_correction_holds_for_the_next_version_while_that_says_what_it_expects(published: Kfm) -> None:
    assert corrected(published) == ""
    Path("tops.csv").write_text(SECOND)
    made(published, "tops")
    assert titles() == {"Tops of wells"}
    config = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(config.replace("title: tops", "title: Wells and their tops"))
    assert published("run", "tops", "--force", "--reason", "another title", "-q").code == 0
    Path("tops.csv").write_text(SECOND + "e,1\n")
    made(published, "tops")
    assert titles() == {"Wells and their tops"}, "the hotfix expects another title, so it changes nothing"
    assert published("hotfix", "list", "--json").data[0]["state"] == "waits"
    waiting = [each for each in published("review", "list", "--json").data if each["kind"] == "hotfix"]
    assert [each["dataset"] for each in waiting] == ["tops"]
    assert published("hotfix", "revert", "better-title", "--reason", "the source is right now").code == 0
    assert [each for each in published("review", "list", "--json").data if each["kind"] == "hotfix"] == []


def test_one_correction_builds_on_another_and_they_go_in_turn(published: Kfm) -> None:
    assert corrected(published) == ""
    once = tree("public", "catalog")
    more = FILE.replace("better-title", "best-title").replace("value: tops}", "value: Tops of wells}")
    assert (
        corrected(
            published, more.replace("replace, path: /title, value: Tops of wells", "replace, path: /title, value: Best")
        )
        == ""
    )
    assert titles() == {"Best"}
    answer = published("hotfix", "revert", "better-title", "--reason", "x")
    assert answer.code != 0 and "best-title" in answer.err and titles() == {"Best"}
    assert published("hotfix", "revert", "best-title", "--reason", "x").code == 0
    assert tree("public", "catalog") == once


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("value: tops}", "value: bottoms}"), "fix.yml:5:7: /title is 'tops' now"),
        (("    - {op: test, path: /title, value: tops}\n", ""), "without a precondition"),
        (("path: /title", "path: /titel"), "did you mean /title?"),
        (("path: /title", "path: /kfm:dataset"), "which no hotfix can correct"),
        (("path: /title", "path: /extent/spatial/bbox"), "which no hotfix can correct"),
        (("op: replace", "op: move"), "fix.yml:6"),
        (("Tops of wells", "''"), "is not a text"),
        (("Tops of wells", "tops"), "changes nothing"),
        (("dataset: tops", "dataset: topps"), "topps"),
        (("dataset: tops", "datset: tops"), "dataset"),
        (("hotfix: better-title", "hotfix: Better Title"), "is no name"),
        (("stac:", "stack:"), "stac"),
        (("hotfix: better-title", "hotfix: better-title\nversion: sha256:12"), "is no digest"),
        (("hotfix: better-title", "hotfix: better-title\nversion: sha256:" + "0" * 64), "fix.yml:2"),
    ],
)
def test_a_slip_in_the_file_is_refused_with_its_place_and_changes_nothing(
    published: Kfm, change: tuple[str, str], said: str
) -> None:
    before = tree("public", "catalog"), published("refs", "list").out
    assert change[0] in FILE
    problem = corrected(published, FILE.replace(*change))
    assert said in problem and problem.count("\n") <= 1 and "Traceback" not in problem, problem
    assert (tree("public", "catalog"), published("refs", "list").out) == before


def test_a_merge_patch_of_the_dcat_entry_says_what_it_expects(published: Kfm) -> None:
    text = "hotfix: d\ndataset: tops\ndcat:\n  expect: {title: tops}\n  merge: {title: Tops}\n"
    assert "without a precondition" in corrected(published, text.replace("  expect: {title: tops}\n", ""))
    assert corrected(published, text) == ""
    assert titles() == {"Tops"}


def test_a_licence_that_the_gate_refuses_is_not_applied(published: Kfm) -> None:
    text = FILE.replace("/title", "/license").replace("value: tops", "value: CC0-1.0")
    assert "is no SPDX identifier" in corrected(published, text.replace("Tops of wells", "free for all"))
    removed = text.replace("{op: replace, path: /license, value: Tops of wells}", "{op: remove, path: /license}")
    before = tree("public", "catalog")
    problem = corrected(published, removed)
    assert "licence: license is not declared" in problem, problem
    assert tree("public", "catalog") == before
    last = published("runs", "list", "--json").data[0]
    assert (last["op"], last["outcome"]) == ("hotfix", "denied")


def test_nothing_is_corrected_while_it_is_frozen_or_before_it_is_published(kfm: Kfm, published: Kfm) -> None:
    assert published("freeze", "tops", "--reason", "stop").code == 0
    assert corrected(published) != "" or titles() == {"tops"}
    assert titles() == {"tops"}
    assert published("thaw", "tops", "--reason", "go").code == 0
    assert published("rollback", "tops", "--to", "nothing", "--reason", "away").code == 0
    assert "is not published" in corrected(published)


def test_a_dry_run_and_a_diff_show_the_correction_and_write_nothing(published: Kfm) -> None:
    Path("fix.yml").write_text(FILE)
    before = tree("public", "catalog", ".kfm")
    shown = published("hotfix", "diff", "fix.yml", "--json").data
    assert {each["path"] for each in shown} == {"catalog.jsonld", "tops/collection.json"}
    assert "/title: 'tops' → 'Tops of wells'" in published("hotfix", "diff", "fix.yml").out
    assert published("hotfix", "apply", "fix.yml", "--dry-run").code == 0
    assert tree("public", "catalog", ".kfm") == before


def test_the_written_file_is_the_one_that_is_applied(published: Kfm) -> None:
    made_ = published(
        "hotfix", "new", "n", "tops", "--set", "title=It: {a}, 'b' \"c\" # d", "--set", "license=CC-BY-4.0"
    )
    assert made_.code == 0, made_.err
    assert published("hotfix", "apply", "hotfixes/n.yml", "--reason", "x").code == 0
    assert json.loads(Path("catalog/tops/collection.json").read_text())["title"] == "It: {a}, 'b' \"c\" # d"
    again = published("hotfix", "apply", "hotfixes/n.yml", "--reason", "x")
    assert again.code == 0, again.err
    assert "is there already" in published("hotfix", "new", "n", "tops", "--set", "title=x").err


def test_who_signs_a_hotfix_or_a_cascade_sees_every_text_and_every_move(published: Kfm) -> None:
    made_once = at(published, "published/deep")
    Path("tops.csv").write_text(SECOND)
    made(published, "tops", "deep")
    newer = at(published, "published/deep")
    signed_by_two(published)
    Path("fix.yml").write_text(FILE)
    operator = ("--reason", "it was wrong", "--key", "../safe/olli.key")
    assert published("hotfix", "apply", "fix.yml", *operator).code == 4
    (order,) = published("review", "list", "--json").data
    shown = published("review", "show", order["id"])
    assert "'Tops of wells'" in shown.out and "better-title" in shown.out
    correction = {"hotfix": "better-title", "field": "title", "from": "'tops'", "to": "'Tops of wells'"}
    assert published("review", "show", order["id"], "--json").data["more"]["corrections"] == [correction]
    assert published("review", "approve", order["id"], "--key", "../safe/sue.key").code == 0
    assert titles() == {"Tops of wells"}
    assert published("hotfix", "revert", "better-title", *operator).code == 4
    (order,) = published("review", "list", "--json").data
    back = {**correction, "from": correction["to"], "to": correction["from"]}
    assert published("review", "show", order["id"], "--json").data["more"]["corrections"] == [back]
    assert published("review", "reject", order["id"], "--key", "../safe/sue.key", "--reason", "no").code == 0
    assert published("rollback", "tops", "--cascade", *operator).code == 4
    (order,) = published("review", "list", "--json").data
    moves = published("review", "show", order["id"], "--json").data["more"]["moves"]
    assert moves == [{"ref": "published/deep", "from": newer, "to": made_once}]


def test_a_hotfix_of_a_withdrawn_dataset_is_taken_back_and_does_not_return_with_it(published: Kfm) -> None:
    before = tree("public", "catalog")
    assert corrected(published) == ""
    licence = FILE.replace("/title", "/license").replace("value: tops", "value: CC0-1.0")
    licence = licence.replace("better-title", "licence").replace("Tops of wells", "CC-BY-4.0")
    assert corrected(published, licence) == ""
    best = FILE.replace("better-title", "best").replace("Tops of wells", "Best").replace("tops}", "Tops of wells}")
    assert corrected(published, best) == ""
    version = at(published, "published/tops")
    assert published("rollback", "tops", "--to", "nothing", "--reason", "away").code == 0
    wrong_order = published("hotfix", "revert", "better-title", "--reason", "x")
    assert wrong_order.code == 3 and "kfm hotfix revert best" in wrong_order.complaint
    for name in ("best", "better-title", "licence"):
        assert published("hotfix", "revert", name, "--reason", "x").code == 0
    assert "is not published" in corrected(published), "nothing is corrected before it is public again"
    assert published("publish", "tops", "--to", version, "--reason", "back").code == 0
    assert titles() == {"tops"} and published("reconcile").code == 0
    same = {path for path, digest in tree("public", "catalog").items() if before.get(path) == digest}
    assert "public/datasets/tops/CITATION.cff" in same


def test_the_cure_of_a_missing_precondition_is_a_line_that_works(published: Kfm) -> None:
    text = "hotfix: d\ndataset: tops\ndcat:\n  merge: {title: Tops}\n"
    problem = corrected(published, text)
    line = problem.partition("expect: `")[2].partition("`")[0]
    assert line == 'expect: {title: "tops"}', problem
    assert corrected(published, text.replace("dcat:\n", f"dcat:\n  {line}\n")) == ""
    assert titles() == {"Tops"}
    nobody = "hotfix: e\ndataset: tops\ndcat:\n  merge: {rights: {attributionText: Ada}}\n"
    assert "corrects an attribution, and there is none" in corrected(published, nobody)


@pytest.mark.parametrize("words", [("title=One", "title=Two"), ("title=",), ("title= ",)])
def test_a_file_that_could_not_be_applied_is_not_written(published: Kfm, words: tuple[str, ...]) -> None:
    sets = [word for each in words for word in ("--set", each)]
    answer = published("hotfix", "new", "slip", "tops", *sets)
    assert answer.code == 3 and "--set" in answer.complaint and not Path("hotfixes/slip.yml").exists()


def test_a_hotfix_of_one_version_waits_because_of_the_version(published: Kfm) -> None:
    pinned = FILE.replace("dataset: tops", f"dataset: tops\nversion: {at(published, 'published/tops')}")
    assert corrected(published, pinned) == "" and titles() == {"Tops of wells"}
    Path("tops.csv").write_text(SECOND)
    made(published, "tops")
    (item,) = published("review", "list", "--json").data
    assert item["what"] == "hotfix better-title expects another version than tops has now"
    assert titles() == {"tops"}
