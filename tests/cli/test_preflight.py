"""A run that would be refused in the end is refused before it fetches anything, and leaves a receipt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Kfm
from tests.crypto.world import seed
from tests.sources.hostile_server import Exchange, ScriptedServer

CONFIG = """
accept_weak_storage: true
network: {{allow: ["{here}"]}}
datasets:
  wells:
    version: "1.0.0"
    title: Wells
    license: CC0-1.0
    attribution: KGS
    sensitivity: public
    sources:
      wells: {{uri: "http://{here}/wells.csv", format: csv, contract: {{columns: [{{name: id, required: true}}]}}}}
    outputs:
      wells: {{from: wells}}
"""
ATTEST = 'attest: {sign_with: "env:KFM_SECRET_ATTEST", builder: "https://kfm.example.org"}\n'
POLICY = "policy: {folder: mine}\n"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    def answer(exchange: Exchange) -> None:
        body = b"id,depth\n1,20\n2,35\n"
        exchange.answer("200 OK", f"Content-Length: {len(body)}", "Connection: close", body=body)

    with ScriptedServer(answer) as running:
        yield running


def configured(server: ScriptedServer, more: str = "") -> None:
    Path("kfm.yml").write_text(CONFIG.format(here=server.here) + more, encoding="utf-8")


def last_receipt(kfm: Kfm) -> tuple[str, str, list[str]]:
    listed = kfm("runs", "list", "--json").data
    found = kfm("runs", "receipt", listed[0]["run"], "--json").data
    return found["status"], found["outcome"], [error["code"] for error in found["errors"]]


def test_without_the_key_to_attest_with_nothing_is_fetched_and_a_receipt_says_why(
    kfm: Kfm, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(server, ATTEST)
    answer = kfm("run", "wells")
    assert answer.code == 3, answer.err
    assert "KFM_SECRET_ATTEST" in answer.err and "attest.sign_with" in answer.err, answer.err
    assert server.connections == 0
    assert last_receipt(kfm) == ("FAILED", "failed", ["input.bad"])

    monkeypatch.setenv("KFM_SECRET_ATTEST", seed("prover").hex())
    assert kfm("run", "wells").code == 0
    assert server.connections > 0


def test_what_takes_away_or_stops_needs_no_key_to_attest_with(
    kfm: Kfm, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(server, ATTEST)
    monkeypatch.setenv("KFM_SECRET_ATTEST", seed("prover").hex())
    assert kfm("run", "wells").code == 0
    assert kfm("publish", "wells", "--reason", "first").code == 0
    monkeypatch.delenv("KFM_SECRET_ATTEST")
    assert kfm("publish", "wells", "--reason", "again").code == 3
    assert kfm("rollback", "wells", "--to", "nothing", "--reason", "take it back").code == 0
    assert kfm("freeze", "wells", "--reason", "wait").code == 0
    assert kfm("thaw", "wells", "--reason", "go on").code == 0


def test_policies_that_cannot_be_read_are_found_before_anything_is_fetched(kfm: Kfm, server: ScriptedServer) -> None:
    configured(server, POLICY)
    Path("mine").mkdir()
    Path("mine/rules.rego").write_text("package kfm.promotion\nthis is no policy\n", encoding="utf-8")
    answer = kfm("run", "wells")
    assert answer.code == 3, answer.err
    assert server.connections == 0
    status, _, codes = last_receipt(kfm)
    assert (status, codes) == ("FAILED", ["input.bad"])
    Path("mine/rules.rego").unlink()
    assert kfm("freeze", "wells", "--reason", "wait").code == 0
