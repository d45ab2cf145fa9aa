"""What is attested about a version: in-toto Statements v1, signed in DSSE envelopes. Pure.

How it was made is SLSA provenance v1; what a gate said is a simple verification result; what its sources were held
against is a test result; how it was masked is a predicate of our own. Everything is taken from the receipt and the
version as they are public: of a protected dataset hand in the public ones, in which inputs have keyed digests.
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


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Others may say more of it; the parsing rules of in-toto let that pass."""

    digest: dict[str, str]
    name: str = ""


class Statement(msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "_type", "predicate_type": "predicateType"}):
    kind: str
    subject: list[Subject]
    predicate_type: str
    predicate: dict[str, Any] = {}


def _about(version: DatasetVersion, predicate_type: str, predicate: dict[str, Any]) -> Statement:
    subject = Subject(name=dataset_uri(version.dataset), digest=_sha256(version.digest))
    return Statement(kind=STATEMENT, subject=[subject], predicate_type=predicate_type, predicate=predicate)


def _sha256(text: str) -> dict[str, str]:
    if not is_digest(text):
        raise BadInput("something to be attested has no digest", hint="attest what was committed")
    return {"sha256": text.removeprefix("sha256:")}


def provenance(version: DatasetVersion, receipt: Receipt, receipt_body: bytes, builder: str) -> Statement:
    """Who made a version, from what, by which plan. `builder` is the URI of the installation."""
    if receipt.run_id not in (version.run_id, version.validated_by):
        raise BadInput("a receipt is of another run than the version's", hint="take the one of its maker")
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


def verdict(version: DatasetVersion, decision: Decision, at: str, verifier: str) -> Statement:
    """What a gate said. Only what passed is a property: a no is a statement with none."""
    if decision.subject != version.digest:
        raise BadInput("a gate's answer is about something else", hint="attest it with what it is about")
    passed = ["KFM_GATE_" + re.sub("[^A-Z0-9]", "_", decision.gate.upper())] if decision.allow is True else []
    policy = {"uri": f"urn:kfm:policy:{decision.gate}", "digest": _sha256(decision.policy_digest)}
    predicate = {"verifier": {"id": verifier, "policy": policy}, "timeCreated": at, "properties": passed}
    return _about(version, VERDICT, predicate)


def quality(version: DatasetVersion, contracts: Sequence[str]) -> Statement:
    """What its sources were held against: the digests of the data contracts, and how that ended."""
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


def masked(version: DatasetVersion, policy_digest: str, resolution: int, rules: Iterable[str]) -> Statement:
    """That nothing in it is finer than one cell, under which policy, by which rules."""
    predicate = {
        "method": "h3",
        "policy": {"digest": _sha256(policy_digest)},
        "resolution": resolution,
        "rules": sorted(rules),
    }
    return _about(version, MASKED, predicate)


def attested(statement: Statement, signers: Iterable[Signer]) -> bytes:
    """The envelope: one line of a `.intoto.jsonl`."""
    return wrap(PAYLOAD, canonical(msgspec.to_builtins(statement)), signers)


def verified(
    envelope: bytes, keys: Iterable[bytes], version: str, predicate_type: str = "", threshold: int = 1
) -> Statement:
    """What an envelope says about a version (its digest), if enough of these keys signed it. No network, no clock."""
    body = unwrap(envelope, PAYLOAD, keys, threshold).body
    try:
        statement = msgspec.json.decode(body, type=Statement)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Denied("what was signed is no statement of in-toto", hint="look at who signed it") from None
    if statement.kind != STATEMENT or not statement.predicate_type:
        raise Denied("what was signed is no Statement v1", hint="ask for one")
    if predicate_type and statement.predicate_type != predicate_type:
        raise Denied("a statement says something else than was asked for", hint="look at its predicateType")
    wanted = _sha256(version)["sha256"]
    if not any(subject.digest.get("sha256") == wanted for subject in statement.subject):
        raise Denied("a statement is about something else", hint="look for the one about this version")
    return statement
