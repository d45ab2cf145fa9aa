"""Masking policies and the policies of an installation apply as first used, and from then on as they are signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.runs.change_requests import DOES
from kfm.crypto.approvals import RULES
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import MASK, SAFE, hits


def key(name: str) -> str:
    return str(SAFE / f"{name}.key")


def ledger(kfm: Kfm) -> tuple[str, str]:
    row = kfm("runs", "receipts", "--limit", "1", "--json").data[0]
    found = kfm("runs", "receipt", row["run_id"], "--json").data
    return found["job_type"].rpartition(".")[2], found["outcome"]


def approved(kfm: Kfm, *names: str) -> None:
    (order,) = [row["id"] for row in kfm("review", "list", "--json").data if row["state"] == "open"]
    assert "diff" in kfm("review", "show", order, "--json").data["more"]
    for name in names:
        answer = kfm("review", "approve", order, "--key", key(name))
        assert answer.code == 0, answer.err


DEPLOY = ("mask", "deploy", "sites", "sites", "--reason", "as agreed")


def test_every_rule_about_who_must_sign_is_carried_out() -> None:
    assert set(RULES) == set(DOES)


def test_the_run_that_takes_rules_into_force_names_the_operations_that_did(site: Kfm) -> None:
    ran = site("run", "sites")
    lines = [line for line in ran.err.splitlines() if " came into force, by run " in line]
    assert [line.partition(" came")[0] for line in lines] == [
        "the labels of labels.yml",
        "the masking policy of source sites of sites",
    ]
    ids = [line.partition("by run ")[2].partition(";")[0] for line in lines]
    made = [site("runs", "receipt", each, "--json").data for each in ids]
    assert [each["job_type"] for each in made] == ["operation.labels", "operation.mask"]
    assert "came into force" not in site("run", "sites").err, "once"


@pytest.mark.parametrize(
    ("was", "will"), [("resolution: 6", "resolution: 7"), ("kind: code, values: [village, camp, mound]", "kind: text")]
)
def test_a_masking_policy_that_may_show_more_takes_two(site: Kfm, was: str, will: str) -> None:
    assert site("run", "sites").code == 0
    Path("mask.yml").write_text(MASK.replace(was, will).replace('version: "1"', 'version: "2"'))
    ran = site("run", "sites")
    assert ran.code == 4 and "is not the one that was signed" in ran.err
    assert site(*DEPLOY).code == 4, "signed by nobody"
    assert ledger(site) == ("mask", "denied")
    asked = site(*DEPLOY, "--key", key("olli"))
    assert asked.code == 4, asked.err
    approved(site, "sue")
    assert site("run", "sites").code == 4
    approved(site, "sam")
    assert ledger(site) == ("mask", "done")
    assert site("run", "sites").code == 0
    assert hits() == []


def test_one_that_surely_shows_less_takes_one(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    Path("mask.yml").write_text(MASK.replace("resolution: 6", "resolution: 5").replace("to: decade", "to: century"))
    assert site("run", "sites").code == 4
    said = site(*DEPLOY, "--key", key("sue"))
    assert said.code == 0, said.err
    assert ledger(site) == ("mask", "done")
    assert site("run", "sites").code == 0


def test_a_file_that_changes_while_the_order_waits_was_not_signed(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    Path("mask.yml").write_text(MASK.replace("resolution: 6", "resolution: 7"))
    assert site(*DEPLOY, "--key", key("olli")).code == 4
    Path("mask.yml").write_text(MASK.replace("resolution: 6", "resolution: 8"))
    (order,) = [row["id"] for row in site("review", "list", "--json").data if row["state"] == "open"]
    assert site("review", "approve", order, "--key", key("sue")).code == 0
    assert site("review", "approve", order, "--key", key("sam")).code == 4
    assert ledger(site) == ("mask", "denied")
    assert site("run", "sites").code == 4


OWN = 'package main\n\nimport rego.v1\n\ndeny contains "no" if input.nothing == "here"\n'


def test_policies_of_an_installation_change_by_two_admins(site: Kfm) -> None:
    Path("rules").mkdir()
    Path("rules/own.rego").write_text(OWN)
    with Path("kfm.yml").open("a") as file:
        file.write("policy: {folder: rules}\n")
    assert site("keys", "new", "--person", "amy", "--role", "admin", "--out", key("amy"), "--key", key("ada")).code == 0
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    Path("rules/own.rego").write_text(OWN.replace('"here"', '"there"'))
    ran = site("run", "sites", "--force", "--reason", "x")
    assert ran.code == 4 and "not those that were signed" in ran.err
    words = ("policy", "deploy", "--reason", "as agreed")
    assert site(*words, "--key", key("sue")).code == 4
    assert ledger(site) == ("policy", "denied")
    assert site(*words, "--key", key("ada")).code == 4
    approved(site, "amy")
    assert ledger(site) == ("policy", "done")
    assert site("run", "sites", "--force", "--reason", "x").code == 0
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("policy: {folder: rules}\n", ""))
    assert site("run", "sites", "--force", "--reason", "x").code == 4, "taking them away is a change too"
