"""What one audience may see now: the datasets whose published version the serve gate allows.

Everything that is shown over HTTP is looked up here first, inside the read transaction of the request. So what a label
closes is gone with the next request, before any command has withdrawn it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.runs.visibility import plainly_public
from kfm.app.session.datasets import public_retention
from kfm.model import refs
from kfm.projections.live_versions import live_versions

if TYPE_CHECKING:
    from kfm.app.serving.serve_gate import ServeGate
    from kfm.app.session.session import Session
    from kfm.model.records import RefEntry

CURRENT, SUPERSEDED = "current", "superseded"


class ShownDataset(NamedTuple):
    """A dataset that may be shown: its versions, oldest first; the last one is the current one."""

    dataset: str
    standing: tuple[str, ...]
    moves: tuple[RefEntry, ...]  # of its published ref, oldest first
    fixes: str  # digest of the hotfixes of what it says about itself; empty: none

    @property
    def version(self) -> str:
        return self.standing[-1]

    @property
    def mark(self) -> str:
        """A text that changes with whatever an index has of this dataset."""
        return f"{self.version} {self.fixes}"


class Shelf:
    """The datasets that one audience may see. It is made for one request and decides each dataset once."""

    def __init__(self, session: Session, gate: ServeGate, audience: str) -> None:
        self._session = session
        self._gate = gate
        self._audience = audience
        self._known: dict[str, ShownDataset | None] = {}

    @property
    def audience(self) -> str:
        return self._audience

    def find(self, dataset: str) -> ShownDataset | None:
        """Return a dataset; None if there is none of that name, or if this audience may not see it."""
        if dataset not in self._known:
            self._known[dataset] = self._shown(dataset)
        return self._known[dataset]

    def all(self) -> Iterator[ShownDataset]:
        """Yield the datasets by name."""
        names = sorted({refs.parse(ref).dataset for ref, at in self._session.state.refs.all(refs.PUBLISHED) if at})
        yield from filter(None, map(self.find, names))

    def epoch(self, shown: ShownDataset) -> str:
        """Return a text that changes with the labels and policies under which a dataset is shown."""
        decision = self._gate.decision(shown.dataset, shown.version, CURRENT, self._audience)
        return f"{decision.policy_digest} {decision.label_epoch}"

    def is_published(self, dataset: str) -> bool:
        """Return whether a version of this dataset is public by its ref, whoever may see it."""
        return bool(self._session.state.refs.at(refs.published(dataset)))

    def may_show(self, dataset: str, version: str) -> bool:
        """Return whether this version of a dataset may be shown."""
        found = self.find(dataset)
        return found is not None and version in found.standing

    def may_name(self, dataset: str) -> bool:
        """Return whether this audience may learn that there is a dataset of this name. Staff see what the commands show
        them; one user without a key list sees what is public or would be."""
        if self.find(dataset) is not None:
            return True
        if self._audience == "single":
            return self._is_declared_public(dataset)
        return self._audience in ("operator", "steward", "admin") and self._is_known(dataset)

    def names(self) -> list[str]:
        """Return the datasets that this audience may know of, by name."""
        state = self._session.state
        zones = (refs.PUBLISHED, refs.PROCESSED)
        known = {refs.parse(ref).dataset for zone in zones for ref, at in state.refs.all(zone) if at}
        return [name for name in sorted({*known, *self._session.config.datasets}) if self.may_name(name)]

    def _is_known(self, dataset: str) -> bool:
        state = self._session.state
        return dataset in self._session.config.datasets or any(
            state.refs.at(zone(dataset)) for zone in (refs.published, refs.processed)
        )

    def _is_declared_public(self, dataset: str) -> bool:
        return dataset in plainly_public(self._session, [dataset])

    def _shown(self, dataset: str) -> ShownDataset | None:
        """Return a dataset if all its public versions may be shown: a recall withdraws all of them if one is
        closed, and its page names each."""
        state = self._session.state
        current = state.refs.at(refs.published(dataset))
        if not current or not self._allows(dataset, current, CURRENT):
            return None
        moves = tuple(state.refs.history(refs.published(dataset)))
        live = live_versions(moves, public_retention(self._session, dataset))
        if not all(self._allows(dataset, version, SUPERSEDED) for version in live if version != current):
            return None
        return ShownDataset(dataset, tuple(live), moves, state.refs.at(refs.hotfix(dataset)))

    def _allows(self, dataset: str, version: str, status: str) -> bool:
        return self._gate.decision(dataset, version, status, self._audience).is_yes(version)
