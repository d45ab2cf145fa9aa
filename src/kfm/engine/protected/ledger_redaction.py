"""Writes ledger entries: with lineage, findings and care status, and with free text encrypted for protected data."""

from __future__ import annotations

import msgspec

from kfm.engine.run_context import RunContext, is_public
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.ports import Tx
from kfm.model.records import Classification, Governed, Receipt

_OPEN = Classification(level="public")  # of data that is declared public, where there are no labels


def append(context: RunContext, receipt: Receipt, tx: Tx, standing: Classification | None = None) -> None:
    """Append the receipt to the ledger.

    For protected data, the entry shows rules and digests; free text is stored encrypted, with a commitment in the
    entry. If there is not exactly one key, the text is left out, and the entry says so. Digests of data that nothing
    classifies yet are left out.

    The overlay of a dry run stores the receipt of the real run, so that gates and sinks predict the same bytes.
    """
    receipt = as_real(receipt)
    guards, op = context.guards, context.updater.op
    if guards.protection is None:
        is_open = is_public(context) and guards.check_labels is None  # else there are labels that cannot be read
        tx.ledger.append(receipt, op=op, governed=_facts(receipt, _OPEN, []) if is_open else None)
        return
    known = standing or _current_classification(receipt.dataset, tx)
    if known is None or known.level == "public":
        is_known = known is not None and (standing is not None or context.updater.moves_only)
        is_open = is_known and is_public(context)
        said = _facts(receipt, known or _OPEN, [])
        if receipt.status == "FAILED":  # perhaps because protected data was found in it
            said = msgspec.structs.replace(said, lineage=[])
        tx.ledger.append(receipt, op=op, governed=said if is_open else None)
        return
    said = _facts(receipt, known, ["reason"] if known.care == "open" else ["operator", "reason"])
    try:
        key = guards.protection.key_of(known.custodians[0]) if len(known.custodians) == 1 else None
    except KfmError:  # the run is denied without the key, and the ledger records that, too
        key = None
    tx.ledger.append(receipt, op=op, governed=said, key=key)


def as_real(receipt: Receipt) -> Receipt:
    """Return the receipt that the real run would store."""
    return msgspec.structs.replace(receipt, dry_run=False) if receipt.dry_run else receipt


def _facts(receipt: Receipt, known: Classification, withheld: list[str]) -> Governed:
    """Return the facts of an entry. Of public data, the codes of errors are findings, too."""
    return Governed(
        lineage=[item.checksum for item in receipt.inputs if is_digest(item.checksum)],
        findings=[*known.rules, *([] if withheld else [note.code for note in receipt.errors])],
        care=known.care,
        review=_review(receipt),
        withheld=withheld,
    )


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
