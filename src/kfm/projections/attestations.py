"""Attestations about a version: in-toto Statements v1, signed in DSSE envelopes. Pure.

The build is SLSA provenance v1, a gate's decision is a simple verification result, the checks of the sources are a test
result, and masking has a predicate of KFM's own. All facts come from the public receipt and version. For a protected
dataset the caller passes the public ones, whose inputs have keyed digests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kfm.crypto.envelopes import unwrap, wrap
from kfm.crypto.signatures import Signer
from kfm.errors import BadInput, Denied
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.names import dataset_uri, is_digest
from kfm.model.records import DatasetVersion, Decision, Receipt

PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
VERDICT = "https://in-toto.io/attestation/svr/v0.1"
TESTED = "https://in-toto.io/attestation/test-result/v0.1"
MASKED = "urn:kfm:attestation:masking:1"
BUILD = "urn:kfm:build:updater:1"


class InTotoSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of an in-toto statement. Other producers may add fields; in-toto requires readers to ignore them."""

    digest: dict[str, str]
    name: str = ""


class InTotoStatement(
    msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "_type", "predicate_type": "predicateType"}
):
    kind: str
    subject: list[InTotoSubject]
    predicate_type: str
    predicate: dict[str, Any] = {}


def _about(version: DatasetVersion, predicate_type: str, predicate: dict[str, Any]) -> InTotoStatement:
    subject = InTotoSubject(name=dataset_uri(version.dataset), digest=_sha256(version.digest))
    return InTotoStatement(kind=STATEMENT, subject=[subject], predicate_type=predicate_type, predicate=predicate)


def _sha256(text: str) -> dict[str, str]:
    if not is_digest(text):
        raise BadInput("an attestation needs a digest, and there is none", hint="attest a committed version")
    return {"sha256": text.removeprefix("sha256:")}


def provenance(version: DatasetVersion, receipt: Receipt, receipt_body: bytes, builder: str) -> InTotoStatement:
    """Return the SLSA statement about who made a version, from which inputs and by which plan. `builder` is the URI of
    the installation."""
    if receipt.run_id not in (version.run_id, version.validated_by):
        raise BadInput("the receipt belongs to another run", hint="use the receipt of the run that made this version")
    return _about(
        version,
        PROVENANCE,
        {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": {
                    "dataset": dataset_uri(receipt.dataset),
                    "partition": receipt.partition,
                    "trigger": receipt.trigger,
                    "updater": receipt.updater_id,
                    "version": receipt.updater_version,
                },
                "internalParameters": {
                    "code_hash": receipt.code_hash,
                    "input_hash": receipt.input_hash,
                    "plan_hash": receipt.plan_hash,
                    "run_key": receipt.run_key,
                },
                "resolvedDependencies": [
                    {"uri": item.id, "digest": _sha256(item.checksum)}
                    for item in receipt.inputs
                    if is_digest(item.checksum)
                ],
            },
            "runDetails": {
                "builder": {"id": builder, "version": _tools(receipt)},
                "metadata": {
                    "invocationId": receipt.run_id,
                    "startedOn": receipt.started_at,
                    "finishedOn": receipt.finished_at,
                },
                "byproducts": [{"name": "receipt", "digest": _sha256(digest(receipt_body))}],
            },
        },
    )


def _tools(receipt: Receipt) -> dict[str, str]:
    tools = receipt.provenance.get("tool_versions", {})
    return {str(name): str(release) for name, release in tools.items()} if isinstance(tools, dict) else {}


def gate_statement(version: DatasetVersion, decision: Decision, at: str, verifier: str) -> InTotoStatement:
    """Return the statement about a gate's decision. An allowed version has one verified property; a denied one has
    none."""
    if decision.subject != version.digest:
        raise BadInput("the gate's decision is about another version", hint="attest it with its own version")
    passed = ["KFM_GATE_" + re.sub("[^A-Z0-9]", "_", decision.gate.upper())] if decision.allow is True else []
    policy = {"uri": f"urn:kfm:policy:{decision.gate}", "digest": _sha256(decision.policy_digest)}
    predicate = {"verifier": {"id": verifier, "policy": policy}, "timeCreated": at, "properties": passed}
    return _about(version, VERDICT, predicate)


def quality(version: DatasetVersion, contracts: Sequence[str]) -> InTotoStatement:
    """Return the statement that the sources passed their data contracts, with the digests of the contracts."""
    held, findings = version.validation.get("held_rows", 0), version.validation.get("findings", 0)
    result = "FAILED" if held else "WARNED" if findings else "PASSED"
    names = {"FAILED": "failedTests", "WARNED": "warnedTests", "PASSED": "passedTests"}
    predicate: dict[str, Any] = {
        "result": result,
        "configuration": [{"name": "data contract", "digest": _sha256(each)} for each in contracts],
        **{name: [] for name in names.values()},
    }
    predicate[names[result]] = [f"data-contract/{each.removeprefix('sha256:')[:12]}" for each in contracts]
    return _about(version, TESTED, predicate)


def masking_statement(
    version: DatasetVersion, policy_digest: str, resolution: int, rules: Iterable[str]
) -> InTotoStatement:
    """State that no place in the version is finer than one cell, under which policy and by which rules."""
    predicate = {
        "method": "h3",
        "policy": {"digest": _sha256(policy_digest)},
        "resolution": resolution,
        "rules": sorted(rules),
    }
    return _about(version, MASKED, predicate)


def envelope_of(statement: InTotoStatement, signers: Iterable[Signer]) -> bytes:
    """Return the signed envelope, one line of a `.intoto.jsonl` file."""
    return wrap(PAYLOAD, canonical(msgspec.to_builtins(statement)), signers)


def verify_envelope(
    envelope: bytes, keys: Iterable[bytes], version: str, predicate_type: str = "", threshold: int = 1
) -> InTotoStatement:
    """Return the statement of an envelope about a version (its digest). Raise Denied unless enough of these keys signed
    it. It uses neither network nor clock.
    """
    body = unwrap(envelope, PAYLOAD, keys, threshold).body
    try:
        statement = msgspec.json.decode(body, type=InTotoStatement)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Denied("the signed content is not an in-toto statement", hint="check who signed it") from None
    if statement.kind != STATEMENT or not statement.predicate_type:
        raise Denied("the signed content is not a Statement v1", hint="ask the signer for one")
    if predicate_type and statement.predicate_type != predicate_type:
        raise Denied("the statement has another predicate type than requested", hint="check its predicateType")
    wanted = _sha256(version)["sha256"]
    if not any(subject.digest.get("sha256") == wanted for subject in statement.subject):
        raise Denied("the statement is about another version", hint="use the statement about this version")
    return statement
