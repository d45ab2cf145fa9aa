"""How open a dataset is now: by what kfm.yml says, by what labels say, and by what its versions inherited. Whoever
tells of data asks here first; what nobody says anything of is not open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kfm.app.authority.labels_in_force import labels_in_force
from kfm.app.session.protection_files import NO_LABELS, is_needed
from kfm.clock import rfc3339
from kfm.config.upstream_datasets import above, most_closed, upstreams
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.labels import Labels, Level, standing_of_source
from kfm.model.lineage_edges import ZONES
from kfm.model.records import DatasetVersion

if TYPE_CHECKING:
    from kfm.app.session.session import Session


class Openness:
    """Reads the labels once, for however many datasets are asked about."""

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
        """The most closed of all that is said of it. `versions` are those that would be told of."""
        names = [name, *above(self._upstream, name)]
        found = [level for each in names for level in self._declared(each)]
        for version in versions:
            if version is not None:
                found += self._made(version)
        return (most_closed(found) if found else None) or "restricted"

    def is_public(self, name: str, *versions: DatasetVersion | None) -> bool:
        """Plainly: nothing about it has to be kept from anybody."""
        return self.level(name, *versions) == "public"

    def _declared(self, name: str) -> list[Level | None]:
        declared = self._session.config.datasets.get(name)
        if declared is None:  # it left the configuration: what its versions say is left
            return []
        if not self._labels.labels:
            return [declared.sensitivity]
        addresses = [source.known_as for source in declared.sources.values()] or [""]
        return [self._standing(name, address, "", declared.sensitivity) for address in addresses]

    def _made(self, version: DatasetVersion) -> list[Level | None]:
        said = version.metadata.get("sensitivity")
        found: list[Level | None] = [said]
        if version.standing is not None:
            found.append(version.standing.level)
        if self._of_bytes:
            run = self._session.state.runs.get(version.validated_by or version.run_id)
            inputs = run.inputs if run is not None else []
            found += [self._standing(version.dataset, ref.uri, ref.content_hash, said) for ref in inputs]
        return found

    def _standing(self, dataset: str, source: str, digest: str, declared: Level | None) -> Level:
        return standing_of_source(
            self._labels, dataset=dataset, source=source, digest=digest, today=self._today, declared=declared
        ).level


def plainly_public(session: Session, datasets: Iterable[str]) -> frozenset[str]:
    """Those of them whose counts may be shown: nothing about them, or the versions they are at, is to be kept."""
    try:
        openness, state = Openness(session), session.state
    except BadInput:  # labels that cannot be read: of nothing is known that it may be told
        return frozenset()
    found = []
    for name in set(datasets):
        at = [state.refs.at(refs.in_zone(zone, name)) for zone in ZONES]
        if openness.is_public(name, *(state.ledger.version(name, version) for version in at if version)):
            found.append(name)
    return frozenset(found)
