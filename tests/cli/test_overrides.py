"""`--force`, `--allow-deletions` and `--abandon`: each means one thing, needs a reason and is in the receipt."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.app.session.session import open_session
from kfm.config import load
from kfm.model.records import Trigger
from tests.cli.conftest import Answer, Kfm

UPDATER = """
    import os
    from kfm import Output, Plan, Step, Updater

    class U(Updater):
        id = "lines"
        version = property(lambda self: os.environ.get("LINES_VERSION", "1.0.0"))

        def inputs(self, trigger, sources):
            return [sources.pin("source")]

        def plan(self, inputs):
            return Plan([Step(id=name, key=(name,)) for name in inputs[0].partitions], complete=True)

        def perform(self, step, read):
            if os.path.exists("die"):
                raise KeyboardInterrupt
            return Output(step.id.encode())
"""
CONFIG = """\
datasets:
  lines:
    updater: updaters.py:U
    sources:
      source: {uri: source.csv, format: csv, complete: true, contract: {partition_by: name, shrink_limit: 1}}
"""


@pytest.fixture
def lines(kfm: Kfm) -> Kfm:
    Path("updaters.py").write_text(textwrap.dedent(UPDATER))
    Path("kfm.yml").write_text(CONFIG)
    holding("a b c d e f g h i j")
    return kfm


def holding(names: str) -> None:
    Path("source.csv").write_text("name\n" + "".join(f"{name}\n" for name in names.split()))


def interrupted(lines: Kfm, *words: str) -> None:
    Path("die").touch()
    assert lines("run", *words).code == 130
    Path("die").unlink()


def last() -> tuple[dict[str, Any], dict[str, Any]]:
    """The last ledger entry, and its receipt as it lies on the disk."""
    with open_session(load("kfm.yml", {}), mode="read") as session:
        (entry,) = session.state.ledger.entries(reverse=True, limit=1)
    (path,) = Path(".kfm/receipts").rglob(f"{entry.run_id}.json")
    return msgspec.to_builtins(entry), json.loads(path.read_bytes())


def outcomes(answer: Answer) -> list[str]:
    return [receipt["outcome"] for receipt in answer.data["receipts"]]


@pytest.mark.parametrize("words", [("--force",), ("--abandon",), ("--allow-deletions", "3")])
def test_each_needs_a_reason_and_stands_in_the_receipt_and_the_ledger(lines: Kfm, words: tuple[str, ...]) -> None:
    assert lines("run").code == 0
    refused = lines("run", *words)
    assert refused.code == 3 and f"{words[0]} needs a reason" in refused.complaint
    assert lines("run", *words, "--reason", "because", "--actor", "me").code == 0
    entry, receipt = last()
    expected = [{"rule": words[0][2:], "limit": 3 if len(words) > 1 else 0}]
    assert receipt["overrides"] == expected and receipt["reason"] == "because"
    assert entry["overrides"] == expected and (entry["reason"], entry["operator"]) == ("because", "me")
    assert lines("run").code == 0
    assert last()[1]["overrides"] == []


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1.5", "1e3", "٣", "9" * 16])
def test_a_number_of_deletions_is_a_number(lines: Kfm, text: str) -> None:
    answer = lines("run", f"--allow-deletions={text}", "--reason", "x")
    assert answer.code == 3 and "is not a number of keys" in answer.complaint


def test_force_runs_again_and_waives_no_deletion_budget(lines: Kfm) -> None:
    assert lines("run").code == 0
    assert outcomes(lines("run", "--force", "--reason", "doubt", "--json")) == ["unchanged"]
    holding("a b c d e")
    answer = lines("run", "--force", "--reason", "doubt")
    assert answer.code == 4 and "`kfm run lines --allow-deletions 5 --reason …`" in answer.complaint


def test_deletions_are_allowed_up_to_the_number_and_only_in_this_run(lines: Kfm) -> None:
    assert lines("run").code == 0
    holding("a b c d e")
    assert lines("run", "--allow-deletions", "4", "--reason", "half is gone").code == 4
    assert lines("run", "--allow-deletions", "5", "--reason", "half is gone").code == 0
    holding("a b")
    assert lines("run").code == 4


def test_force_takes_an_unfinished_run_up_and_abandon_ends_it(lines: Kfm) -> None:
    interrupted(lines)
    (unfinished,) = lines("runs", "list", "--json").data
    answer = lines("run", "--force", "--reason", "doubt", "--json")
    assert [receipt["run_id"] for receipt in answer.data["receipts"]] == [unfinished["run"]]
    holding("a b c")
    interrupted(lines, "--allow-deletions", "7", "--reason", "most are gone")
    answer = lines("run", "--abandon", "--reason", "begin anew", "--json")
    assert outcomes(answer) == ["denied"], "abandoning waives no deletion budget"
    entries = lines("runs", "receipts", "--json").data
    assert sorted(entry["outcome"] for entry in entries) == ["denied", "done", "superseded"]
    ended = next(entry for entry in entries if entry["outcome"] == "superseded")
    told = lines("runs", "receipt", ended["run_id"], "--json").data
    assert "abandoned with --abandon by tester: begin anew" in told["errors"][0]["message"]
    assert told["overrides"] == [{"rule": "allow-deletions", "limit": 7}]


def test_another_version_must_abandon_the_unfinished_run_first(lines: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(lines)
    monkeypatch.setenv("LINES_VERSION", "2.0.0")
    for words in ((), ("--force", "--reason", "x")):
        answer = lines("run", *words)
        assert answer.code == 3 and "`kfm run lines --abandon --reason …`" in answer.complaint
    assert lines("run", "--abandon", "--reason", "x").code == 0


def test_what_is_allowed_when_a_run_is_taken_up_holds_for_the_next_resume(lines: Kfm) -> None:
    assert lines("run").code == 0
    holding("a b c")
    interrupted(lines)
    interrupted(lines, "--allow-deletions", "7", "--reason", "most are gone")
    assert lines("resume").code == 0
    assert last()[1]["overrides"] == [{"rule": "allow-deletions", "limit": 7}]


def test_a_forced_trigger_from_before_means_all_three() -> None:
    from kfm.model.run_overrides import abandons_unfinished, deletions_allowed, overrides_of

    body = b'{"kind":"manual","updater_id":"u","dataset":"d","reason":"r","force":true}'
    old = msgspec.json.decode(body, type=Trigger)
    assert abandons_unfinished(old) and deletions_allowed(old) > 10**15
    assert [each.rule for each in overrides_of(old)] == ["force", "abandon", "allow-deletions"]
    new = msgspec.structs.replace(old, allow_deletions=0)
    assert [each.rule for each in overrides_of(new)] == ["force"]
