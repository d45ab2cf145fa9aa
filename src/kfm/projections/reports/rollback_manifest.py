"""The manifest of a rollback, for auditors: an in-toto statement about every version that it moved. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from kfm.model import refs
from kfm.model.names import dataset_uri, is_digest
from kfm.model.records import LedgerEntry, Receipt
from kfm.projections.attestations import STATEMENT, InTotoStatement, InTotoSubject

ROLLBACK = "urn:kfm:attestation:rollback:1"


def manifest_path(run_id: str) -> str:
    """Return the name of the manifest of a rollback: a file of one envelope, which `kfm verify` reads."""
    return f"rollback-{run_id}.intoto.jsonl"


def rollback_manifest(receipt: Receipt, entry: LedgerEntry) -> InTotoStatement:
    """Return the statement about a rollback that moved refs: who asked for it and why, every ref from where to where,
    what the policies decided, and the ledger entry that holds the digest of its receipt. Its subjects are all versions
    that were taken back or made current."""
    subjects = {
        (refs.parse(move.ref).dataset, version): None
        for move in receipt.moves
        if move.ref.startswith(refs.VERSIONS)
        for version in (move.before, move.after)
        if is_digest(version)
    }
    predicate: dict[str, Any] = {
        "run_id": receipt.run_id,
        "dataset": dataset_uri(receipt.dataset),
        "actor": receipt.actor,
        "reason": receipt.reason,
        "finished_at": receipt.finished_at,
        "moves": msgspec.to_builtins(receipt.moves),
        "decisions": msgspec.to_builtins(receipt.policy_decisions),
        "ledger": {"entry": entry.index, "previous": entry.prev, "receipt": entry.receipt_digest},
    }
    return InTotoStatement(
        kind=STATEMENT,
        subject=[
            InTotoSubject(name=dataset_uri(name), digest={"sha256": version.removeprefix("sha256:")})
            for name, version in sorted(subjects)
        ],
        predicate_type=ROLLBACK,
        predicate=predicate,
    )
