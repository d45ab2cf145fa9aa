"""The visibility of a dataset now: by kfm.yml, by labels, and by what its versions inherited.

Code that shows facts about data asks here first. A dataset that nothing describes counts as restricted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kfm.app.authority.labels_in_force import labels_in_force
from kfm.app.session.protection_files import NO_LABELS, is_needed
from kfm.clock import rfc3339
from kfm.config.upstream_datasets import above, most_closed, upstreams
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.labels import Labels, Level, source_classification
from kfm.model.lineage_edges import ZONES
from kfm.model.records import DatasetVersion

if TYPE_CHECKING:
    from kfm.app.session.session import Session


class Visibility:
    """Determines the level of datasets. It reads the labels once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._upstream = upstreams(session.config.datasets)
        self._today = rfc3339(session.clock.now_ms())[:10]
        self._labels = self._in_force()
        self._of_bytes = any(label.of.bytes_ for label in self._labels.labels)

    def _in_force(self) -> Labels:
        if not is_needed(self._session.resolved, self._session.state):
            return NO_LABELS
        return labels_in_force(self._session)

    def level(self, name: str, *versions: DatasetVersion | None) -> Level:
        """Return the most closed level that anything gives this dataset. `versions` are those that the caller would
        show."""
        names = [name, *above(self._upstream, name)]
        found = [level for each in names for level in self._declared(each)]
        for version in versions:
            if version is not None:
                found += self._made(version)
        return (most_closed(found) if found else None) or "restricted"

    def is_public(self, name: str, *versions: DatasetVersion | None) -> bool:
        """Return whether nothing restricts this dataset."""
        return self.level(name, *versions) == "public"

    def _declared(self, name: str) -> list[Level | None]:
        declared = self._session.config.datasets.get(name)
        if declared is None:  # it left the configuration, so only its versions say anything
            return []
        if not self._labels.labels:
            return [declared.sensitivity]
        sources = [(called, source.known_as) for called, source in declared.sources.items()] or [("", "")]
        return [self._source_level(name, called, address, "", declared.sensitivity) for called, address in sources]

    def _made(self, version: DatasetVersion) -> list[Level | None]:
        said = version.metadata.get("sensitivity")
        found: list[Level | None] = [said]
        if version.standing is not None:
            found.append(version.standing.level)
        if self._of_bytes:
            run = self._session.state.runs.get(version.validated_by or version.run_id)
            inputs = run.inputs if run is not None else []
            found += [self._source_level(version.dataset, ref.name, ref.uri, ref.content_hash, said) for ref in inputs]
        return found

    def _source_level(self, dataset: str, name: str, source: str, digest: str, declared: Level | None) -> Level:
        labels = self._labels
        if any(label.of.source for label in labels.labels):
            from kfm.engine.protected.source_classification import as_meant

            labels = as_meant(labels, source, self._session.resolved.tree, name)
        return source_classification(
            labels, dataset=dataset, source=source, digest=digest, today=self._today, declared=declared
        ).level


def plainly_public(session: Session, datasets: Iterable[str]) -> frozenset[str]:
    """Return the datasets whose counts may be shown, because nothing restricts them or their current versions."""
    try:
        openness, state = Visibility(session), session.state
    except BadInput:  # without readable labels, no dataset counts as public
        return frozenset()
    found = []
    for name in set(datasets):
        at = [state.refs.at(refs.in_zone(zone, name)) for zone in ZONES]
        if openness.is_public(name, *(state.ledger.version(name, version) for version in at if version)):
            found.append(name)
    return frozenset(found)
