"""The difference of a version to the one it replaced: keys added, changed and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Answer, Kfm

UPDATER = """
import json
from kfm import Output, Plan, Step, Updater

class Towns(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("towns")]

    def plan(self, inputs):
        return Plan([Step(id=name, key=("town", name)) for name in inputs[0].partitions], complete=True)

    def perform(self, step, read):
        return Output.json([row["people"] for row in read.csv("towns") if row["town"] == step.id])
"""
CONFIG = """
deletion_budget: 1
datasets:
  towns:
    updater: updaters.py:Towns
    title: Towns
    license: CC0-1.0
    sensitivity: public
    sources:
      towns:
        uri: towns.csv
        format: csv
        complete: true
        contract: {partition_by: town, shrink_limit: 1, columns: [{name: town, required: true}]}
"""


def write(**towns: int) -> None:
    Path("towns.csv").write_text("town,people\n" + "".join(f"{name},{people}\n" for name, people in towns.items()))


@pytest.fixture
def towns(kfm: Kfm) -> Kfm:
    """Two versions: one town came, one changed, one went, one stayed."""
    Path("updaters.py").write_text(UPDATER)
    Path("kfm.yml").write_text(CONFIG)
    write(hays=1, colby=2, ogallah=3)
    assert kfm("run").code == 0
    assert kfm("promote", "towns").code == 0
    write(hays=1, colby=22, zurich=4)
    assert kfm("run").code == 0
    return kfm


def rows(answer: Answer) -> list[list[str]]:
    assert answer.code == 0, answer.err
    return [line.split()[:2] for line in answer.out.splitlines()]


ALL = [["CHANGE", "KEY"], ["changed", "town/colby"], ["removed", "town/ogallah"], ["added", "town/zurich"]]


def test_a_version_is_shown_with_its_changes_to_the_version_it_superseded(towns: Kfm) -> None:
    answer = towns("diff", "towns")
    assert rows(answer) == ALL
    assert "1 added, 1 changed, 1 removed" in answer.err


def test_the_changes_of_a_promotion_are_shown_before_it(towns: Kfm) -> None:
    assert rows(towns("diff", "towns", "--from", "published", "--to", "processed")) == ALL
    assert [row[0] for row in rows(towns("diff", "towns", "--to", "published"))[1:]] == ["added"] * 3
    assert towns("promote", "towns").code == 0
    assert rows(towns("diff", "towns", "--from", "published", "--to", "processed")) == ALL[:1]
    assert rows(towns("diff", "towns", "--to", "published")) == ALL


def test_a_deleted_key_can_still_be_read_where_it_was(towns: Kfm) -> None:
    found = towns("diff", "towns", "--json").data
    (gone,) = [each for each in found["changes"] if each["change"] == "removed"]
    assert gone["key"] == ["town", "ogallah"] and gone["after"] is None
    assert towns("cat", gone["before"]["digest"]).out == '["3"]'
    assert (found["added"], found["changed"], found["removed"]) == (1, 1, 1)
    history = towns("refs", "history", "processed/towns", "--json").data
    assert (found["from"], found["to"]) == (history[-1]["before"], history[-1]["after"])


def test_versions_are_named_by_the_start_of_their_digests_or_nothing(towns: Kfm) -> None:
    first, second = [move["after"] for move in towns("refs", "history", "processed/towns", "--json").data]
    assert rows(towns("diff", "towns", "--from", first[:19], "--to", second[7:15])) == ALL
    assert rows(towns("diff", "towns", "--to", second)) == ALL, "of a version, what it superseded"
    back = rows(towns("diff", "towns", "--from", second, "--to", first))
    assert [row[0] for row in back[1:]] == ["changed", "added", "removed"]
    assert len(rows(towns("diff", "towns", "--from", "nothing"))) == 4


def test_the_pointer_names_the_version_that_the_public_one_replaced(towns: Kfm) -> None:
    assert towns("promote", "towns").code == 0
    pointer = json.loads(Path("public/datasets/towns/current.json").read_text())
    history = towns("refs", "history", "published/towns", "--json").data
    assert (pointer["before"], pointer["version"]) == (history[0]["after"], history[1]["after"])
    folder = Path("public/datasets/towns/versions")
    keys = [
        {json.loads(line)["key"][1] for line in (folder / f"{name[7:23]}.ndjson").read_text().splitlines()}
        for name in (pointer["before"], pointer["version"])
    ]
    assert keys[0] - keys[1] == {"ogallah"} and keys[1] - keys[0] == {"zurich"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no dataset 'nowhere'"),
        (["towns", "--from", "soon"], "'soon' is not a version"),
        (["towns", "--to", "sha256:" + "0" * 64], "towns was never at sha256:000"),
        (["towns", "--from", "ffffffffffff"], "no version of towns begins with ffffffffffff"),
        (["towns", "--to", ""], "'' is not a version"),
    ],
)
def test_what_is_no_version_of_the_dataset_is_refused(towns: Kfm, words: list[str], said: str) -> None:
    answer = towns("diff", *words)
    assert answer.code == 3 and not answer.out
    assert said in answer.complaint


def test_a_dataset_without_a_version_has_nothing_to_compare(towns: Kfm) -> None:
    towns("rollback", "towns", "--to", "nothing")
    answer = towns("diff", "towns", "--to", "published")
    assert rows(answer)[1:] and {row[0] for row in rows(answer)[1:]} == {"removed"}, "a withdrawal"
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("  towns:\n    updater", "  other:\n    updater"))
    assert "other has no processed version" in towns("diff", "other").complaint
