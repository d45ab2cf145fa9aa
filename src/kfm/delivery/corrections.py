"""The hotfixes of a dataset as they stand in the state."""

from __future__ import annotations

from kfm.model import refs
from kfm.model.interventions.hotfix_set import Fix, changes, fixes_in
from kfm.model.ports import Objects, State
from kfm.model.zone_requests import Correction


def fixes_at(objects: Objects, digest: str) -> list[Fix]:
    """Return the hotfixes in an object; none for an empty digest. Raise Corrupt if it does not hold hotfixes."""
    return fixes_in(objects.read(digest)) if digest else []


def fixes_of(state: State, objects: Objects, dataset: str) -> list[Fix]:
    """Return the hotfixes of a dataset that are applied now."""
    return fixes_at(objects, state.refs.at(refs.hotfix(dataset)))


def correction_of(state: State, objects: Objects, dataset: str, version: str) -> Correction | None:
    """Return how hotfixes change what a version says about itself; None if they do not."""
    at = state.refs.at(refs.hotfix(dataset))
    record = state.ledger.version(dataset, version) if at and version else None
    if record is None:
        return None
    changed = changes(record.metadata, version, fixes_at(objects, at))
    return Correction(fixes=at, changed=changed) if changed else None
