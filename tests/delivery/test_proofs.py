"""Proofs are attached: a reader with the catalog and the public key can check the ledger entry of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kfm.crypto import merkle
from kfm.crypto.checkpoints import Verifier, open_checkpoint
from tests.delivery.sites import Site

SIGNED = (
    "ledger: {sign_with: env:KFM_SECRET_LEDGER, origin: kfm.example.org/ledger, every: 3}\n"
    "attest: {sign_with: env:KFM_SECRET_LEDGER}\n"
)


@pytest.fixture
def site(place: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("KFM_SECRET_LEDGER", "ab" * 32)
    return Site(place / "site", ("demo", "other"), more=SIGNED)


def proofs(site: Site) -> list[Any]:
    return [json.loads(body) for name, body in site.catalog.items() if name.endswith(".proof.json")]


def test_every_run_that_led_to_it_is_proved_by_the_first_signed_head_that_covers_it(site: Site) -> None:
    from kfm.app.provenance.audit import export_key

    with site.open() as session:
        for n in range(4):
            site.publish(session, {"a": f"{n}", "b": "x"})
            site.sound()  # also while some are not covered yet, and when they have become so
        key = Verifier.parsed(export_key(session))
        receipts = {entry.run_id: entry.receipt_digest for entry in session.state.ledger.entries()}
        covered = max(size for size, _ in session.state.ledger.checkpoints())
    found = proofs(site)
    assert len(found) == 4
    proved = [each for each in found if "inclusion" in each["ledger"]]
    assert {each["ledger"]["index"] for each in proved} == {
        each["ledger"]["index"] for each in found if each["ledger"]["index"] <= covered
    }
    for each in proved:
        said = each["ledger"]
        head = open_checkpoint(said["checkpoint"], [key], "kfm.example.org/ledger")
        way = [bytes.fromhex(text) for text in said["inclusion"]]
        leaf = bytes.fromhex(said["leaf"])
        assert merkle.is_included(leaf, said["index"] - 1, said["size"], way, bytes.fromhex(head.root))
        assert not merkle.is_included(b"\0" * 32, said["index"] - 1, said["size"], way, bytes.fromhex(head.root))
        assert each["receipt"]["digest"] == receipts[each["run_id"]]
        assert each["attestations"] and all("payload" in envelope for envelope in each["attestations"])


def test_a_head_that_is_signed_by_the_run_of_another_dataset_proves_this_one_too(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        assert not any("inclusion" in each["ledger"] for each in proofs(site))
        site.ingest(session, {"a": "1"}, "other")
        site.ingest(session, {"a": "2"}, "other")
    assert all("inclusion" in each["ledger"] for each in proofs(site)) and proofs(site)
    site.sound()


def test_without_a_key_the_place_is_said_and_nothing_is_claimed(place: Path) -> None:
    site = Site(place / "site")
    with site.open() as session:
        site.publish(session, {"a": "1"})
    (found,) = proofs(site)
    assert set(found["ledger"]) == {"index", "leaf"} and found["attestations"] == []
