"""Signs the statements about a version in the transaction that commits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kfm.app.session.trust import Trust
from kfm.errors import BadInput, Refused
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.names import is_digest
from kfm.model.ports import Tx
from kfm.model.records import DatasetVersion, Receipt, SourceRef

if TYPE_CHECKING:
    from kfm.model.masks import MaskingPolicy
    from kfm.projections.attestations import InTotoStatement

PROTECTED = "urn:kfm:source:protected"


class Attester:
    """Signs the statements of a run about its version."""

    def __init__(self, trust: Trust, builder: str) -> None:
        self._trust = trust
        self._builder = builder

    def check(self) -> None:
        """Raise BadInput if the signing key cannot be read. Whether the key list permits it is checked in the commit,
        so that a run with nothing to do loads no cryptography."""
        try:
            self._trust.check_readable("attest")
        except BadInput as problem:
            raise BadInput(
                f"the key that attest.sign_with names cannot be used: {problem.message}", hint=problem.hint
            ) from None

    def __call__(
        self, receipt: Receipt, inputs: Sequence[SourceRef], policies: Mapping[str, MaskingPolicy], tx: Tx
    ) -> list[str]:
        """Store the signed statements of a run in this transaction, and return their keys. Refused if there is no
        signing key."""
        from kfm.projections.attestations import envelope_of

        found = list(_statements(receipt, inputs, policies, tx, self._builder))
        signer = self._trust.signer("attest") if found else None
        if found and signer is None:
            raise Refused("there is no key to attest with", hint="set attest.sign_with in kfm.yml")
        for key, statement in found:
            assert signer is not None
            tx.ledger.keep_attestation(key, envelope_of(statement, [signer]))
        return [key for key, _ in found]


def _statements(
    receipt: Receipt, inputs: Sequence[SourceRef], policies: Mapping[str, MaskingPolicy], tx: Tx, builder: str
) -> Iterator[tuple[str, InTotoStatement]]:
    """Yield the statements of a run: how the version was made, which contracts it passed, how it was masked, and what
    each gate decided."""
    from kfm.projections import attestations

    body = tx.ledger.receipt_body(receipt.run_id)
    assert body is not None, "it was appended before"
    for item in receipt.outputs:
        version = tx.ledger.version(receipt.dataset, item.checksum) if item.kind == "dataset" else None
        if version is None:
            continue
        made = attestations.provenance(version, _without_addresses(receipt, version), body, builder)
        yield _key(version, "provenance", receipt), made
        contracts = sorted({source.contract_hash for source in inputs if source.contract_hash})
        if contracts:
            yield _key(version, "quality", receipt), attestations.quality(version, contracts)
        if policies and any(source.standing and source.standing.level == "generalised" for source in inputs):
            for name in sorted(policies):
                policy = policies[name]
                rules = (version.standing.rules if version.standing else ()) or ("mask",)
                said = attestations.masking_statement(version, digest(canonical(policy)), policy.resolution, rules)
                yield _key(version, f"masking-{policy.id}", receipt), said
    for decision in receipt.policy_decisions:
        version = tx.ledger.version(receipt.dataset, decision.subject)
        if version is not None and is_digest(decision.policy_digest):
            said = attestations.gate_statement(version, decision, receipt.finished_at, builder)
            yield _key(version, f"verdict-{decision.gate}", receipt), said


def _key(version: DatasetVersion, what: str, receipt: Receipt) -> str:
    return f"{version.dataset}@{version.digest}/{what}/{receipt.run_id}"


def _without_addresses(receipt: Receipt, version: DatasetVersion) -> Receipt:
    """Return the receipt without the addresses of protected sources, and without hashes that are derived from them or
    from step ids, because a reader who guesses an address could confirm it."""
    if version.standing is None or version.standing.level == "public":
        return receipt
    hidden = [msgspec.structs.replace(item, id=PROTECTED) if item.kind == "uri" else item for item in receipt.inputs]
    plan = receipt.plan_hash if version.standing.publishable() else ""
    return msgspec.structs.replace(receipt, inputs=hidden, partition="", run_key="", input_hash="", plan_hash=plan)
