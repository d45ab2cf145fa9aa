"""Red stops all work, amber risky work alone; a thaw does what its plan shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.interventions.conftest import SECOND, THIRD, at, made
from tests.app.interventions.test_hotfix import FILE, corrected, signed_by_two, titles
from tests.cli.conftest import Kfm


def states(kfm: Kfm) -> dict[str, tuple[bool, bool]]:
    return {each["dataset"]: (each["is_frozen"], each["is_amber"]) for each in kfm("status", "--json").data["datasets"]}


def automatic(kfm: Kfm) -> None:
    path = Path("kfm.yml")
    path.write_text(path.read_text().replace("    title: tops\n", "    title: tops\n    promote: auto\n"))


@pytest.mark.parametrize("scope", ["global", "tops"])
def test_amber_stops_hotfixes_and_automatic_promotions_and_nothing_else(published: Kfm, scope: str) -> None:
    automatic(published)
    before = at(published, "published/tops")
    assert published("freeze", scope, "--level", "amber", "--reason", "look").code == 0
    assert states(published) == {"deep": (False, scope == "global"), "tops": (False, True)}
    answer = published("hotfix", "new", "n", "tops", "--set", "title=Tops of wells")
    assert answer.code == 0
    assert "amber" in corrected(published) + published("runs", "receipt", "last").out or titles() == {"tops"}
    assert titles() == {"tops"}
    Path("tops.csv").write_text(SECOND)
    ran = published("run", "tops")
    assert ran.code == 0 and at(published, "processed/tops") != before == at(published, "published/tops")
    assert "amber" in ran.err
    why = published("why-not", "tops")
    assert "amber" in why.out and f"kfm thaw{'' if scope == 'global' else ' tops'} --reason" in why.out
    assert published("publish", "tops", "--reason", "a person looked").code == 0
    assert "amber" not in published("why-not", "tops").out, "nothing waits for a thaw"
    assert at(published, "published/tops") != before
    Path("tops.csv").write_text(THIRD)
    assert published("run", "tops", "-q").code == 0
    assert published("thaw", scope, "--reason", "go").code == 0
    assert published("run", "tops").code == 0
    assert at(published, "published/tops") == at(published, "processed/tops")
    assert states(published) == {"deep": (False, False), "tops": (False, False)}


def test_a_thaw_opens_both_levels_in_one_commit_or_the_one_that_is_named(published: Kfm) -> None:
    for level in ("red", "amber"):
        assert published("freeze", "tops", "--level", level, "--reason", "look").code == 0
    assert states(published)["tops"] == (True, True)
    assert published("thaw", "tops", "--level", "red", "--reason", "go").code == 0
    assert states(published)["tops"] == (False, True)
    assert published("kill-switch", "tops", "--reason", "stop").code == 0
    assert states(published)["tops"] == (True, True)
    assert published("thaw", "tops", "--reason", "go").code == 0
    row = published("runs", "receipts", "--limit", "1", "--json").data[0]
    moves = published("runs", "receipt", row["run_id"], "--json").data["moves"]
    assert sorted((move["ref"], move["after"]) for move in moves) == [
        ("amber/dataset/tops", "open"),
        ("switch/dataset/tops", "open"),
    ]
    assert states(published)["tops"] == (False, False)


def kept(kfm: Kfm) -> list[str]:
    return [each["trigger_id"] for each in kfm("triggers", "list", "--json").data]


def test_the_catch_up_plan_is_what_is_done(published: Kfm) -> None:
    assert published("freeze", "--reason", "stop").code == 0
    for number, text in enumerate((SECOND, THIRD)):
        Path("tops.csv").write_text(text)
        assert published("run", "tops", "--force", "--reason", f"again {number}").code == 5
    assert published("rollback", "deep", "--to", "nothing", "--reason", "away").code == 0, "a withdrawal never waits"
    before = kept(published)
    assert len(before) >= 2
    shown = published("thaw", "--catch-up", "last", "--dry-run")
    assert shown.code == 0 and "to drop" in shown.err and kept(published) == before
    assert states(published)["tops"][0], "a dry run opens nothing"
    assert published("thaw", "--catch-up", "last", "--reason", "go").code == 0
    left = kept(published)
    assert len(left) < len(before) and set(left) < set(before) and max(before) in left
    dropped = set(before) - set(left)
    ended = {each["trigger_id"]: each for each in published("triggers", "list", "--all", "--json").data}
    assert {ended[one]["state"] for one in dropped} != {"waiting"}
    operations = [each["op"] for each in published("runs", "list", "--json").data]
    assert "triggers" in operations and "thaw" in operations
    assert published("resume").code == 0 and kept(published) == []


def test_none_drops_every_request_and_a_trigger_can_be_dropped_alone(published: Kfm) -> None:
    assert published("freeze", "--reason", "stop").code == 0
    for number in range(3):
        Path("tops.csv").write_text(SECOND + f"x{number},1\n")
        assert published("run", "tops", "--force", "--reason", f"number {number}").code == 5
    before = kept(published)
    assert published("triggers", "drop", "999999999999", "--reason", "x").code != 0
    assert kept(published) == before
    assert published("triggers", "drop", before[0], "--reason", "a mistake").code == 0
    assert kept(published) == before[1:]
    assert published("thaw", "--catch-up", "none", "--reason", "start anew").code == 0
    assert kept(published) == []
    version = at(published, "processed/tops")
    assert published("resume").code == 0 and at(published, "processed/tops") == version


def test_a_hotfix_that_met_a_freeze_is_kept_and_done_after_the_thaw(published: Kfm) -> None:
    assert published("freeze", "tops", "--level", "amber", "--reason", "look").code == 0
    corrected(published)
    assert len(kept(published)) == 1
    assert published("thaw", "tops", "--reason", "go").code == 0
    assert published("resume").code == 0
    assert titles() == {"Tops of wells"}
    made(published)


def test_with_a_key_list_no_kept_request_is_dropped_before_others_have_signed_the_thaw(published: Kfm) -> None:
    signed_by_two(published)
    assert published("freeze", "--reason", "stop", "--key", "../safe/olli.key").code == 0
    assert published("run", "tops", "--force", "--reason", "again").code == 5
    before = kept(published)
    assert len(before) == 1, "a request is kept"
    for more in ((), ("--key", "../safe/olli.key"), ("--dry-run",)):
        answer = published("thaw", "--catch-up", "none", "--reason", "go", *more)
        assert answer.code == 3 and "kfm triggers drop" in answer.complaint
        assert kept(published) == before and states(published)["tops"][0]
    assert published("triggers", "drop", before[0], "--reason", "a mistake").code == 0 and kept(published) == []
    assert published("thaw", "--catch-up", "none", "--reason", "go", "--key", "../safe/olli.key").code == 4


def test_what_met_amber_names_the_thaw_that_opens_it_and_the_ref_that_waits(published: Kfm) -> None:
    Path("fix.yml").write_text(FILE)
    for scope, cure in (((), "`kfm thaw --reason …`"), (("tops",), "`kfm thaw tops --reason …`")):
        assert published("freeze", *scope, "--level", "amber", "--reason", "look").code == 0
        answer = published("hotfix", "apply", "fix.yml", "--reason", "it was wrong")
        assert answer.code == 5 and cure in answer.err
        assert " hotfix/tops from nothing to " in published("triggers", "list").out
        assert published("thaw", *scope, "--catch-up", "none", "--reason", "go").code == 0
        assert kept(published) == []


def waiting(kfm: Kfm) -> int:
    return sum(each["state"] == "waiting" for each in kfm("triggers", "list", "--json").data)


def test_a_thaw_drops_no_request_that_it_does_not_release(published: Kfm) -> None:
    assert published("freeze", "tops", "--reason", "look").code == 0
    assert published("run", "tops").code == 5 and waiting(published) == 1
    assert published("freeze", "--reason", "look at everything").code == 0
    assert published("thaw", "--catch-up", "none", "--reason", "go").code == 0
    assert waiting(published) == 1, "tops is frozen by itself"
    assert published("freeze", "tops", "--level", "amber", "--reason", "look").code == 0
    assert published("thaw", "tops", "--level", "amber", "--catch-up", "none", "--reason", "go").code == 0
    assert waiting(published) == 1, "tops is red still"
    assert published("thaw", "deep", "--catch-up", "none", "--reason", "go").code == 0
    assert published("thaw", "tops", "--reason", "go").code == 0 and waiting(published) == 1
    assert published("thaw", "tops", "--catch-up", "none", "--reason", "it is open already").code == 0
    assert waiting(published) == 1, "nothing was frozen"
    assert published("freeze", "tops", "--reason", "look").code == 0
    assert published("thaw", "tops", "--catch-up", "none", "--reason", "go").code == 0 and waiting(published) == 0
