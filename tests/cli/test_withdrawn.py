"""A version that was rolled back or withdrawn is known as withdrawn by every report, and comes back only by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Kfm
from .test_status import commands, declare, one

WHY = "wrong units"


def change(rows: int) -> None:
    Path("list.csv").write_text("id,name\n" + "".join(f"{n},a\n" for n in range(rows)))


def version(kfm: Kfm, zone: str) -> str:
    found = {each["ref"]: each["version"] for each in kfm("refs", "list", "--json").data}
    return str(found.get(f"{zone}/birds", ""))


@pytest.fixture
def birds(kfm: Kfm) -> Kfm:
    """Two versions were published."""
    declare(birds="")
    for rows in (2, 3):
        change(rows)
        assert kfm("run").code == 0 and kfm("publish", "birds", "--reason", "new").code == 0
    return kfm


def back(kfm: Kfm, *words: str) -> str:
    """Take the public version back, and return it."""
    was = version(kfm, "published")
    assert kfm("rollback", "birds", *words, "--reason", WHY, "--actor", "anna").code == 0
    return was


def reasons(kfm: Kfm, thing: str) -> dict[str, dict[str, Any]]:
    return {each["what"]: each for each in kfm("why-not", thing, "--json").data["reasons"]}


@pytest.mark.parametrize("words", [(), ("--to", "nothing")])
def test_every_report_says_that_a_version_was_withdrawn_by_whom_and_why(birds: Kfm, words: tuple[str, ...]) -> None:
    was = back(birds, *words)
    said = "withdrawn by anna at "
    found = one(birds, "birds")
    assert not found["is_behind"] and found["is_withdrawn"] is bool(words)
    assert {name: found["withdrawal"][name] for name in ("version", "by", "reason", "current")} == {
        "version": was,
        "by": "anna",
        "reason": WHY,
        "current": version(birds, "published"),
    }
    assert not any(command.startswith("kfm publish") for command in commands(birds))
    shown = birds("status").out
    assert f"birds {was[7:19]} was {said}" in " ".join(shown.split()) and WHY in " ".join(shown.split())
    for thing in ("birds", was):
        reason = reasons(birds, thing)["withdrawn"]
        assert said in reason["why"] and reason["why"].endswith(WHY), reason
        assert reason["do"] == f"kfm publish birds --to {was[7:23]} --reason …"
        assert not {"unpublished", "superseded"} & reasons(birds, thing).keys()
    lines = [line["text"] for line in birds("explain", was, "--json").data["lines"]]
    assert any(f"It was {said}" in line and WHY in line for line in lines), lines
    moves = birds("refs", "history", "published/birds", "--json").data
    assert [move["n"] for move in moves if move["withdrawn"] and move["after"] == was] == [2]
    assert [move["n"] for move in moves if move["withdrawn"]] == ([1, 2] if words else [2])
    assert "withdrawn" in birds("refs", "history", "published/birds").out


@pytest.mark.parametrize("words", [(), ("--to", "nothing")])
def test_a_withdrawn_version_is_published_again_only_by_name_and_with_a_reason(
    birds: Kfm, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    was = back(birds, *words)
    public = version(birds, "published")
    for arguments in ((), ("--reason", "again")):
        refused = birds("publish", "birds", *arguments)
        assert refused.code == 3
        assert f"`kfm publish birds --to {was[7:23]} --reason …`" in refused.complaint
        assert "anna" in refused.complaint and version(birds, "published") == public
    with monkeypatch.context() as without:
        without.delenv("KFM_REASON")
        for word in ("publish", "rollback"):
            refused = birds(word, "birds", "--to", was[7:23])
            assert refused.code == 3 and "needs a reason" in refused.complaint
    assert version(birds, "published") == public
    assert birds("run", "--force", "--reason", "the same bytes").code == 0
    assert one(birds, "birds")["withdrawal"]["version"] == was and not one(birds, "birds")["is_behind"]
    assert birds("publish", "birds", "--to", was[7:23], "--reason", "units were right").code == 0
    assert version(birds, "published") == was and one(birds, "birds")["withdrawal"] is None
    assert "withdrawn" not in reasons(birds, "birds")


def test_a_newer_version_than_the_withdrawn_one_is_recommended(birds: Kfm) -> None:
    was = back(birds)
    change(4)
    assert birds("run").code == 0
    assert one(birds, "birds")["is_behind"] and one(birds, "birds")["withdrawal"] is None
    assert "kfm publish birds --reason …" in commands(birds)
    assert birds("publish", "birds").code == 0
    assert "withdrawn" in reasons(birds, was), "the old one stays withdrawn"


def test_only_the_processed_version_and_withdrawn_ones_can_be_named(birds: Kfm) -> None:
    first = birds("refs", "history", "published/birds", "--json").data[0]["after"]
    refused = birds("publish", "birds", "--to", first, "--reason", "the first")
    assert refused.code == 3 and "kfm rollback birds --to" in refused.complaint
    assert birds("publish", "birds", "--to", "no digest", "--reason", "x").code == 3
    assert birds("publish", "birds", "--to", "0000", "--reason", "x").code == 3


def test_a_rollback_takes_the_version_back_that_it_leaves_also_between_withdrawn_ones(birds: Kfm) -> None:
    moves = birds("refs", "history", "published/birds", "--json").data
    first, second = (move["after"] for move in moves)
    change(4)
    assert birds("run").code == 0 and birds("publish", "birds").code == 0
    third = version(birds, "published")
    for to in (first, third, second):
        assert birds("rollback", "birds", "--to", to, "--reason", "look").code == 0
    here = {path.name for path in Path("public/datasets/birds/versions").iterdir() if path.is_dir()}
    assert here == {first[7:23], second[7:23]}
    assert "withdrawn" in reasons(birds, third)
