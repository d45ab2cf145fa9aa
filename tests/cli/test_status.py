"""`kfm status` shows every dataset at a glance, and nothing of what is protected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Kfm, tree

LIST = """\
datasets:
{datasets}
"""
ONE = """\
  {name}:
    version: 1.0.0
    title: A list
    license: CC0-1.0
    sensitivity: public
    {more}
    sources:
      list:
        uri: list.csv
        format: csv
        contract: {{max_held_share: 1, columns: [{{name: id, required: true, mode: discard-row}}]}}
    outputs: {{all: {{from: list, format: csv}}}}
"""


def declare(**more: str) -> None:
    Path("kfm.yml").write_text(LIST.format(datasets="".join(ONE.format(name=n, more=m) for n, m in more.items())))


@pytest.fixture
def lists(kfm: Kfm) -> Kfm:
    Path("list.csv").write_text("id,name\n1,a\n2,b\n")
    declare(birds="", trees="freshness: {max_age: 1h}", stones="")
    return kfm


def one(kfm: Kfm, name: str) -> dict[str, Any]:
    found = kfm("status", "--json").data["datasets"]
    (only,) = (each for each in found if each["dataset"] == name)
    return dict(only)


def commands(kfm: Kfm) -> list[str]:
    return [each["command"] for each in kfm("status", "--json").data["next"]]


def test_a_dataset_is_followed_from_never_made_to_public(lists: Kfm) -> None:
    before = tree()
    assert "never made" in lists("status").out
    assert tree() == before, "it looks, and makes nothing"
    assert commands(lists) == ["kfm run birds", "kfm run stones", "kfm run trees"]
    assert lists("run", "birds").code == 0
    found = one(lists, "birds")
    assert (found["is_made"], found["is_public"], found["is_behind"], found["age_min"]) == (True, False, True, 0)
    assert commands(lists)[-1] == "kfm publish birds --reason …"
    assert lists("promote", "birds").code == 0
    found = one(lists, "birds")
    assert (found["is_public"], found["is_behind"]) == (True, False) and found["version"] == found["published"]
    assert "kfm publish birds --reason …" not in commands(lists)
    told = lists("status", "birds").out
    assert found["version"].removeprefix("sha256:")[:12] in told and "ok" in told.splitlines()[1].split()
    Path("list.csv").write_text("id,name\n1,a\n2,b\n3,c\n")
    assert lists("run", "birds").code == 0
    shown = lists("status", "birds").out
    assert "newer built" in shown and commands(lists)[-1] == "kfm publish birds --reason …"
    assert found["version"].removeprefix("sha256:")[:12] in shown, "the version whose age is shown"
    assert one(lists, "birds")["version"].removeprefix("sha256:")[:12] not in shown


def test_quarantined_failed_late_and_frozen_datasets_are_shown_with_what_to_do(
    lists: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"{n},a\n" for n in range(20))
    Path("list.csv").write_text(f"id,name\n{rows},b\n,c\n")
    monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
    assert lists("run", "trees").code == 0
    monkeypatch.setenv("KFM_NOW", "2026-01-01T03:30:00Z")
    found = one(lists, "trees")
    assert (found["held_rows"], found["freshness"], found["late_min"], found["age_min"]) == (2, "late", 150, 210)
    assert "late by 2h 30m" in lists("status", "trees").out and "2 held" in lists("status", "trees").out
    assert lists("promote", "trees").code == 0
    assert {"kfm quarantine trees", "kfm run trees"} <= set(commands(lists))
    assert lists("status", "--check").code == 3 and lists("status").code == 0
    assert lists("freeze", "trees").code == 0
    assert one(lists, "trees")["is_frozen"] and "kfm thaw trees --reason …" in commands(lists)
    assert "kfm run trees" not in commands(lists), "a frozen one would only wait"
    Path("list.csv").unlink()
    assert lists("run", "stones").code != 0
    failed = one(lists, "stones")
    assert failed["last_outcome"] == "failed" and f"kfm runs show {failed['last_run']}" in commands(lists)


def test_undelivered_and_waiting_work_is_shown(lists: Kfm) -> None:
    assert lists("run", "birds").code == 0
    Path("public").write_text("no folder can be made here")
    answer = lists("promote", "birds")
    assert answer.code != 0 and "its files are in" not in answer.err, "a file that is not there is claimed nowhere"
    assert "its public files are not all as the ref says yet" in answer.err
    assert one(lists, "birds")["is_undelivered"] and "kfm resume" in commands(lists)
    assert "undelivered" in lists("status").out
    Path("public").unlink()
    assert lists("resume").code == 0
    assert not one(lists, "birds")["is_undelivered"]
    assert lists("freeze").code == 0
    assert lists("run", "birds").code == 5
    assert one(lists, "birds")["waiting"] == 1 and "1 waiting" in lists("status").out
    assert commands(lists)[0] == "kfm thaw --reason …"


def test_it_fits_eighty_columns_whatever_things_are_called(lists: Kfm) -> None:
    long = "a" + "-very-long-name" * 4
    declare(**{long: "", "b": ""})
    assert lists("run").code == 0
    for answer in (lists("status"), lists("status", long)):
        assert max(map(len, answer.out.splitlines())) <= 80, answer.out
        assert f"DATASET  {long}" in answer.out.splitlines(), "a name is never broken"


def test_of_many_datasets_those_come_first_that_ask_for_attention(lists: Kfm) -> None:
    declare(**{f"d{n:03d}": "" for n in range(30)})
    names = [f"d{n:03d}" for n in range(30) if n != 27]
    assert lists("run", *names).code == 0
    assert all(lists("promote", name).code == 0 for name in names)
    told = lists("status").out
    assert told.splitlines()[1].split()[0] == "d027" and "10 more" in told
    assert len(lists("status", "--all").out.splitlines()) > 30 > len(told.splitlines())
    assert len(lists("status", "--json").data["datasets"]) == 30


LABELS = "version: 1\nlabels:\n  - {of: {dataset: birds}, sensitivity: restricted, care: open}\n"


def test_nothing_is_shown_of_a_dataset_that_was_labelled_since_it_was_made(lists: Kfm) -> None:
    Path("list.csv").write_text("id,name\n1,a\n,b\n")
    assert lists("run").code == 0
    open_ = one(lists, "birds")
    assert open_["version"] and open_["held_rows"] == 1
    Path("labels.yml").write_text(LABELS)
    Path("kfm.yml").write_text("labels: labels.yml\n" + Path("kfm.yml").read_text())
    closed = one(lists, "birds")
    assert (closed["level"], closed["version"], closed["held_rows"]) == ("restricted", "", None)
    assert closed["is_made"] and closed["is_held"]
    told = lists("status")
    assert "protected" in told.out and open_["version"][7:19] in told.out, "trees and stones have the same bytes"
    assert open_["version"][7:19] not in lists("status", "birds").out
    assert "1 held" not in lists("status", "birds").out and "kfm publish birds" not in told.out


def test_a_dataset_that_no_label_calls_public_is_shown_as_if_it_were_protected(lists: Kfm) -> None:
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("    sensitivity: public\n", "", 1))
    assert lists("run", "birds").code == 0
    assert (one(lists, "birds")["level"], one(lists, "birds")["version"]) == ("restricted", "")


def test_an_unknown_dataset_is_refused(lists: Kfm) -> None:
    answer = lists("status", "bird")
    assert answer.code == 3 and "did you mean birds?" in answer.complaint
