"""Every command that changes something, run once: the ledger names it, and both verifiers accept the ledger."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kfm.app.session.session import open_session
from kfm.config import load
from tests.app.objectives.site import promise
from tests.cli.conftest import Kfm
from tests.cli.protected import laid_out
from tests.cli.test_json import BODY, HEADER, SECRET, asked_for, branched, interrupt, with_parts
from tests.project.bans import ROOT
from tests.project.mutations import FILES, LEAVES, READS, Command, commands
from tests.retries.worlds import used_up

GAUGES = "rain-gauges"
# It listens until it is stopped; tests/api sends it requests, and looks for their triggers.
# A state of an older format is upgraded in tests/app/backup.
ELSEWHERE = {("webhooks", "serve"), ("serve",), ("restore",), ("upgrade",)}


def test_every_command_is_placed_once() -> None:
    known = [words for words, _ in commands()]
    placed = [*LEAVES, *FILES, *READS]
    assert sorted(known) == sorted(placed), "a command is new, or placed twice"


def entries() -> list[dict[str, Any]]:
    from kfm import config
    from kfm.app.session.session import open_session

    with open_session(config.load(None, os.environ), mode="read") as session:
        return [json.loads(leaf) for leaf in session.state.ledger.leaves()]


class Ledger:
    """Runs commands, and notes which operations each one left in the ledger."""

    def __init__(self, kfm: Kfm) -> None:
        self.kfm = kfm
        self.left: dict[Command, list[str]] = {}

    def did(self, command: Command, *rest: str, then: tuple[str, ...] = (), code: int = 0) -> None:
        """Run a command, and `then` the one that answers what it only requests."""
        before = len(entries())
        answer = self.kfm(*command, *rest)
        assert answer.code == code, (command, answer)
        if then:
            assert len(entries()) == before
            assert self.kfm(*then).code == 0
        new = entries()[before:]
        self.left[command] = [entry["op_type"] for entry in new]
        assert LEAVES[command].op in self.left[command], (command, self.left[command], answer)
        of_people = [entry for entry in new if entry["op_type"] == LEAVES[command].op and entry["op_type"] != "ingest"]
        assert all(entry["reason"] or entry.get("governed", {}).get("withheld") for entry in of_people), new
        for entry in new:
            assert self.kfm("runs", "receipt", entry["run_id"], "--json").data["run_id"] == entry["run_id"]


def signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_SECRET_LEDGER", "ab" * 32)
    with Path("kfm.yml").open("a") as file:
        file.write("\nledger: {sign_with: env:KFM_SECRET_LEDGER, origin: kfm.example.org/ledger, every: 1}\n")
        file.write("attest: {sign_with: env:KFM_SECRET_LEDGER}\n")


def verifier() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_ledger", ROOT / "tools" / "verify_ledger.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def accepted_by_both(kfm: Kfm) -> None:
    exported = kfm("audit", "export", "--json").data
    assert kfm("audit", "verify").code == 0
    assert verifier().main([exported["written"], "--key", exported["key"]]) == 0


@pytest.fixture
def installation(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """It has a schedule, a webhook, two backfills, signing keys and a repository."""
    monkeypatch.setenv("KFM_SECRET_GAUGES", SECRET)
    monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
    Path("body.json").write_bytes(BODY)
    with_parts()
    Path("pipelines/backfills/more.yml").write_text(
        "backfills: {more: {dataset: parts, partitions: {kind: name, keys: [c, d]}}}\n"
    )
    said = Path("kfm.yml").read_text().replace("    title:", "    schedule: {cadence: daily}\n    title:", 1)
    hook = f"\nwebhooks:\n  gauges: {{datasets: [{GAUGES}], secrets: ['env:KFM_SECRET_GAUGES']}}\n"
    Path("kfm.yml").write_text(said + hook)
    signed(monkeypatch)
    branched()
    return started


def test_every_command_that_changes_something_leaves_an_entry_in_the_ledger(
    installation: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(installation)
    did, kfm = ledger.did, installation
    source = Path("data/rain_gauges.csv")
    did(("run",), GAUGES)
    did(("attest",), GAUGES)
    did(("preview", "build"), "other", "--dataset", GAUGES)
    approved = kfm("preview", "list", "--json").data[0]["preview"]
    did(("preview", "publish"), "other", "--approved", approved)
    assert kfm("preview", "build", "other", "--dataset", GAUGES).code == 0
    did(("preview", "sweep"), "--days", "0")
    did(("publish",), GAUGES)
    did(("freeze",))
    assert kfm("run", GAUGES, "--force", "--reason", "again").code == 5
    did(("thaw",))
    did(("resume",))
    did(("schedule", "pause"), GAUGES)
    did(("schedule", "resume"), GAUGES)
    did(("schedule", "trigger"), GAUGES, then=("resume",))
    did(("webhooks", "replay"), "gauges", "--body", "body.json", "--header", HEADER, then=("resume",))
    did(("triggers", "retry"), "000000000001")
    assert kfm("schedule", "trigger", GAUGES).code == 0
    did(("triggers", "drop"), kfm("triggers", "list", "--json").data[0]["trigger_id"])
    did(("jobs", "enqueue"), "ingest.pull_source", "--dataset", GAUGES, then=("resume",))
    assert kfm("jobs", "enqueue", "ingest.pull_source", "--dataset", GAUGES, "--param", "window=2026").code == 3
    job = kfm("jobs", "enqueue", "ingest.pull_source", "--dataset", GAUGES, "--actor", "bob").out.strip()
    did(("jobs", "cancel"), job)
    did(("jobs", "retry"), job)
    assert kfm("resume").code == 0
    source.write_text(source.read_text() + "dodge-city,ford,2026-04,1.5\n")
    did(("triggers", "watch"), GAUGES, "--once")
    assert kfm("schedule", "trigger", GAUGES).code == 0
    did(("up",), "--once")
    did(("backfill", "start"), "parts", "--later")
    did(("backfill", "pause"), "parts")
    did(("backfill", "resume"), "parts")
    assert kfm("backfill", "start", "more", "--later").code == 0
    did(("backfill", "cancel"), "more")
    assert kfm("hotfix", "new", "title", GAUGES, "--set", "title=Gauges").code == 0
    did(("hotfix", "apply"), "hotfixes/title.yml")
    did(("hotfix", "revert"), "title")
    did(("rollback",), GAUGES, "--to", "nothing")
    assert kfm("publish", GAUGES).code == 0
    next(Path("public").rglob("*.csv")).unlink()
    did(("reconcile", "--repair"))
    next(Path("catalog", GAUGES, "items").iterdir()).unlink()
    did(("catalog", "build"))
    interrupt(kfm, monkeypatch)
    did(("runs", "cancel"), "last")
    Path("catalog").rename("kept")
    Path("catalog").write_text("in the way")
    assert kfm("rollback", GAUGES, "--to", "nothing").code == 0
    Path("catalog").unlink()
    Path("kept").rename("catalog")
    did(("sinks", "retry"), "catalog")
    said = Path("kfm.yml").read_text()
    monkeypatch.setenv("KFM_SECRET_HOOK", f"whsec_{'a' * 40}")
    receiver = "{url: 'http://127.0.0.1:1/', secrets: [env:KFM_SECRET_HOOK], on: [burnt]}"
    Path("kfm.yml").write_text(f"{said}\nnotify:\n  ops: {receiver}\n")
    did(("sinks", "test"), code=69)
    Path("kfm.yml").write_text(said)
    did(("runs", "compact"))
    promise(Path(), "gauges-success", dataset=GAUGES)
    did(("slo", "override"), "gauges-success", "--until", "12h")
    used_up("source/example.org")
    did(("budgets", "close"), "source/example.org", "--reason", "a storm")
    did(("budgets", "reset"), "source/example.org", "--reason", "over")
    did(("breakers", "open"), "source/example.org", "--reason", "a storm")
    did(("breakers", "close"), "source/example.org", "--reason", "over")
    did(("backup",), "backups")
    with open_session(load("kfm.yml", os.environ)) as session:
        session.objects.put(b"nothing names this")
    did(("gc",))
    did(("move",), "--to", "file:elsewhere", "--edit")
    accepted_by_both(kfm)
    assert set(ledger.left) == set(LEAVES) - ELSEWHERE - SIGNED


SIGNED = {
    *(("labels", "set"), ("mask", "deploy"), ("policy", "deploy"), ("keys", "new"), ("keys", "revoke")),
    *(("token", "new"), ("token", "revoke")),
    *(("review", "approve"), ("review", "reject"), ("review", "deploy")),
}


def test_rules_that_people_sign_leave_an_entry_in_the_ledger(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(3)
    text = re.sub(r"(\n +)(uri: data/rain_gauges.csv)", r"\1mask: mask.yml\1\2", Path("kfm.yml").read_text())
    Path("policies").mkdir()
    Path("policies/own.rego").write_text('package main\n\ndeny contains "never" if input.never\n')
    more = "labels: labels.yml\ncustodians: {office: {key: 'env:KFM_SECRET_OFFICE'}}\npolicy: {folder: policies}\n"
    Path("kfm.yml").write_text(f"{text}\n{more}")
    monkeypatch.setenv("KFM_SECRET_OFFICE", "cd" * 32)
    said = "{of: {source: data/rain_gauges.csv}, sensitivity: restricted, care: open, custodian: office}"
    Path("labels.yml").write_text(f"version: 1\nlabels: [{said}]\n")
    request = asked_for(ran)
    with_key = ("--key", "ada.key")
    assert ran("keys", "new", "--purpose", "checkpoint", "--out", "ledger.key", *with_key).code == 0
    with Path("kfm.yml").open("a") as file:
        file.write("\nledger: {sign_with: 'file:ledger.key', origin: kfm.example.org/ledger, every: 1}\n")
    own = ("--role", "steward", "--custodian", "office", "--out", "sam.key")
    ledger = Ledger(ran)
    did = ledger.did
    did(("keys", "new"), "--person", "sam", *own, *with_key)
    did(("review", "approve"), request, "--key", "sue.key")
    assert ran("freeze", "--key", "olli.key").code == 0
    assert ran("thaw", "--key", "olli.key").code == 4
    request = next(each["id"] for each in ran("review", "list", "--json").data)
    did(("review", "reject"), request, "--key", "sue.key")
    assert ran("thaw", "--key", "sue.key").code in (0, 4)
    assert "came into force" in ran("run").err
    did(("mask", "deploy"), GAUGES, "gauges")
    did(("policy", "deploy"))
    did(("review", "deploy"), "--key", "sue.key")
    closed = ("source:data/rain_gauges.csv", "--sensitivity", "closed", "--care", "open")
    did(("labels", "set"), *closed, "--key", "sam.key", "--reason", "asked by the office")
    did(("token", "new"), "--person", "sam", *with_key)
    did(("token", "revoke"), ran("token", "list", "--json").data[0]["id"], *with_key, "--reason", "a test")
    assert ran("keys", "new", "--person", "amy", "--role", "admin", "--out", "amy.key", *with_key).code == 0
    ada = next(key["key"] for key in ran("keys", "list", "--json").data if key["person"] == "ada")
    did(("keys", "revoke"), ada, "--key", "amy.key")
    accepted_by_both(ran)
    assert set(ledger.left) == SIGNED
