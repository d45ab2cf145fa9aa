"""A freeze of all that an updater makes, or that a community's labels cover: one commit, and the same thaw opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.dependencies.conftest import DOWN, UP, written
from tests.app.interventions.conftest import HEAD
from tests.app.interventions.test_freeze_levels import states
from tests.app.interventions.test_hotfix import signed_by_two
from tests.cli.conftest import Kfm

LABELS = """\
version: 1
labels:
  - of: {dataset: tops}
    sensitivity: public
    care: open
    authority: Nation of the Plains
    community_labels: [TK A]
"""
UPDATER = """\
from kfm import Output, Plan, SourceRef, Step, Updater


class Own(Updater):
    id = "own-maker"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("wells")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.text(read.text("wells"))
"""
OWN = (
    "  {}:\n    updater: updaters.py:Own\n    title: own\n    license: CC0-1.0\n    sensitivity: public\n"
    "    sources: {{wells: {{uri: tops.csv, format: csv, contract: {{shrink_limit: 1}}}}}}\n"
)


@pytest.fixture
def site(kfm: Kfm) -> Kfm:
    """`deep` reads `tops`, which a community has labelled; an updater of its own makes `one` and `two`."""
    Path("updaters.py").write_text(UPDATER)
    written(UP, DOWN, OWN.format("one"), OWN.format("two"), head="labels: labels.yml\n" + HEAD)
    Path("labels.yml").write_text(LABELS)
    assert kfm("run", "-q").code == 0
    return kfm


def frozen(kfm: Kfm) -> set[str]:
    return {name for name, (red, _) in states(kfm).items() if red}


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ("updater/own-maker", {"one", "two"}),
        ("updater/updaters.py:Own", {"one", "two"}),
        ("community/nation of the  plains", {"tops", "deep"}),
        ("community/TK A", {"tops", "deep"}),
    ],
)
def test_a_scope_freezes_its_datasets_in_one_commit_and_the_thaw_opens_them(
    site: Kfm, scope: str, covered: set[str]
) -> None:
    answer = site("freeze", scope, "--reason", "they asked")
    assert answer.code == 0 and ", ".join(sorted(covered)) in answer.err
    assert frozen(site) == covered
    row = site("runs", "receipts", "--limit", "1", "--json").data[0]
    moves = site("runs", "receipt", row["run_id"], "--json").data["moves"]
    assert {move["ref"] for move in moves} == {f"switch/dataset/{name}" for name in covered}
    for name in ("tops", "one"):
        assert site("run", name, "--force", "--reason", "x").code == (5 if name in covered else 0)
    plan = site("thaw", scope, "--dry-run")
    assert plan.code == 0 and plan.err.count("1 kept request to run") == 1
    assert site("freeze", scope, "--level", "amber", "--reason", "x").code == 0
    assert site("thaw", scope, "--reason", "go").code == 0
    assert set(states(site).values()) == {(False, False)}
    assert site("freeze", scope, "--wait", "--reason", "x").code == 0


@pytest.mark.parametrize("scope", ["updater/own-makre", "community/Nation", "updater/", "zone/published"])
def test_a_scope_that_covers_nothing_is_refused_and_names_the_brake_that_always_works(site: Kfm, scope: str) -> None:
    answer = site("freeze", scope, "--reason", "x")
    assert answer.code == 3 and len(answer.complaint.splitlines()) <= 2, answer.err
    assert scope == "zone/published" or "`kfm freeze` stops everything" in answer.complaint
    assert frozen(site) == set()


def test_the_code_of_an_updater_may_be_broken(site: Kfm) -> None:
    Path("updaters.py").write_text("this is no Python")
    assert site("freeze", "updater/own-maker", "--reason", "its code is broken").code == 0
    assert frozen(site) == {"one", "two"}


def test_with_a_key_list_two_sign_the_thaw_of_all_its_datasets(site: Kfm) -> None:
    signed_by_two(site)
    key = ("--key", "../safe/olli.key")
    for level in ("red", "amber"):
        assert site("freeze", "updater/own-maker", "--level", level, "--reason", "stop", *key).code == 0
    assert frozen(site) == {"one", "two"}
    asked = site("thaw", "updater/own-maker", "--reason", "go", *key)
    assert asked.code == 4 and frozen(site) == {"one", "two"}
    request = site("review", "list", "--json").data[0]["id"]
    shown = site("review", "show", request)
    assert "switch/dataset/one" in shown.out + shown.err and "switch/dataset/two" in shown.out + shown.err
    signed = site("review", "approve", request, "--key", "../safe/sue.key", "--reason", "fine")
    assert signed.code == 0, signed.err
    assert set(states(site).values()) == {(False, False)}


def test_a_dataset_that_its_updater_has_not_made_yet_is_frozen_too(site: Kfm) -> None:
    path = Path("kfm.yml")
    path.write_text(path.read_text() + OWN.format("three"))
    assert site("freeze", "updater/own-maker", "--reason", "look").code == 0
    assert frozen(site) == {"one", "two", "three"}


def test_while_kfm_yml_has_a_mistake_no_updater_can_be_frozen(site: Kfm) -> None:
    path = Path("kfm.yml")
    right = path.read_text()
    path.write_text(right.replace("    updater: updaters.py:Own\n", "    updatr: updaters.py:Own\n", 1))
    answer = site("freeze", "updater/own-maker", "--reason", "look")
    assert answer.code == 3 and "`kfm freeze` stops everything" in answer.err
    path.write_text(right)
    assert frozen(site) == set()
