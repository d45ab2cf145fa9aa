"""The glossary has every noun a newcomer meets, and says it in the words of the commands and the records."""

from __future__ import annotations

import re
from typing import get_args

from kfm.cli.parser import build
from kfm.model import records
from tests.project.bans import ROOT

PAGE = ROOT / "docs" / "glossary.md"
NEEDED = """
stage, run, version, manifest, ref, journal, receipt, ledger, held, frozen, gate, promotion, withdrawal, recall, label,
encryption, follower, sink, dataset, source, updater, contract, key, plan, step, trigger, intent, commit, resume, lease,
digest, object, zone, quarantine, rollback, schedule, backfill, NOOP, masking, steward, partition, freeze flag, dry run,
change request, labels in force, message, leader lease
"""
TERMS = {" ".join(term.split()) for term in NEEDED.split(",")}
# Commands that are named by a thing, and the word under which it is told. The others are verbs, or named by their work.
NOUNS = {
    "runs": "run",
    "refs": "ref",
    "quarantine": "quarantine",
    "triggers": "trigger",
    "webhooks": "trigger",
    "audit": "ledger",
    "catalog": "catalog",
    "sinks": "sink",
    "runners": "runner",
    "labels": "label",
    "policy": "policy",
    "keys": "key",
    "review": "review",
    "lineage": "lineage",
    "preview": "preview",
    "backfill": "backfill",
    "schedule": "schedule",
    "plan": "plan",
    "resume": "resume",
}


def entries(text: str) -> dict[str, str]:
    found = re.split(r"^### (.+)$", text, flags=re.M)
    pairs = zip(found[1::2], found[2::2], strict=True)
    return {name: re.split(r"^## ", body, flags=re.M)[0].strip() for name, body in pairs}


def test_every_noun_a_newcomer_meets_is_there_in_one_or_two_sentences() -> None:
    told = entries(PAGE.read_text(encoding="utf-8"))
    assert TERMS - set(told) == set()
    plain = {name: re.sub(r"\[More\]\([^)]*\)\.|\([^()]*\)|`[^`]*`", "", body) for name, body in told.items()}
    assert [name for name, body in plain.items() if not body or len(re.findall(r"\.(?:\s|$)", body)) > 3] == []


def test_the_words_of_every_command_are_explained() -> None:
    commands = {name for action in build()._actions if isinstance(action.choices, dict) for name in action.choices}
    assert set(NOUNS) <= commands, "no command of that name any more"
    assert set(NOUNS.values()) - set(entries(PAGE.read_text(encoding="utf-8"))) == set()


def test_the_words_of_the_records_are_the_words_of_the_page() -> None:
    told = entries(PAGE.read_text(encoding="utf-8"))
    for term, words in (
        ("run", records.Status),
        ("trigger", records.TriggerKind),
        ("zone", records.Zone),
        ("label", records.Level),
        ("contract", records.ColumnMode),
    ):
        said = re.findall(r"`([^`]+)`", told[term])
        missing = [word for word in get_args(words) if word not in said]
        assert missing == [], f"{term}: {missing}"


def test_an_older_word_leads_to_one_in_use_and_is_no_entry() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text.partition("## Older words\n")[2], re.M)[1:]
    assert len(rows) > 15 and all(word.strip() for row in rows for word in row)
    assert {old for old, _ in rows} & set(entries(text)) == set()


def test_a_word_that_is_not_explained_is_found() -> None:
    assert entries("# G\n\n## A\n\n### a\nIt is `x`.\n\n## B\n\n### b c\nNo.\n") == {"a": "It is `x`.", "b c": "No."}
