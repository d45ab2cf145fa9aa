"""Classifies a change of a masking policy or of the installation's policies: which action it is, and whose data it
concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.authority.classification import source_classifier
from kfm.app.authority.effective_levels import LevelChange, mask_levels
from kfm.app.authority.signed_policies import mask_file, masked_source
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.masks import COARSER, ColumnRule, MaskingPolicy, read_policy
from kfm.model.records import Classification
from kfm.parsing import documents

if TYPE_CHECKING:
    from kfm.app.session.session import Session


class RuleChange(NamedTuple):
    """The action that a change of a rule is, and the custodians it concerns."""

    action: str
    custodians: list[str]
    levels: list[LevelChange] = []  # of the source, with its cell


def weigh(session: Session, ref: str, before: str) -> RuleChange:
    """Return which kind of action a change of this rule is, and the custodians of the data it concerns."""
    if ref == refs.POLICY:
        return RuleChange("policy.deploy", [])
    dataset, _, source = ref.removeprefix(refs.MASKS).partition("/")
    old = _policy(session.objects.read(before)) if before else None
    new = _policy(mask_file(session.resolved, dataset, source))
    action = "mask.coarsen" if old is not None and is_coarser(old, new) else "mask.refine"
    of = _classification(session, dataset, source)
    levels = mask_levels(f"{dataset}/{source}", of, old, new)
    return RuleChange(action, list(of.custodians) if of is not None else [], levels)


def _policy(body: bytes) -> MaskingPolicy:
    if body.lstrip()[:1] == b"{":
        try:
            return read_policy(documents.read(body, "the masking policy", json=True))
        except KfmError:
            pass  # YAML may begin so too
    return read_policy(documents.read(body, "the masking policy", json=False))


def _classification(session: Session, dataset: str, source: str) -> Classification | None:
    way = source_classifier(session, dataset)
    if way is None:
        return None
    return way.classification(masked_source(session.resolved, dataset, source).known_as, session.resolved.root, "")


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
