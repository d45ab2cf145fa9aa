"""Masking policies as texts: the one in force at some time, the one in the file now, and which of two shows less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.signed_policies import mask_file
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.masks import COARSER, ColumnRule, MaskingPolicy, read_policy
from kfm.parsing import documents

if TYPE_CHECKING:
    from kfm.app.session.session import Session


def read_bytes(body: bytes) -> MaskingPolicy:
    """Return the masking policy of a file, written in JSON or in YAML. BadInput if it is not valid."""
    if body.lstrip()[:1] == b"{":
        try:
            return read_policy(documents.read(body, "the masking policy", json=True))
        except KfmError:
            pass  # YAML may begin so too
    return read_policy(documents.read(body, "the masking policy", json=False))


def shows_less(session: Session, dataset: str, source: str, since: str) -> bool:
    """Return whether the masking policy in the file certainly shows less than the one in force at `since`. False if
    there was none, or if the file cannot be read: then nothing is published anyway."""
    then = ""
    for entry in session.state.refs.history(refs.mask(dataset, source)):
        then = entry.after if entry.ts <= since else then
    if not then:
        return False
    try:
        old, new = session.objects.read(then), mask_file(session.resolved, dataset, source)
        if old == new:
            return False
        before, after = read_bytes(old), read_bytes(new)
    except BadInput:
        return False
    return is_coarser(before, after) and not is_coarser(after, before)


def is_coarser(old: MaskingPolicy, new: MaskingPolicy) -> bool:
    """Return whether the new policy certainly shows readers no more than the old one; False if in doubt."""
    plain = {"version": "", "resolution": 0, "columns": {}, "k": 5}
    if not old.recognised_by:  # the first quasi-identifiers only make values coarser
        plain["quasi_identifiers"] = ()
    if msgspec.structs.replace(old, **plain) != msgspec.structs.replace(new, **plain):
        return False
    if new.resolution > old.resolution or new.k < old.k:
        return False
    if not old.recognised_by:
        columns = {name: msgspec.structs.replace(rule, below_k=msgspec.UNSET) for name, rule in new.columns.items()}
        new = msgspec.structs.replace(new, columns=columns)
    return all(name in old.columns and _says_less(old.columns[name], rule) for name, rule in new.columns.items())


def _says_less(old: ColumnRule, new: ColumnRule) -> bool:
    if (old.kind, old.name, old.step, old.below_k) != (new.kind, new.name, new.step, new.below_k):
        return False
    reviewed = new.reviewed_by in ("", old.reviewed_by)
    return reviewed and set(new.values) <= set(old.values) and COARSER.index(new.to) >= COARSER.index(old.to)
