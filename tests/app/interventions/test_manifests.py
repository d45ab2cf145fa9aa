"""Every rollback leaves a signed manifest, which an auditor verifies with the public key alone."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from kfm.model.keys import digest
from kfm.projections.reports.rollback_manifest import ROLLBACK
from tests.app.dependencies.conftest import DOWN, UP, at, written
from tests.app.interventions.conftest import HEAD, SECOND, made
from tests.cli.conftest import Kfm
from tests.crypto.world import seed, signer

PROVER = signer("prover")
FOLDER = Path(".kfm/manifests")


@pytest.fixture
def signing(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """`tops` and `deep` at their second version, in an installation that signs."""
    monkeypatch.setenv("KFM_SECRET_ATTEST", seed("prover").hex())
    written(UP, DOWN, head="attest: {sign_with: env:KFM_SECRET_ATTEST}\n" + HEAD)
    made(kfm, "tops", "deep")
    Path("tops.csv").write_text(SECOND)
    made(kfm, "tops", "deep")
    assert not FOLDER.exists(), "only a rollback has a manifest"
    return kfm


def statement(path: Path) -> dict[str, Any]:
    """What a manifest says, if its signature is that of our key for the libraries of in-toto."""
    (line,) = path.read_bytes().splitlines()
    key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(PROVER.public), keyid=PROVER.key_id)
    Envelope.from_dict(json.loads(line)).verify([key], 1)
    said: dict[str, Any] = json.loads(b64decode(json.loads(line)["payload"]))
    return said


def last_receipt(kfm: Kfm) -> dict[str, Any]:
    row = kfm("runs", "receipts", "--limit", "1", "--json").data[0]
    receipt: dict[str, Any] = kfm("runs", "receipt", row["run_id"], "--json").data
    return receipt


def test_a_rollback_of_several_refs_leaves_one_manifest_of_all_its_moves(signing: Kfm) -> None:
    assert signing("rollback", "tops", "--cascade", "--dry-run").code == 0
    assert not FOLDER.exists(), "a dry run took nothing back"
    assert signing("rollback", "tops", "--cascade", "--reason", "it was wrong", "--actor", "ada").code == 0
    receipt = last_receipt(signing)
    (path,) = FOLDER.iterdir()
    assert path.name == f"rollback-{receipt['run_id']}.intoto.jsonl"
    said = statement(path)
    assert (said["predicateType"], said["predicate"]["reason"]) == (ROLLBACK, "it was wrong")
    assert said["predicate"]["actor"] == "ada"
    assert said["predicate"]["moves"] == receipt["moves"] and len(receipt["moves"]) == 2
    assert said["predicate"]["decisions"] == receipt["policy_decisions"]
    about = {(one["name"], "sha256:" + one["digest"]["sha256"]) for one in said["subject"]}
    moved = {(move["ref"].replace("published/", "kfm://dataset/"), move[end]) for move in receipt["moves"]
             for end in ("before", "after")}  # fmt: skip
    assert about == moved
    kept = signing("runs", "receipt", receipt["run_id"], "--exact").out
    assert said["predicate"]["ledger"]["receipt"] == digest(kept.rstrip("\n").encode())
    told = signing("verify", str(path), "--key", PROVER.public.hex())
    assert told.code == 0 and ROLLBACK in told.out
    path.write_bytes(path.read_bytes().replace(b'"payload":"e', b'"payload":"f'))
    assert signing("verify", str(path), "--key", PROVER.public.hex()).code == 67


def test_a_withdrawal_and_a_rollback_of_what_is_not_public_leave_one_each(signing: Kfm) -> None:
    version = at(signing, "published/deep")
    assert signing("rollback", "deep", "--to", "nothing", "--reason", "not ours").code == 0
    (path,) = FOLDER.iterdir()
    assert [one["digest"]["sha256"] for one in statement(path)["subject"]] == [version.removeprefix("sha256:")]
    assert signing("rollback", "tops", "--ref", "processed/tops", "--reason", "it was wrong").code == 0
    (other,) = set(FOLDER.iterdir()) - {path}
    assert [move["ref"] for move in statement(other)["predicate"]["moves"]] == ["processed/tops"]
    assert signing("run").code == 0
    assert len(list(FOLDER.iterdir())) == 2, "only a rollback has a manifest"


def test_without_its_key_a_withdrawal_is_done_and_its_manifest_is_pending(
    signing: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KFM_SECRET_ATTEST")
    answer = signing("rollback", "deep", "--to", "nothing", "--reason", "not ours")
    assert "committed, but not delivered yet, do not repeat it: manifests: the secret env:KFM_SECRET_ATT" in answer.err
    assert at(signing, "published/deep") == "" and not FOLDER.exists()
    assert "manifests" in signing("sinks").out
    monkeypatch.setenv("KFM_SECRET_ATTEST", seed("prover").hex())
    assert signing("sinks", "retry", "manifests").code == 0
    (path,) = FOLDER.iterdir()
    assert statement(path)["predicate"]["reason"] == "not ours"


@pytest.mark.parametrize("place", ["public/manifests", ".kfm/receipts", "."])
def test_a_folder_of_manifests_that_is_public_or_taken_is_refused(signing: Kfm, place: str) -> None:
    config = Path("kfm.yml")
    config.write_text(config.read_text().replace("ATTEST}", f"ATTEST, manifests: {place}}}"))
    answer = signing("status")
    assert answer.code == 3 and "attest.manifests" in answer.err and "write .kfm/manifests" in answer.err


def test_a_manifest_is_not_written_where_readers_look_however_that_is_spelt(signing: Kfm) -> None:
    config = Path("kfm.yml")
    config.write_text(config.read_text().replace("ATTEST}", f"ATTEST, manifests: {Path('public/m').absolute()}}}"))
    answer = signing("rollback", "tops", "--reason", "it was wrong")
    assert "`attest.manifests` lies in file:public, which is public" in answer.err
    assert not Path("public/m").exists()
