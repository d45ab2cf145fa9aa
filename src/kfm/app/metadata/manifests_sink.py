"""The sink of manifests: writes a signed manifest of every rollback into a private folder, for auditors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kfm.app.metadata.private_folder import check_private
from kfm.app.session.backends import sink_lock
from kfm.app.session.session import trust_of
from kfm.delivery.followers import Follower
from kfm.errors import Denied, Refused
from kfm.model.outbox_messages import Letter
from kfm.sinks.receipt_files import ReceiptFiles

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry

MANIFESTS = "manifests"  # the sink


def manifests_follower(session: Session) -> Follower:
    """Return the follower that writes manifests."""
    sink = ReceiptFiles(session.resolved.at(session.resolved.config.attest.manifests), MANIFESTS)
    return Follower(sink, partial(_letters, session), sink_lock(session.resolved, session.state, MANIFESTS))


def _letters(session: Session, entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
    from kfm.projections.attestations import envelope_of
    from kfm.projections.reports.rollback_manifest import manifest_path, rollback_manifest

    for entry in entries:
        receipt = session.state.ledger.receipt(entry.run_id) if entry.op_type == "rollback" else None
        if receipt is None or receipt.status != "SUCCESS" or not receipt.moves:
            continue
        check_private(session.resolved, "attest.manifests", session.resolved.config.attest.manifests)
        try:
            signer = trust_of(session).signer("attest")
        except Refused as problem:  # the key is at fault, and not the rollback: it is tried again
            raise Denied(problem.message, hint=problem.hint) from None
        assert signer is not None, "there is no such sink without a key"
        body = envelope_of(rollback_manifest(receipt, entry), [signer]) + b"\n"
        key = manifest_path(entry.run_id)
        yield Letter(index=entry.index, run_id=entry.run_id, dataset=entry.dataset, key=key, body=body)
