"""Writes ledger entries, with free text encrypted for runs over protected data."""

from __future__ import annotations

import msgspec

from kfm.engine.guards import Guards
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.ports import Tx
from kfm.model.records import Classification, Governed, Receipt


def append(guards: Guards, receipt: Receipt, op: str, standing: Classification | None, tx: Tx) -> None:
    """Append the receipt to the ledger.

    For protected data, the entry shows rules and digests; free text is stored encrypted, with a commitment in the
    entry. If there is not exactly one key, the text is left out, and the entry says so.

    The overlay of a dry run stores the receipt of the real run, so that gates and sinks predict the same bytes.
    """
    receipt = as_real(receipt)
    if guards.protection is None:
        tx.ledger.append(receipt, op=op)
        return
    known = standing or _current_classification(receipt.dataset, tx)
    if known is None or known.level == "public":
        tx.ledger.append(receipt, op=op)
        return
    names = ["reason"] if known.care == "open" else ["operator", "reason"]
    said = Governed(
        lineage=[item.checksum for item in receipt.inputs if is_digest(item.checksum)],
        findings=list(known.rules),
        care=known.care,
        review=_review(receipt),
        withheld=names,
    )
    try:
        key = guards.protection.key_of(known.custodians[0]) if len(known.custodians) == 1 else None
    except KfmError:  # the run is denied without the key, and the ledger records that, too
        key = None
    tx.ledger.append(receipt, op=op, governed=said, key=key)


def as_real(receipt: Receipt) -> Receipt:
    """Return the receipt that the real run would store."""
    return msgspec.structs.replace(receipt, dry_run=False) if receipt.dry_run else receipt


def _current_classification(dataset: str, tx: Tx) -> Classification | None:
    """Return the classification of the current version, for an operation or for a run that ended before it knew its
    own."""
    for zone in ("processed", "published"):
        version = tx.ledger.version(dataset, tx.refs.at(refs.in_zone(zone, dataset)))
        if version is not None and version.standing is not None:
            return version.standing
    return None


def _review(receipt: Receipt) -> str:
    if not receipt.policy_decisions:
        return "none"
    return "approved" if all(decision.allow is True for decision in receipt.policy_decisions) else "denied"
