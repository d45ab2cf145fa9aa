"""The gate opens for a literal yes about exactly these bytes, and for nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kfm.engine.zone_gates import denied
from kfm.errors import Corrupt
from kfm.model.records import DatasetVersion, Decision, Receipt, RefMove
from kfm.policy.policy_bundle import shipped
from kfm.policy.promotion_gate import promotion_gate
from tests.engine.site_under_test import Lines, MemorySite

SHA = "sha256:" + "0" * 64


def made() -> tuple[MemorySite, RefMove]:
    site = MemorySite()
    site.run(Lines())
    return site, RefMove(ref="published/demo", before="", after=site.state.refs.at("processed/demo"))


def decide(site: MemorySite, move: RefMove) -> Decision:
    return promotion_gate(site.state, site.world.objects, move)


def test_a_complete_version_passes_under_a_named_policy() -> None:
    decision = decide(*made())
    assert decision.allow is True and decision.reasons == [] and decision.policy_digest == shipped().digest


def test_a_version_without_a_run_does_not_pass() -> None:
    site, move = made()
    decision = decide(site, msgspec.structs.replace(move, after=SHA))
    assert decision.allow is False and "provenance" in decision.reasons[0]


PUBLIC = {"title": "x", "license": "MIT", "sensitivity": "public"}


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ({**PUBLIC, "sensitivity": "restricted"}, "not public"),
        ({**PUBLIC, "license": ""}, "license is not declared"),
        ({}, "title is not declared"),
    ],
    ids=str,
)
def test_what_is_declared_today_decides_whatever_the_version_was_made_under(
    declared: dict[str, str], reason: str
) -> None:
    site, move = made()
    decision = promotion_gate(site.state, site.world.objects, move, declared)
    assert decision.allow is False and any(reason in said for said in decision.reasons)


def test_what_was_not_declared_when_a_version_was_made_may_be_declared_later(monkeypatch: pytest.MonkeyPatch) -> None:
    site, move = made()
    tampered(site, monkeypatch, metadata={})
    assert promotion_gate(site.state, site.world.objects, move, PUBLIC).allow is True


def test_a_version_that_was_made_as_restricted_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    site, move = made()
    tampered(site, monkeypatch, metadata={**PUBLIC, "sensitivity": "restricted"})
    decision = promotion_gate(site.state, site.world.objects, move, PUBLIC)
    assert decision.allow is False and "stays so" in decision.reasons[0]


def tampered(site: MemorySite, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    real = site.state.ledger.version

    def version(dataset: str, digest: str) -> DatasetVersion | None:
        found = real(dataset, digest)
        return None if found is None else msgspec.structs.replace(found, **changes)

    monkeypatch.setattr(site.state.ledger, "version", version)


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {}},
        {"metadata": {"title": "x", "license": "MIT"}},
        {"metadata": {"title": "x", "license": "MIT", "sensitivity": "restricted"}},
        {"metadata": {"title": " ", "license": "MIT", "sensitivity": "public"}},
        {"metadata": {"title": 1, "license": "MIT", "sensitivity": "public"}},
        {"metadata": {"title": "x", "license": None, "sensitivity": "public"}},
        {"metadata": {"title": "x", "license": "MIT", "sensitivity": True}},
        {"metadata": {"title": "x", "license": "MIT", "sensitivity": ["public"]}},
        {"validation": {}},
        {"validation": {"sources": 0, "contracts": 0}},
        {"validation": {"sources": 2, "contracts": 1}},
        {"plan_hash": ""},
        {"plan_hash": "sha256:x"},
        {"input_hash": ""},
        {"updater_version": ""},
        {"digest": SHA},
        {"run_id": "another"},
    ],
    ids=str,
)
def test_a_version_with_one_thing_missing_does_not_pass(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, move = made()
    tampered(site, monkeypatch, **changes)
    decision = decide(site, move)
    assert decision.allow is False and decision.reasons


@pytest.mark.parametrize("changes", [{"status": "FAILED"}, {"dry_run": True}, {"outputs": []}], ids=str)
def test_a_receipt_that_does_not_bear_it_out_does_not_pass(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, move = made()
    real = site.state.ledger.receipt

    def receipt(run_id: str) -> Receipt | None:
        found = real(run_id)
        return None if found is None else msgspec.structs.replace(found, **changes)

    monkeypatch.setattr(site.state.ledger, "receipt", receipt)
    assert decide(site, move).allow is False


def test_a_check_that_fails_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    site, move = made()

    def broken(*_arguments: str) -> None:
        raise Corrupt("cannot be read")

    monkeypatch.setattr(site.state.ledger, "version", broken)
    decision = decide(site, move)
    assert decision.allow is False and decision.reasons == ["the check itself failed: corrupt"]
    refusal = denied(SimpleNamespace(dataset="d"), "published/d may not move", decision)  # type: ignore[arg-type]
    assert "kfm.yml" not in refusal.hint and "`kfm doctor` names what does not answer" in refusal.hint


def test_a_missing_object_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    site, move = made()
    real = type(site.world.objects).open

    def gone(objects: Any, name: str) -> Any:
        if name == move.after:
            return real(objects, name)
        raise Corrupt(f"object {name} is missing")

    monkeypatch.setattr(type(site.world.objects), "open", gone)
    decision = decide(site, move)
    assert decision.allow is False and decision.reasons[0].startswith("checksums: object sha256:")


@pytest.mark.parametrize("allow", [False, None, 1, "true", {}, [], "yes"], ids=repr)
def test_only_a_literal_true_opens(allow: Any) -> None:
    site, _ = made()
    site.guards.gate = lambda _state, _objects, move, **_: Decision(
        gate="x", allow=allow, subject=move.after, policy_digest=SHA
    )
    assert site.operate("promote").outcome == "denied"
    assert site.state.refs.at("published/demo") == ""


def test_a_yes_about_other_bytes_does_not_open() -> None:
    site, _ = made()
    site.guards.gate = lambda _state, _objects, _move, **_: Decision(
        gate="x", allow=True, subject=SHA, policy_digest=SHA
    )
    assert site.operate("promote").outcome == "denied"
    assert site.state.refs.at("published/demo") == ""


def test_a_rollback_is_judged_by_the_rules_of_today() -> None:
    site, _ = made()
    site.operate("promote")
    first = site.state.refs.at("published/demo")
    site.shelf.body = b"second"
    site.run(Lines())
    site.operate("promote")
    site.guards.gate = lambda _state, _objects, move, **_: Decision(
        gate="x", allow=move.after != first, subject=move.after, policy_digest=SHA, reasons=["withdrawn since"]
    )
    receipt = site.operate("rollback")
    assert receipt.outcome == "denied" and "withdrawn since" in receipt.errors[0].message
    assert site.state.refs.at("published/demo") != first
