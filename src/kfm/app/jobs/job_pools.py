"""Which workers may take a job: those of the pool of the custodian, if its dataset is protected.

Labels, kfm.yml and what the state remembers decide; an envelope is never asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.authority.labels_in_force import labelled
from kfm.app.session.protection_files import is_needed
from kfm.config.upstream_datasets import above, upstreams
from kfm.model import refs
from kfm.model.labels import LEVELS, Level
from kfm.model.lineage_edges import ZONES
from kfm.model.operation_target import REF
from kfm.model.records import Classification

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import DatasetConfig

PROTECTED = "protected"  # the pool of protected datasets of which no custodian is known


def job_pools(session: Session, dataset: str) -> tuple[str, ...]:
    """Return the pools that a worker must have for a job of this dataset; none if it is plainly not protected.
    BadInput if the labels cannot be read."""
    found = list(_classifications(session, dataset))
    declared = [config.sensitivity for config in _configs(session, dataset)]
    if not any(_is_protected(each) for each in found) and all(level in (None, "public") for level in declared):
        return ()
    named = sorted({custodian for each in found for custodian in each.custodians})
    if not named and len(session.config.custodians) == 1:
        named = list(session.config.custodians)
    return tuple(named) or (PROTECTED,)


def job_level(session: Session, dataset: str) -> Level:
    """Return the most closed level that kfm.yml, labels and versions give this dataset. An undeclared dataset counts
    as public where nothing protects it."""
    levels: list[Level] = [each.level for each in _classifications(session, dataset)]
    levels += [config.sensitivity for config in _configs(session, dataset) if config.sensitivity is not None]
    return max(levels, key=LEVELS.index, default="public")


def _is_protected(found: Classification) -> bool:
    return found.level != "public" or bool(found.custodians)


def _names(session: Session, dataset: str) -> list[str]:
    return [dataset, *above(upstreams(session.config.datasets), dataset)]


def _configs(session: Session, dataset: str) -> Iterator[DatasetConfig]:
    for name in _names(session, dataset):
        declared = session.config.datasets.get(name)
        if declared is not None:
            yield declared


def _classifications(session: Session, dataset: str) -> Iterator[Classification]:
    """Yield what labels say of this dataset and of all that it reads, and what the state remembers of their sources and
    versions."""
    if not is_needed(session.resolved, session.state):
        return
    from kfm.model.source_identity import spellings

    state = session.state
    for name in _names(session, dataset):
        declared = session.config.datasets.get(name)
        said = labelled(session, name, said=declared.sensitivity if declared is not None else None)
        if said is not None:
            yield said
        for version in {state.refs.at(refs.in_zone(zone, name)) for zone in ZONES}:
            made = state.ledger.version(name, version) if version else None
            if made is not None and made.standing is not None:
                yield made.standing
        for source in declared.sources.values() if declared is not None else ():
            if source.known_as.startswith(REF):
                continue
            for uri in spellings(source.known_as, session.resolved.tree):
                known = state.protected.standing(f"source/{uri}")
                if known is not None:
                    yield known
