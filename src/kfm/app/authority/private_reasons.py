"""Reasons that people type about protected data: KFM stores them encrypted with the custodian's key.

A reason may name a site or a place. It goes into triggers, histories of refs, receipts, artifacts and change requests,
so it is encrypted before the first of them is written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kfm.app.authority.classification import declared_settings, readable_protection, source_classifier
from kfm.app.session.protection_files import custodian_key_with, custodians_of, is_needed
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.labels import joined
from kfm.model.operation_target import REF

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.crypto.custodian_key import CustodianKey
    from kfm.model.records import Classification

WITHHELD = "(withheld)"  # stands for a reason that no single key can encrypt
_PEOPLE = "keys"  # changes of the key list are about people, not about data
_LABELS = "labels"
_RULES = ("labels", "mask")  # operations that decide what is protected


def private_reason(session: Session, dataset: str, reason: str, operation: str = "") -> str:
    """Return a typed reason as KFM stores it.

    About data that is public it stays as it is, unless it contains something protected that is known here. About
    protected data, and about labels and masks, it is encrypted with the key of the custodian; if there is not exactly
    one custodian, or its key is not available, it is not kept at all.
    """
    if not reason.strip() or reason == WITHHELD or not is_needed(session.resolved, session.state):
        return reason
    from kfm.crypto.encrypted_text import encrypted_text, is_encrypted_text

    if is_encrypted_text(reason):
        return reason
    try:
        if session.custodians is None:
            session.custodians = custodians_of(session.resolved)
        names = _custodians(session, dataset, ())
        if names is None and operation in _RULES:
            names = tuple(sorted(session.config.custodians))
        if names is None:
            key = _key_of_leak(session, reason)
            return reason if key is None else encrypted_text(reason, key)
        return encrypted_text(reason, session.custodians.key_of(names[0])) if len(names) == 1 else WITHHELD
    except KfmError:  # the labels or the key cannot be read; the operation itself decides whether that stops it
        return WITHHELD


def shown_reason(session: Session, reason: str) -> str:
    """Return a stored reason for a reader here: decrypted, if the custodian's key is available."""
    if "encrypted:" not in reason:
        return reason
    from kfm.crypto.encrypted_text import shown_text

    return shown_text(reason, partial(custodian_key_with, session))


def _key_of_leak(session: Session, reason: str) -> CustodianKey | None:
    """Return the key of the protected data that a reason contains; None if it contains none, or if the key is not
    available to compare with it."""
    from kfm.engine.protected.fingerprint_match import key_of_leak

    assert session.custodians is not None
    return key_of_leak(session.state, session.custodians, reason.encode())


def _custodians(session: Session, dataset: str, above: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the custodians of a dataset and of everything that it is made from; None if all of that is public. A scope
    that is not a dataset, such as `global`, concerns every custodian."""
    if dataset == _PEOPLE or dataset in above:
        return None
    found = _stored(session, dataset)
    if dataset in session.config.datasets:
        found += _declared(session, dataset)
    elif not found:
        every = tuple(sorted(session.config.custodians))
        return every if every or dataset == _LABELS else None
    said = [standing for standing in found if standing.level != "public"]
    names = set(joined(said).custodians) if said else set()
    protected = bool(said)
    for other in _read_datasets(session, dataset):
        if (its := _custodians(session, other, (*above, dataset))) is not None:
            protected, names = True, names | set(its)
    return tuple(sorted(names)) if protected else None


def _stored(session: Session, dataset: str) -> list[Classification]:
    """Return the classifications of the current versions."""
    ledger, at = session.state.ledger, session.state.refs.at
    versions = [ledger.version(dataset, at(refs.in_zone(zone, dataset))) for zone in ("processed", "published")]
    return [version.standing for version in versions if version is not None and version.standing is not None]


def _declared(session: Session, dataset: str) -> list[Classification]:
    """Return the classifications of the dataset and of its sources by labels, settings and what the state remembers."""
    way = source_classifier(session, dataset)
    if way is None:
        if (problem := readable_protection(session, dataset)[1]) is not None:
            raise problem
        return []
    known = declared_settings(session, dataset)
    found = way.labelled(f"{REF}processed/{dataset}", known.request.base_dir, "")
    for name, (request, _) in known.sources.items():
        if (standing := way.classification(request.uri, request.base_dir, "", name)) is not None:
            found.append(standing)
    return found


def _read_datasets(session: Session, dataset: str) -> list[str]:
    if dataset not in session.config.datasets:
        return []
    return [wanted.dataset for wanted, _ in declared_settings(session, dataset).datasets.values()]
