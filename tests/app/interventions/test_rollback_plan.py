"""A rollback takes along what it is told to, in one commit, or says what it leaves."""

from __future__ import annotations

import json
from pathlib import Path

from tests.app.dependencies.conftest import TOPS
from tests.app.interventions.conftest import SECOND, THIRD, at, made, tree
from tests.app.interventions.test_hotfix import corrected, titles
from tests.cli.conftest import Kfm


def renewed(kfm: Kfm, text: str, *datasets: str) -> None:
    Path("tops.csv").write_text(text)
    made(kfm, *datasets)


def last_moves(kfm: Kfm) -> list[tuple[str, str]]:
    row = kfm("runs", "receipts", "--limit", "1", "--json").data[0]
    receipt = kfm("runs", "receipt", row["run_id"], "--json").data
    return [(move["ref"], move["after"]) for move in receipt["moves"]]


def test_what_was_made_of_it_goes_back_in_the_same_commit(published: Kfm) -> None:
    before = tree("public", "catalog")
    versions = at(published, "published/tops"), at(published, "published/deep")
    renewed(published, SECOND, "tops", "deep")
    later = tree("public", "catalog")
    newer = at(published, "published/tops"), at(published, "published/deep")
    assert newer[0] != versions[0] and newer[1] != versions[1]
    answer = published("rollback", "tops", "--cascade", "--reason", "it was wrong")
    assert answer.code == 0, answer.err
    assert sorted(last_moves(published)) == [("published/deep", versions[1]), ("published/tops", versions[0])]
    assert _said(tree("public", "catalog")) == _said(before)
    assert published("reconcile").code == 0 and published("doctor", "--deep").code == 0
    for name, version in (("tops", newer[0]), ("deep", newer[1])):
        assert published("rollback", name, "--to", version, "--reason", "it was right").code == 0
    assert _said(tree("public", "catalog")) == _said(later)


def _said(files: dict[str, str]) -> dict[str, str]:
    """The files but the pages, which list every version that was taken back."""
    return {path: digest for path, digest in files.items() if not path.endswith(".html")}


def test_what_stays_behind_is_named(published: Kfm) -> None:
    renewed(published, SECOND, "tops", "deep")
    answer = published("rollback", "tops", "--reason", "it was wrong")
    assert answer.code == 0 and "deep stays public, and was made of what is taken back" in answer.err
    renewed(published, THIRD, "tops", "deep")
    shown = published("rollback", "tops", "--dry-run", "--cascade")
    assert shown.code == 0 and "published/deep" in shown.out + shown.err
    assert "stays public" not in shown.err


def test_what_stayed_behind_is_taken_along_later_by_the_command_that_the_refusal_names(published: Kfm) -> None:
    versions = at(published, "published/tops"), at(published, "published/deep")
    renewed(published, SECOND, "tops", "deep")
    assert published("rollback", "tops", "--reason", "it was wrong").code == 0
    answer = published("rollback", "tops", "--cascade", "--reason", "it was wrong")
    assert answer.code == 3 and "deep stayed public" in answer.complaint
    command = answer.complaint.partition("`kfm ")[2].partition("`")[0].replace("…", "again")
    assert "--cascade" in command and published(*command.split()).code == 0
    assert (at(published, "published/tops"), at(published, "published/deep")) == versions
    assert published("rollback", "tops", "--cascade", "--reason", "it was wrong").code == 3, "once"
    assert (at(published, "published/tops"), at(published, "published/deep")) == versions


def test_a_dataset_that_was_never_made_of_anything_else_is_decided_by_itself(published: Kfm) -> None:
    first = at(published, "published/tops")
    renewed(published, SECOND, "tops")
    published("rollback", "deep", "--to", "nothing", "--reason", "away")
    made(published, "deep")
    before = published("refs", "list").out
    answer = published("rollback", "tops", "--to", first, "--cascade", "--reason", "it was wrong")
    if answer.code:  # its first version was withdrawn, so there is none to go back to
        assert "kfm rollback deep --to nothing" in answer.err
        assert published("refs", "list").out == before
    else:
        raise AssertionError("a withdrawn version came back")


def test_a_version_that_a_right_one_gives_too_stays_unless_everything_is_withdrawn(published: Kfm) -> None:
    first, deep = at(published, "published/tops"), at(published, "published/deep")
    renewed(published, TOPS.replace("a,100", "a,101"), "tops")
    row = published("run", "deep", "--json").data["receipts"][0]
    assert row["outcome"] == "unchanged", "the same bytes come of the version that is taken back"
    shown = published("rollback", "tops", "--dry-run")
    assert shown.code == 0 and "stays public" not in shown.err
    assert published("rollback", "tops", "--cascade", "--reason", "it was wrong").code == 0
    assert (at(published, "published/tops"), at(published, "published/deep")) == (first, deep)
    assert published("reconcile").code == 0
    assert published("rollback", "tops", "--to", "nothing", "--cascade", "--reason", "away").code == 0
    assert at(published, "published/tops") == at(published, "published/deep") == ""


def test_a_withdrawal_takes_along_everything_that_was_made_of_it(published: Kfm) -> None:
    answer = published("rollback", "tops", "--to", "nothing", "--cascade", "--reason", "it may not be public")
    assert answer.code == 0, answer.err
    assert at(published, "published/tops") == at(published, "published/deep") == ""
    left = [path for path in tree("public", "catalog") if "/tops/" in path or "/deep/" in path]
    assert [path for path in left if path.endswith((".csv", ".ndjson", "collection.json", "index.html"))] == []


def test_a_withdrawal_takes_along_what_was_made_of_a_version_that_was_never_public(published: Kfm) -> None:
    first = at(published, "published/tops")
    Path("tops.csv").write_text(SECOND)
    assert published("run", "-q").code == 0
    assert published("publish", "deep", "--reason", "new", "-q").code == 0
    assert at(published, "published/tops") == first != at(published, "processed/tops")
    alone = published("rollback", "tops", "--to", "nothing", "--dry-run")
    assert alone.code == 0 and "deep stays public, and was made of what is taken back" in alone.err
    answer = published("rollback", "tops", "--to", "nothing", "--cascade", "--reason", "it may not be public")
    assert answer.code == 0 and at(published, "published/tops") == at(published, "published/deep") == ""


def test_a_frozen_dataset_is_not_taken_along(published: Kfm) -> None:
    renewed(published, SECOND, "tops", "deep")
    before = at(published, "published/tops"), at(published, "published/deep")
    assert published("freeze", "deep", "--reason", "look").code == 0
    assert published("rollback", "tops", "--cascade", "--reason", "it was wrong").code != 0
    assert (at(published, "published/tops"), at(published, "published/deep")) == before


def test_a_version_is_named_by_its_time_or_its_run(published: Kfm) -> None:
    first = at(published, "published/tops")
    history = published("refs", "history", "published/tops", "--json").data
    made_by = [each["run_id"] for each in published("runs", "receipts", "--json").data if each["dataset"] == "tops"]
    renewed(published, SECOND, "tops")
    second = at(published, "published/tops")
    assert published("rollback", "tops", "--at", history[0]["ts"], "--reason", "as it was then").code == 0
    assert at(published, "published/tops") == first
    assert published("rollback", "tops", "--to", second, "--reason", "on").code == 0
    assert published("rollback", "tops", "--run", made_by[-1], "--reason", "as that run made it").code == 0
    assert at(published, "published/tops") == first
    for words, said in (
        (("--at", "yesterday"), "is no time"),
        (("--at", "1999-01-01T00:00:00Z"), "had no version"),
        (("--run", "ffffffff"), "there is no run"),
        (("--to", first, "--at", history[0]["ts"]), "not allowed with"),
    ):
        answer = published("rollback", "tops", *words, "--reason", "x")
        assert answer.code != 0 and said in answer.err, answer.err


def test_hotfixes_stay_unless_they_are_taken_back_too(published: Kfm) -> None:
    first, before = at(published, "published/tops"), tree("public", "catalog")
    renewed(published, SECOND, "tops")
    second = at(published, "published/tops")
    assert corrected(published) == "" and titles() == {"Tops of wells"}
    later = tree("public", "catalog")
    assert published("rollback", "tops", "--reason", "the data were wrong").code == 0
    assert titles() == {"Tops of wells"}, "a correction is not lost with a version"
    assert published("rollback", "tops", "--to", second, "--reason", "on again").code == 0
    assert published("hotfix", "revert", "better-title", "--reason", "x").code == 0
    assert published("rollback", "tops", "--to", first, "--reason", "x").code == 0
    assert published("rollback", "tops", "--to", second, "--hotfixes", "--reason", "as it was").code == 0
    assert [ref for ref, _ in last_moves(published)] == ["published/tops"], "it was reverted before it was left"
    assert corrected(published) == "" and _said(tree("public", "catalog")) == _said(later)
    answer = published("rollback", "tops", "--to", first, "--hotfixes", "--reason", "as it was")
    assert answer.code == 0, answer.err
    assert sorted(ref for ref, _ in last_moves(published)) == ["hotfix/tops", "published/tops"]
    assert titles() == {"tops"} and _said(tree("public", "catalog")) == _said(before)
    answer = published("rollback", "tops", "--to", second, "--hotfixes", "--reason", "as it was")
    assert answer.code == 0, answer.err
    assert titles() == {"Tops of wells"} and _said(tree("public", "catalog")) == _said(later)


def test_a_dry_run_writes_a_report_for_those_who_decide(published: Kfm) -> None:
    first = at(published, "published/tops")
    renewed(published, SECOND, "tops", "deep")
    before = tree("public", "catalog", ".kfm")
    for name in ("r.md", "r.html", "r.json"):
        assert published("rollback", "tops", "--dry-run", "--report", name, "--reason", "<b>").code == 0
    assert tree("public", "catalog", ".kfm") == before
    report = json.loads(Path("r.json").read_text())
    assert [(move["ref"], move["after"]) for move in report["moves"]] == [("published/tops", first)]
    assert (report["allowed"], report["broken_links"], report["refused"]) == (True, 0, [])
    assert [each["dataset"] for each in report["stays"]] == ["deep"]
    assert [(one["gate"], one["allow"]) for one in report["decisions"]] == [("promotion.checklist", True)]
    assert f"| published/tops | {at(published, 'published/tops')} | {first} |" in Path("r.md").read_text()
    page = Path("r.html").read_text()
    assert f"<td>{first}</td>" in page and "<b>" not in page and "&lt;b&gt;" in page
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("license: CC0-1.0", "license: ''", 1))
    assert published("rollback", "tops", "--dry-run", "--report", "r.json", "--reason", "x").code != 0
    refused = json.loads(Path("r.json").read_text())
    assert not refused["allowed"] and refused["refused"] and not refused["decisions"][0]["allow"]
    for words, said in (
        (("--report", "r.md"), "add --dry-run"),
        (("--dry-run", "--report", "r.txt"), ".md, .html or .json"),
        (("--dry-run", "--report", "no/r.md"), "make the folder first"),
    ):
        answer = published("rollback", "tops", *words, "--reason", "x")
        assert answer.code != 0 and said in answer.err, answer.err
