"""The datasets that kfm.yml names: their settings, their updaters, and how many versions of each stay public."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.names import dataset_id
from kfm.updaters.updater_loader import at_work

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import DatasetConfig
    from kfm.model.updater import Updater


def dataset_names(session: Session) -> list[str]:
    return sorted(session.config.datasets)


def dataset_config(session: Session, name: str) -> DatasetConfig:
    """Return the settings of a dataset. BadInput if kfm.yml does not name it."""
    name = dataset_id(name)
    found = session.config.datasets.get(name)
    if found is None:
        known = ", ".join(dataset_names(session)) or "none"
        raise BadInput(f"no dataset is called {name}", hint=f"kfm.yml names: {known}")
    return found


def dataset_updater(session: Session, name: str) -> Updater:
    """Return the dataset's updater, which a session loads once."""
    name = dataset_id(name)
    if name not in session.updaters:
        session.updaters[name] = session.load(session.resolved, name, dataset_config(session, name))
    elif session.updaters[name].code_listing:
        at_work(session.tree)
    return session.updaters[name]


def public_retention(session: Session, dataset: str) -> int:
    """Return how many superseded versions of a dataset stay public; -1: all."""
    declared = session.config.datasets.get(dataset)
    own = declared.publish_retention if declared is not None else None
    return session.config.publish_retention if own is None else own


def is_public_version(session: Session, dataset: str, version: str) -> bool:
    """Return whether the files of this version belong into the public folder."""
    from kfm.projections.live_versions import live_versions

    moves = session.state.refs.history(refs.published(dataset))
    return version in live_versions(moves, public_retention(session, dataset))
