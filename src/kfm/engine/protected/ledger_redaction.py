"""What the ledger says of a run over protected data, beside what it says of every run."""

from __future__ import annotations

from kfm.engine.guards import Guards
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.ports import Tx
from kfm.model.records import Classification, Governed, Receipt


def append(guards: Guards, receipt: Receipt, op: str, standing: Classification | None, tx: Tx) -> None:
    """Of plainly public data as ever. Otherwise what people wrote is committed to and kept sealed, and rules and
    digests are shown; where no one key is at hand it is left out, and that is said."""
    if guards.protection is None:
        tx.ledger.append(receipt, op=op)
        return
    known = standing or _standing_of(receipt.dataset, tx)
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
    except KfmError:  # the run is denied without it, and that is ledgered nevertheless
        key = None
    tx.ledger.append(receipt, op=op, governed=said, key=key)


def _standing_of(dataset: str, tx: Tx) -> Classification | None:
    """Of an operation, and of a run that ended before it had looked: that of what is there."""
    for zone in ("processed", "published"):
        version = tx.ledger.version(dataset, tx.refs.at(refs.in_zone(zone, dataset)))
        if version is not None and version.standing is not None:
            return version.standing
    return None


def _review(receipt: Receipt) -> str:
    if not receipt.policy_decisions:
        return "none"
    return "approved" if all(decision.allow is True for decision in receipt.policy_decisions) else "denied"
