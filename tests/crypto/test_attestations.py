"""The libraries of in-toto read our attestations, KFM reads theirs, and both refuse a changed one."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement as TheirStatement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from kfm.crypto.envelopes import pae, unwrap, wrap
from kfm.crypto.signatures import Signer
from kfm.errors import BadInput, Denied
from kfm.model.keys import digest
from kfm.model.records import DatasetVersion, Decision, Item, Receipt
from kfm.projections import attestations
from kfm.projections.attestations import (
    PAYLOAD,
    InTotoStatement,
    envelope_of,
    gate_statement,
    masking_statement,
    provenance,
    quality,
    verify_envelope,
)
from tests.crypto.world import NOW, signer

PROVER, OTHER = signer("prover"), signer("other")
BUILDER = "urn:kfm:installation:kansas"
POLICY, CONTRACT = digest(b"policy"), digest(b"contract")
VERSION = DatasetVersion(
    dataset="noaa-stations",
    digest=digest(b"manifest"),
    entries=2,
    size=100,
    supersedes="",
    run_id="run-1",
    updater_id="noaa-stations",
    updater_version="1.2.0",
    plan_hash=digest(b"plan"),
    input_hash=digest(b"inputs"),
    metadata={"license": "CC0-1.0"},
    validation={"rows": 10, "held_rows": 0, "findings": 0},
)
RECEIPT = Receipt(
    run_id="run-1",
    job_id="job-1",
    job_type="ingest.pull_source",
    dataset="noaa-stations",
    updater_id="noaa-stations",
    updater_version="1.2.0",
    status="SUCCESS",
    outcome="done",
    trigger="manual",
    actor="ops",
    reason="",
    run_key="ab" * 32,
    input_hash=VERSION.input_hash,
    plan_hash=VERSION.plan_hash,
    started_at=NOW,
    finished_at=NOW,
    dry_run=False,
    inputs=[Item(kind="uri", id="https://example.org/stations.csv", checksum=digest(b"csv"), zone="raw")],
    outputs=[],
    moves=[],
    steps=2,
    held_rows=0,
    provenance={"tool_versions": {"kfm": "0.1.0"}, "transforms": []},
    policy_decisions=[],
    errors=[],
)
DECISION = Decision(gate="fair-care", allow=True, subject=VERSION.digest, policy_digest=POLICY)
STATEMENTS: dict[str, InTotoStatement] = {
    "provenance": provenance(VERSION, RECEIPT, b"receipt", BUILDER),
    "verdict": gate_statement(VERSION, DECISION, NOW, BUILDER),
    "quality": quality(VERSION, [CONTRACT]),
    "masked": masking_statement(VERSION, POLICY, 7, ["cell", "withhold.site"]),
}


def their_key(signer: Signer) -> SSlibKey:
    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(signer.public), keyid=signer.key_id)


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_we_sign_the_libraries_of_in_toto_verify_and_read(name: str) -> None:
    envelope = envelope_of(STATEMENTS[name], [PROVER])
    theirs = Envelope.from_dict(json.loads(envelope))
    assert theirs.payload_type == "application/vnd.in-toto+json"
    assert list(theirs.verify([their_key(PROVER)], 1)) == [PROVER.key_id]
    with pytest.raises(VerificationError):
        theirs.verify([their_key(OTHER)], 1)
    parsed = json_format.Parse(theirs.payload, statement_pb2.Statement())
    statement = TheirStatement.copy_from_pb(parsed)
    statement.validate()
    assert statement.pb.subject[0].name == "kfm://dataset/noaa-stations"
    assert "sha256:" + statement.pb.subject[0].digest["sha256"] == VERSION.digest


def test_our_provenance_is_one_of_slsa() -> None:
    read = json_format.ParseDict(STATEMENTS["provenance"].predicate, provenance_pb2.Provenance())
    assert read.build_definition.build_type == attestations.BUILD
    assert read.build_definition.resolved_dependencies[0].uri == "https://example.org/stations.csv"
    assert read.run_details.builder.id == BUILDER and read.run_details.builder.version["kfm"] == "0.1.0"
    assert read.run_details.metadata.invocation_id == "run-1"
    assert read.run_details.metadata.started_on.ToJsonString() == "2026-03-02T12:00:00Z"


def test_our_test_results_are_those_of_in_toto() -> None:
    for held, findings, result in ((0, 0, "PASSED"), (0, 3, "WARNED"), (2, 3, "FAILED")):
        version = msgspec.structs.replace(VERSION, validation={"rows": 9, "held_rows": held, "findings": findings})
        read = json_format.ParseDict(quality(version, [CONTRACT]).predicate, test_result_pb2.TestResult())
        named = [list(read.passed_tests), list(read.warned_tests), list(read.failed_tests)]
        assert read.result == result and [len(each) for each in named] == [
            int(result == word) for word in ("PASSED", "WARNED", "FAILED")
        ]


def their_envelope(statement: TheirStatement, private: Ed25519PrivateKey) -> bytes:
    body = json_format.MessageToJson(statement.pb, indent=None).encode()
    envelope = Envelope(payload=body, payload_type=PAYLOAD, signatures={})
    envelope.sign(CryptoSigner(private))
    return json.dumps(envelope.to_dict()).encode()


def test_what_they_sign_we_verify() -> None:
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public = private.public_key().public_bytes_raw()
    subject = ResourceDescriptor(name="theirs", digest={"sha256": VERSION.digest.removeprefix("sha256:")}).pb
    theirs = TheirStatement([subject], "https://example.org/says/v1", {"anything": {"they": "like"}})
    envelope = their_envelope(theirs, private)
    read = verify_envelope(envelope, [OTHER.public, public], VERSION.digest, "https://example.org/says/v1")
    assert read.predicate == {"anything": {"they": "like"}} and read.subject[0].name == "theirs"
    for wrong in ([], [OTHER.public]):
        with pytest.raises(Denied, match=r"^0 trusted keys"):
            verify_envelope(envelope, wrong, VERSION.digest)
    with pytest.raises(Denied, match="another version"):
        verify_envelope(envelope, [public], digest(b"another version"))
    with pytest.raises(Denied, match="predicateType"):
        verify_envelope(envelope, [public], VERSION.digest, attestations.PROVENANCE)


def test_it_is_made_the_same_each_time_and_read_back_as_it_was() -> None:
    for statement in STATEMENTS.values():
        envelope = envelope_of(statement, [PROVER])
        assert envelope_of(statement, [PROVER]) == envelope
        assert verify_envelope(envelope, [PROVER.public], VERSION.digest, statement.predicate_type) == statement


def test_the_encoding_that_is_signed_is_that_of_dsse() -> None:
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_a_threshold_counts_keys_and_not_signatures() -> None:
    twice = json.loads(envelope_of(STATEMENTS["quality"], [PROVER]))
    twice["signatures"].append({"sig": twice["signatures"][0]["sig"]})
    body = json.dumps(twice).encode()
    assert verify_envelope(body, [PROVER.public], VERSION.digest)
    with pytest.raises(Denied, match=r"^1 trusted keys"):
        verify_envelope(body, [PROVER.public, OTHER.public], VERSION.digest, threshold=2)
    both = envelope_of(STATEMENTS["quality"], [PROVER, OTHER])
    assert unwrap(both, PAYLOAD, [PROVER.public, OTHER.public], 2).key_ids == sorted([PROVER.key_id, OTHER.key_id])
    with pytest.raises(Denied):
        verify_envelope(both, [PROVER.public], VERSION.digest, threshold=0)
    with pytest.raises(BadInput):
        envelope_of(STATEMENTS["quality"], [])


def test_a_bit_flipped_anywhere_in_what_was_signed_is_seen() -> None:
    envelope = json.loads(envelope_of(STATEMENTS["masked"], [PROVER]))
    body = b64decode(envelope["payload"])
    for at in range(0, len(body) * 8, 5):
        bent = bytearray(body)
        bent[at // 8] ^= 1 << at % 8
        with pytest.raises(Denied):
            verify_envelope(_with(envelope, payload=b64encode(bent).decode()), [PROVER.public], VERSION.digest)
    with pytest.raises(Denied):
        verify_envelope(_with(envelope, payloadType="text/plain"), [PROVER.public], VERSION.digest)


def _with(envelope: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({**envelope, **fields}).encode()


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"\xff", b'{"payload":"!","payloadType":"application/vnd.in-toto+json","signatures":[]}'],
)
def test_what_is_no_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        verify_envelope(body, [PROVER.public], VERSION.digest)


def test_what_is_signed_but_no_statement_is_refused() -> None:
    plain = msgspec.to_builtins(STATEMENTS["quality"])
    older = json.dumps({**plain, "_type": "https://in-toto.io/Statement/v0.1"}).encode()
    silent = json.dumps({**plain, "predicateType": ""}).encode()
    nobody = json.dumps({**plain, "subject": []}).encode()
    for body in (b"{}", b"[1]", b"\xff", older, silent, nobody):
        with pytest.raises(Denied):
            verify_envelope(wrap(PAYLOAD, body, [PROVER]), [PROVER.public], VERSION.digest)


def test_only_what_fits_together_is_attested() -> None:
    with pytest.raises(BadInput, match="another run"):
        provenance(VERSION, msgspec.structs.replace(RECEIPT, run_id="run-2"), b"", BUILDER)
    with pytest.raises(BadInput, match="another version"):
        gate_statement(VERSION, msgspec.structs.replace(DECISION, subject=POLICY), NOW, BUILDER)
    with pytest.raises(BadInput, match="needs a digest"):
        gate_statement(VERSION, msgspec.structs.replace(DECISION, policy_digest=""), NOW, BUILDER)
    refused = gate_statement(VERSION, msgspec.structs.replace(DECISION, allow=False), NOW, BUILDER)
    assert refused.predicate["properties"] == []
    assert STATEMENTS["verdict"].predicate["properties"] == ["KFM_GATE_FAIR_CARE"]
