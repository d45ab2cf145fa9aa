"""Labels, masking policies and custodians' keys of an installation: read here, strictly, and nowhere else."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kfm.config import Resolved
from kfm.errors import BadInput
from kfm.model.labels import Labels, read_labels
from kfm.model.operation_target import LABELS
from kfm.model.ports import State
from kfm.parsing import documents
from kfm.parsing.documents import Document

if TYPE_CHECKING:
    from collections.abc import Callable

    from kfm.crypto.custodian_key import CustodianKey
    from kfm.engine.protected.protection import Protection
    from kfm.model.masks import MaskingPolicy

T = TypeVar("T")
NO_LABELS = Labels(version=1)
_last_asked: tuple[object, bool] = None, False
_last_read: dict[str, tuple[tuple[object, ...], Labels]] = {}


def is_configured(resolved: Resolved) -> bool:
    """Does kfm.yml speak of protected data at all? Asked by every run, and gone through once."""
    global _last_asked
    config = resolved.config
    if _last_asked[0] is not config:
        masked = any(source.mask for dataset in config.datasets.values() for source in dataset.sources.values())
        _last_asked = config, bool(config.labels or config.custodians or masked)
    return _last_asked[1]


def is_needed(resolved: Resolved, state: State) -> bool:
    """Is anything protected here, by what kfm.yml says, by what was signed, or by what was ever learned?"""
    if is_configured(resolved):
        return True
    with state.reading():
        return not state.protected.is_empty() or bool(state.refs.at(LABELS))


def protection_of(
    resolved: Resolved,
    dataset: str,
    labels: Labels,
    may_be_handled: Callable[[], None],
    unsigned: frozenset[str] = frozenset(),
) -> Protection:
    """What a run of this dataset knows, as the files say now."""
    from kfm.engine.protected.protection import Protection

    return Protection(
        labels=labels,
        custodians={name: partial(custodian_key, resolved, name) for name in resolved.config.custodians},
        policies=policies_of(resolved, dataset),
        unsigned=unsigned,
        may_be_handled=may_be_handled,
    )


def labels_of(resolved: Resolved) -> Labels:
    """As the file says now; read again only if it is another one, as it is asked for with every dataset."""
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
    """Only the keys, for whoever opens what is sealed."""
    from kfm.engine.protected.protection import Protection

    return Protection(
        labels=NO_LABELS,
        custodians={name: partial(custodian_key, resolved, name) for name in resolved.config.custodians},
    )


def policies_of(resolved: Resolved, dataset: str) -> dict[str, MaskingPolicy]:
    """The masking policies of its sources, by their names."""
    declared = resolved.config.datasets.get(dataset)
    masked = {name: source.mask for name, source in (declared.sources if declared else {}).items() if source.mask}
    if not masked:
        return {}
    from kfm.model.masks import read_policy

    return {
        name: _read(resolved.in_tree(path), path, "the masking policy", read_policy) for name, path in masked.items()
    }


def custodian_key(resolved: Resolved, name: str) -> CustodianKey:
    """The key, read from where kfm.yml says it lies; BadInput if nothing is there, or something that is no key."""
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
