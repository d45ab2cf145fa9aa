"""Signs the statements about a version in the transaction that commits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kfm.app.session.trust import Trust
from kfm.errors import BadInput, Corrupt, Refused
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.names import is_digest
from kfm.model.ports import Tx
from kfm.model.records import DatasetVersion, Receipt, SourceRef

if TYPE_CHECKING:
    from kfm.model.masks import MaskingPolicy
    from kfm.projections.attestations import InTotoStatement
    from kfm.projections.signed_lists import SignedList

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
        """Store the signed statements of a run in this transaction, and a signed list of them for each version. Return
        their keys. Refused if there is no signing key."""
        return self._signed(receipt, inputs, policies, tx, tx.ledger.next_index() - 1, {})

    def again(self, receipt: Receipt, inputs: Sequence[SourceRef], entry: int, tx: Tx) -> list[str]:
        """Sign the statements of an earlier run again, whose ledger index is `entry`. Raise Corrupt if its list, or a
        statement that the list names, was removed: a new list would hide that."""
        kept: dict[str, dict[str, bytes]] = {}
        for version in {item.checksum for item in receipt.outputs} | {d.subject for d in receipt.policy_decisions}:
            for key, envelope in tx.ledger.attestations(f"{receipt.dataset}@{version}") if is_digest(version) else ():
                if key.endswith(f"/{receipt.run_id}"):
                    kept.setdefault(version, {})[key] = envelope
        _check_listed(receipt, kept)
        return self._signed(receipt, inputs, {}, tx, entry, kept)

    def list_again(self, receipt: Receipt, version: DatasetVersion, entry: int, tx: Tx) -> str:
        """Sign only the list of an earlier run about a version again, because the list before it changed. Return its
        key."""
        from kfm.projections.attestations import envelope_of
        from kfm.projections.signed_lists import is_list, list_key, list_statement

        stored = tx.ledger.attestations(f"{version.dataset}@{version.digest}")
        kept = {key: envelope for key, envelope in stored if key.endswith(f"/{receipt.run_id}")}
        _check_listed(receipt, {version.digest: kept})
        signer = self._trust.signer("attest")
        if signer is None:
            raise Refused("there is no key to attest with", hint="set attest.sign_with in kfm.yml")
        statements = {key: envelope for key, envelope in kept.items() if not is_list(key)}
        listed = _list(receipt, version, statements, entry, tx)
        key = list_key(version.dataset, version.digest, entry, receipt.run_id)
        tx.ledger.keep_attestation(key, envelope_of(list_statement(version, listed), [signer]))
        return key

    def _signed(
        self,
        receipt: Receipt,
        inputs: Sequence[SourceRef],
        policies: Mapping[str, MaskingPolicy],
        tx: Tx,
        entry: int,
        kept: Mapping[str, Mapping[str, bytes]],
    ) -> list[str]:
        """Store the statements and lists of a run. `kept` are statements that it already has, by version and key."""
        from kfm.projections.attestations import envelope_of
        from kfm.projections.signed_lists import is_list, list_key, list_statement

        found = list(_statements(receipt, inputs, policies, tx, self._builder))
        signer = self._trust.signer("attest") if found else None
        if found and signer is None:
            raise Refused("there is no key to attest with", hint="set attest.sign_with in kfm.yml")
        keys: list[str] = []
        about: dict[str, tuple[DatasetVersion, dict[str, bytes]]] = {}
        for version, what, statement in found:
            assert signer is not None
            key = f"{version.dataset}@{version.digest}/{what}/{receipt.run_id}"
            envelope = envelope_of(statement, [signer])
            tx.ledger.keep_attestation(key, envelope)
            earlier = {name: body for name, body in kept.get(version.digest, {}).items() if not is_list(name)}
            about.setdefault(version.digest, (version, earlier))[1][key] = envelope
            keys.append(key)
        for version, envelopes in about.values():
            assert signer is not None
            listed = _list(receipt, version, envelopes, entry, tx)
            key = list_key(version.dataset, version.digest, entry, receipt.run_id)
            tx.ledger.keep_attestation(key, envelope_of(list_statement(version, listed), [signer]))
            keys.append(key)
        return keys


def _list(receipt: Receipt, version: DatasetVersion, envelopes: Mapping[str, bytes], entry: int, tx: Tx) -> SignedList:
    """Return the list of what a run added about a version. The first list also names the receipts of its makers."""
    from kfm.model import refs
    from kfm.projections.signed_lists import (
        ListedReceipt,
        ListedStatement,
        Publication,
        SignedList,
        kind_of,
        published_by,
    )

    about = f"{version.dataset}@{version.digest}"
    before = next(iter(tx.ledger.signed_lists(about, before=entry)), None)
    makers = (version.run_id, version.validated_by) if before is None else ()
    bodies = {run_id: tx.ledger.receipt_body(run_id) for run_id in dict.fromkeys((receipt.run_id, *makers)) if run_id}
    publication = None
    if published_by(receipt, version.digest):
        for move in tx.refs.history(refs.published(receipt.dataset), reverse=True):
            if move.run_id == receipt.run_id and move.after == version.digest:
                publication = Publication(seq=move.n, before=move.before)
                break
    return SignedList(
        run_id=receipt.run_id,
        entry=entry,
        previous=digest(before[1]) if before is not None else "",
        receipts=[ListedReceipt(run_id=name, digest=digest(body)) for name, body in bodies.items() if body is not None],
        statements=sorted(
            (
                ListedStatement(kind=kind_of(key.split("/")[1]), digest=digest(envelope))
                for key, envelope in envelopes.items()
            ),
            key=lambda one: (one.kind, one.digest),
        ),
        publication=publication,
    )


def _check_listed(receipt: Receipt, kept: Mapping[str, Mapping[str, bytes]]) -> None:
    """Raise Corrupt if a run that signed a list has none any more, or lost a masking statement, which cannot be made
    again."""
    from kfm.projections.signed_lists import is_list, kind_of, list_in, marks

    cure = "restore the state from a backup; see `kfm verify`"
    for version, envelopes in kept.items():
        lists = [list_in(body) for key, body in envelopes.items() if is_list(key)]
        there = [kind_of(key.split("/")[1]) for key in envelopes if not is_list(key)]
        for listed in lists:
            wanted = [one.kind for one in listed.statements] if listed is not None else []
            if listed is None or wanted.count("masking") > there.count("masking"):
                raise Corrupt(f"a statement of run {receipt.run_id} about masking was removed", hint=cure)
        if not lists and marks(receipt, version):
            raise Corrupt(f"the signed list of run {receipt.run_id} was removed", hint=cure)


def _statements(
    receipt: Receipt, inputs: Sequence[SourceRef], policies: Mapping[str, MaskingPolicy], tx: Tx, builder: str
) -> Iterator[tuple[DatasetVersion, str, InTotoStatement]]:
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
        yield version, "provenance", made
        contracts = sorted({source.contract_hash for source in inputs if source.contract_hash})
        if contracts:
            yield version, "quality", attestations.quality(version, contracts)
        if policies and any(source.standing and source.standing.level == "generalised" for source in inputs):
            for name in sorted(policies):
                policy = policies[name]
                rules = (version.standing.rules if version.standing else ()) or ("mask",)
                said = attestations.masking_statement(version, digest(canonical(policy)), policy.resolution, rules)
                yield version, f"masking-{policy.id}", said
    for decision in receipt.policy_decisions:
        version = tx.ledger.version(receipt.dataset, decision.subject)
        if version is not None and is_digest(decision.policy_digest):
            said = attestations.gate_statement(version, decision, receipt.finished_at, builder)
            yield version, f"verdict-{decision.gate}", said


def _without_addresses(receipt: Receipt, version: DatasetVersion) -> Receipt:
    """Return the receipt without the addresses of protected sources, and without hashes that are derived from them or
    from step ids, because a reader who guesses an address could confirm it."""
    if version.standing is None or version.standing.level == "public":
        return receipt
    hidden = [msgspec.structs.replace(item, id=PROTECTED) if item.kind == "uri" else item for item in receipt.inputs]
    plan = receipt.plan_hash if version.standing.publishable() else ""
    return msgspec.structs.replace(receipt, inputs=hidden, partition="", run_key="", input_hash="", plan_hash=plan)
