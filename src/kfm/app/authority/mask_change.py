"""Classifies a change of a masking policy or of the installation's policies: which action it is, and whose data it
concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kfm.app.authority.classification import source_classifier
from kfm.app.authority.effective_levels import LevelChange, mask_levels
from kfm.app.authority.mask_names import MaskName, policies_before
from kfm.app.authority.mask_policies import is_coarser, read_bytes
from kfm.app.authority.review_rules import declared, is_lower, signed
from kfm.app.authority.signed_policies import mask_file, masked_source
from kfm.model import refs
from kfm.model.records import Classification

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
    if ref == refs.REVIEW:
        lower = is_lower(signed(session), declared(session.resolved))
        return RuleChange("review.lower" if lower else "review.raise", [])
    dataset, _, source = ref.removeprefix(refs.MASKS).partition("/")
    old = read_bytes(session.objects.read(before)) if before else None
    new = read_bytes(mask_file(session.resolved, dataset, source))
    action = "mask.coarsen" if old is not None and is_coarser(old, new) else "mask.refine"
    of = _classification(session, dataset, source)
    if old is None:  # the strictest that it has under other names
        others = policies_before(session, MaskName(dataset, source)).values()
        old = min((one for one in others if one is not None), key=lambda one: one.resolution, default=None)
    levels = mask_levels(f"{dataset}/{source}", of, old, new)
    return RuleChange(action, list(of.custodians) if of is not None else [], levels)


def _classification(session: Session, dataset: str, source: str) -> Classification | None:
    way = source_classifier(session, dataset)
    if way is None:
        return None
    return way.classification(masked_source(session.resolved, dataset, source).known_as, session.resolved.root, "")
