"""Reads labels, masking policies and custodians' keys of an installation. No other module reads them.

Callers who may read encrypted data get it decrypted with the keys at hand. Publishing reads `session.objects` instead,
which decrypts nothing.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kfm.config import Resolved
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.labels import Labels, read_labels
from kfm.model.ports import Objects, State
from kfm.parsing import documents
from kfm.parsing.documents import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kfm.app.session.session import Session
    from kfm.crypto.custodian_key import CustodianKey
    from kfm.engine.protected.protection import Protection
    from kfm.model.masks import MaskingPolicy

T = TypeVar("T")
NO_LABELS = Labels(version=1)
_last_asked: tuple[object, bool] = None, False
_last_read: dict[str, tuple[tuple[object, ...], Labels]] = {}


def is_configured(resolved: Resolved) -> bool:
    """Return whether kfm.yml says anything about protected data. The answer is cached, because every run needs it."""
    global _last_asked
    config = resolved.config
    if _last_asked[0] is not config:
        masked = any(source.mask for dataset in config.datasets.values() for source in dataset.sources.values())
        _last_asked = config, bool(config.labels or config.custodians or masked)
    return _last_asked[1]


def closes_a_dataset(resolved: Resolved) -> bool:
    """Return whether kfm.yml declares a dataset as less than public."""
    return any(dataset.sensitivity not in (None, "public") for dataset in resolved.config.datasets.values())


def is_needed(resolved: Resolved, state: State) -> bool:
    """Return whether anything is protected: by kfm.yml, by signed labels, or by what the state remembers."""
    if is_configured(resolved):
        return True
    with state.reading():
        return not state.protected.is_empty() or bool(state.refs.at(refs.LABELS))


def can_close(resolved: Resolved, state: State) -> bool:
    """Return whether anything here can close a published dataset: labels, kfm.yml, or what the state remembers."""
    return closes_a_dataset(resolved) or is_needed(resolved, state)


def protection_of(
    resolved: Resolved,
    dataset: str,
    labels: Labels,
    may_be_handled: Callable[[], None],
    unsigned: Mapping[str, str] | None = None,
) -> Protection:
    """Return the rules about protected data for a run of this dataset, as the files say now."""
    from kfm.engine.protected.protection import Protection

    return Protection(
        labels=labels,
        custodians={name: partial(custodian_key, resolved, name) for name in resolved.config.custodians},
        policies=policies_of(resolved, dataset),
        unsigned=unsigned or {},
        may_be_handled=may_be_handled,
    )


def labels_of(resolved: Resolved) -> Labels:
    """Return the labels of the file. It is read again only if it changed, because every dataset needs it."""
    path = resolved.config.labels
    if not path:
        return NO_LABELS
    known: tuple[object, ...] = ()
    try:
        found = os.stat(resolved.at(path))
        known = (resolved.at(path), found.st_ino, found.st_size, found.st_mtime_ns)
    except OSError:
        pass
    if not known or _last_read.get("labels", ((), NO_LABELS))[0] != known:
        _last_read["labels"] = (known, _read(resolved.at(path), path, "labels", read_labels))
    return _last_read["labels"][1]


def custodians_of(resolved: Resolved) -> Protection:
    """Return only the custodians' keys, for a caller who decrypts."""
    from kfm.engine.protected.protection import Protection

    return Protection(
        labels=NO_LABELS,
        custodians={name: partial(custodian_key, resolved, name) for name in resolved.config.custodians},
    )


def custodian_key_with(session: Session, key_id: str) -> CustodianKey | None:
    """Return the custodian's key of this id; None if it is not at hand."""
    if session.custodians is None:
        session.custodians = custodians_of(session.resolved)
    return session.custodians.with_id(key_id)


def readable_objects(session: Session) -> Objects:
    """Return the objects for a caller who may read them: encrypted ones are decrypted with the keys at hand."""
    from kfm.engine.protected.encrypted_objects import DecryptingObjects

    return DecryptingObjects(session.objects, partial(custodian_key_with, session))


def readable_row(session: Session, body: bytes) -> bytes:
    """Return a row of the state for a caller who may read it: decrypted if it is encrypted."""
    from kfm.engine.protected.encrypted_objects import plain

    return plain(body, partial(custodian_key_with, session))


def policies_of(resolved: Resolved, dataset: str) -> dict[str, MaskingPolicy]:
    """Return the masking policies of a dataset's sources, by the names of the sources."""
    declared = resolved.config.datasets.get(dataset)
    masked = {name: source.mask for name, source in (declared.sources if declared else {}).items() if source.mask}
    if not masked:
        return {}
    from kfm.model.masks import read_policy

    return {
        name: _read(resolved.in_tree(path), path, "the masking policy", read_policy) for name, path in masked.items()
    }


def custodian_key(resolved: Resolved, name: str) -> CustodianKey:
    """Return the key of a custodian from the place that kfm.yml names. BadInput if there is none, or no valid one."""
    from kfm.crypto.custodian_key import CustodianKey

    found = resolved.config.custodians.get(name)
    if found is None:
        raise BadInput(f"kfm.yml names no custodian {name}", hint="add it under `custodians:`")
    return CustodianKey(resolved.secret(found.key, os.environ))


def _read(full: str, path: str, what: str, read: Callable[[Document], T]) -> T:
    try:
        with open(full, "rb") as file:
            body = file.read(documents.MAX_BYTES + 1)
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise BadInput(f"{what} at {path} cannot be read: {reason}", hint="correct the path in kfm.yml") from None
    return read(documents.read(body, path, json=path.endswith(".json")))
