"""Finds the masking policy in force for a source, whatever names kfm.yml gives to the source and its dataset.

A policy that comes under a new name is a change of the one in force for the same source, and may not show more without
signatures. The address of the source is recorded when a policy comes into force. Where it is not known, from an older
state, or where a name has left kfm.yml, policies with the same dataset or namespace count as policies of one source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.authority.mask_policies import is_coarser, read_bytes
from kfm.app.authority.signed_policies import mask_file, masked_source
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.keys import digest
from kfm.model.source_identity import is_part_of

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.masks import MaskingPolicy

SOURCE_PARAM = "source"  # of the operation that takes a policy into force
_VERSIONS = 20  # how many versions are asked what they were made of


class MaskName(NamedTuple):
    """The names under which a masking policy is in force."""

    dataset: str
    source: str

    @property
    def ref(self) -> str:
        return refs.mask(self.dataset, self.source)


def mask_name(ref: str) -> MaskName:
    dataset, _, source = ref.removeprefix(refs.MASKS).partition("/")
    return MaskName(dataset, source)


def recorded_source(session: Session, ref: str) -> dict[str, str]:
    """Return the parameter that records which source a masking policy is for."""
    return {SOURCE_PARAM: masked_source(session.resolved, *mask_name(ref)).known_as}


def unsigned_masks(session: Session, dataset: str) -> dict[str, str]:
    """Return the sources whose masking policy is not the one that was signed, each with the other name under which the
    signed one is in force; empty if it is the same name."""
    found = {}
    for one in _masked(session, dataset):
        at = session.state.refs.at(one.ref)
        if not at:
            for other in _loosened(session, one):
                found[one.source] = f"source {other.source} of {other.dataset}"
        elif digest(mask_file(session.resolved, *one)) != at:
            found[one.source] = ""
    return found


def replaced_masks(session: Session, dataset: str) -> list[str]:
    """Return the refs of policies whose names have left kfm.yml and whose source has a policy in force under a name in
    this dataset that came later."""
    gone = [one for one in _in_force(session) if not _is_declared(session, one)]
    if not gone:
        return []
    present = [one for one in _masked(session, dataset) if session.state.refs.at(one.ref)]
    return [
        old.ref
        for old in gone
        if any(_since(session, new) >= _since(session, old) and _is_same(session, new, old) for new in present)
    ]


def policies_before(session: Session, one: MaskName) -> dict[MaskName, MaskingPolicy | None]:
    """Return the policies in force for the source of a name that has none yet; None for one that cannot be read. If
    some names have left kfm.yml, this one replaces them, and the others do not count."""
    same = [other for other in _in_force(session) if _is_same(session, one, other)]
    replaced = [other for other in same if not _is_declared(session, other)] or same
    return {other: _policy(session, other) for other in replaced}


def _loosened(session: Session, one: MaskName) -> list[MaskName]:
    """Return the names of the same source whose policy in force may show less than the one in the file."""
    before = policies_before(session, one)
    if not before:
        return []
    new = read_bytes(mask_file(session.resolved, *one))
    return [other for other, old in before.items() if old is None or not is_coarser(_named_as(new, old), new)]


def _named_as(new: MaskingPolicy, old: MaskingPolicy) -> MaskingPolicy:
    """Return the old policy with the id and the namespace of the new one: under another name they may differ, and show
    no more."""
    return msgspec.structs.replace(old, id=new.id, namespace=new.namespace)


def _is_same(session: Session, one: MaskName, other: MaskName) -> bool:
    """Return whether both names are of one source; True if in doubt."""
    uri, base = masked_source(session.resolved, *one).known_as, session.resolved.tree
    known = _addresses(session, other)
    if any(is_part_of(uri, said, base) or is_part_of(said, uri, base) for said in known):
        return True
    if _is_declared(session, other):
        return False
    old = _policy(session, other)
    if old is None or (not known and one.dataset == other.dataset):
        return True
    return old.namespace == read_bytes(mask_file(session.resolved, *one)).namespace


def _addresses(session: Session, one: MaskName) -> set[str]:
    """Return every address that the source of this name is known to have had."""
    state, found = session.state, set()
    for entry in state.refs.history(one.ref):
        run = state.runs.get(entry.run_id)
        found.add(run.trigger.params.get(SOURCE_PARAM, "") if run is not None else "")
    for entry in state.refs.history(refs.processed(one.dataset), reverse=True, limit=_VERSIONS):
        run = state.runs.get(entry.run_id)
        found |= {ref.uri for ref in (run.inputs if run is not None else ()) if ref.name == one.source}
    if _is_declared(session, one):
        found.add(masked_source(session.resolved, *one).known_as)
    return found - {""}


def _policy(session: Session, one: MaskName) -> MaskingPolicy | None:
    try:
        return read_bytes(session.objects.read(session.state.refs.at(one.ref)))
    except BadInput:
        return None


def _in_force(session: Session) -> list[MaskName]:
    return [mask_name(ref) for ref, at in session.state.refs.all(refs.MASKS) if at]


def _masked(session: Session, dataset: str) -> list[MaskName]:
    declared = session.resolved.config.datasets.get(dataset)
    sources = declared.sources if declared is not None else {}
    return [MaskName(dataset, name) for name, source in sources.items() if source.mask]


def _is_declared(session: Session, one: MaskName) -> bool:
    return one in _masked(session, one.dataset)


def _since(session: Session, one: MaskName) -> str:
    return next((entry.ts for entry in session.state.refs.history(one.ref, reverse=True, limit=1)), "")
