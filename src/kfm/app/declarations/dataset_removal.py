"""Takes a dataset out of kfm.yml. Its runs, versions and receipts stay readable.

The masking policies that only it names go too, but only if it never ran: afterwards they say how the stored data are
masked. Its labels stay in any case. A label closes, and to take one away is a decision of its own: `kfm labels`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kfm.app.session.session import Session
from kfm.errors import BadInput, Refused
from kfm.model import refs
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest


class Removal(NamedTuple):
    """What goes with a dataset, and what stays."""

    dataset: str
    masks: list[str]  # absolute paths of masking policies
    kept: list[str]  # what stays, and why, for people


def removal_of(session: Session, dataset: str) -> Removal:
    """Return what would go with a dataset. Raise BadInput if kfm.yml does not name it, and Refused, with the command
    that helps, while a version of it is public, a run of it is unfinished or another dataset reads it."""
    declared = session.config.datasets
    if dataset not in declared:
        close = nearest(dataset, sorted(declared))
        raise BadInput(
            f"kfm.yml has no dataset {printable(dataset)}",
            hint=f"did you mean {close}?" if close else "`kfm status` lists them",
        )
    if session.state.refs.at(refs.published(dataset)):
        raise Refused(
            f"a version of {dataset} is public",
            hint=f'withdraw it first: `kfm rollback {dataset} --to nothing --reason "…"`',
        )
    for run in session.state.runs.unfinished():
        if run.dataset == dataset:
            raise Refused(f"run {run.run_id} of {dataset} is unfinished", hint="`kfm resume` ends it")
    readers = sorted(
        name
        for name, other in declared.items()
        if name != dataset and any(source.dataset == dataset for source in other.sources.values())
    )
    if readers:
        raise Refused(f"dataset {readers[0]} reads {dataset}", hint=f"remove {readers[0]} first, or change its source")
    return _with_masks(session, dataset)


def _with_masks(session: Session, dataset: str) -> Removal:
    resolved = session.resolved
    masks = {
        name: {resolved.at(source.mask) for source in other.sources.values() if source.mask}
        for name, other in session.config.datasets.items()
    }
    others = {path for name, paths in masks.items() if name != dataset for path in paths}
    own = sorted(path for path in masks[dataset] - others if os.path.isfile(path))
    kept = []
    if session.state.refs.at(refs.processed(dataset)):
        kept = [f"{os.path.relpath(path)} stays: it says how what was made is masked" for path in own]
        kept.append("its runs, versions and receipts stay: `kfm runs list`, `kfm explain` and `kfm refs` show them")
        own = []
    if masks[dataset] and session.config.labels:
        kept.append(f"its label in {session.config.labels} stays, and closes the source as before: see `kfm labels`")
    return Removal(dataset, own, kept)
