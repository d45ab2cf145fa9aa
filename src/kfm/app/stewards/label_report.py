"""Reports which labels apply to the datasets and sources of an installation on a day, and where they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.label_file import File, LabelAt
from kfm.app.authority.labels_in_force import labels_in_force
from kfm.engine.protected.source_classification import address as plainly
from kfm.engine.protected.source_classification import aged, as_meant
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.labels import (
    Classification,
    Labels,
    Level,
    joined,
    source_classification,
)
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config.dataset_settings import DatasetConfig


class SourceLabels(msgspec.Struct, frozen=True):
    """The labels that apply to one source of a dataset, and their effect."""

    dataset: str
    source: str
    address: str
    level: Level
    publishable: bool
    resolution: int | None
    care: str
    access: str
    custodians: tuple[str, ...]
    sealed_by: str  # the custodian whose key encrypts it, if it is protected; the first by name
    authorities: tuple[str, ...]
    community_labels: tuple[str, ...]
    expires: str
    days_left: int | None  # negative if the consent has ended
    rules: tuple[str, ...]
    labels: list[LabelAt]
    made: dict[str, Level]  # by zone: the level of the dataset's version, with what it inherited


def source_labels(session: Session, wanted: str, today: str) -> list[SourceLabels]:
    """Return the report on each source of a dataset, of all datasets if `wanted` is empty, or on each source with this
    address. BadInput if nothing has that name."""
    file, labels = File(session.resolved), labels_in_force(session)
    wanted_ones = _sources(session.config.datasets, wanted)
    return [_source_labels(session, file, labels, dataset, source, today) for dataset, source in wanted_ones]


def unused(session: Session) -> list[LabelAt]:
    """Return the labels that match no dataset and no source of kfm.yml. Labels on bytes and records are left out,
    because matching data may still arrive."""
    file = File(session.resolved)
    used = {
        index
        for name, dataset in session.config.datasets.items()
        for called, source in [*dataset.sources.items(), ("", None)]
        for index in file.on_source(name, called, source.known_as if source else "", session.resolved.tree)
    }
    known = {"dataset", "source"}
    return [
        file.at(index)
        for index, label in enumerate(file.labels.labels)
        if index not in used and known & label.of.given().keys()
    ]


def _sources(datasets: dict[str, DatasetConfig], wanted: str) -> Iterator[tuple[str, str]]:
    every = [(name, source) for name in sorted(datasets) for source in sorted(datasets[name].sources) or [""]]
    if not wanted:
        yield from every
        return
    by_name = [pair for pair in every if pair[0] == wanted.removeprefix("kfm://dataset/")]
    by_address = [pair for pair in every if pair[1] and datasets[pair[0]].sources[pair[1]].known_as == wanted]
    found = by_name or by_address or [pair for pair in every if pair[1] == wanted]
    if not found:
        known = sorted({*datasets, *(datasets[name].sources[one].known_as for name, one in every if one)})
        close = nearest(wanted, known)
        raise BadInput(
            f"no dataset and no source is called {printable(wanted)}",
            hint=f"did you mean {close}?" if close else "`kfm labels show` lists them all",
        )
    yield from found


def _source_labels(session: Session, file: File, labels: Labels, dataset: str, source: str, today: str) -> SourceLabels:
    declared = session.config.datasets[dataset]
    address = declared.sources[source].known_as if source else ""
    standing = classification_of(session, labels, dataset, source, address, declared.sensitivity or None, today)
    return SourceLabels(
        dataset=dataset,
        source=source,
        address=address,
        level=standing.level,
        publishable=standing.publishable(),
        resolution=standing.resolution,
        care=standing.care,
        access=standing.access,
        custodians=standing.custodians,
        sealed_by=standing.custodians[0] if standing.custodians and standing.level != "public" else "",
        authorities=standing.authorities,
        community_labels=standing.community_labels,
        expires=standing.expires,
        days_left=_days(today, standing.expires),
        rules=standing.rules,
        labels=[file.at(index) for index in file.on_source(dataset, source, address, session.resolved.tree)],
        made=_made(session, dataset),
    )


def classification_of(
    session: Session, labels: Labels, dataset: str, name: str, address: str, declared: Level | None, today: str
) -> Classification:
    """Return the classification of a source by the labels, by kfm.yml, and by what the state remembers of its
    address."""
    labels = as_meant(labels, address, session.resolved.tree, name)
    now = source_classification(labels, dataset=dataset, source=address, digest="", today=today, declared=declared)
    before = remembered(session, address, today)
    return now if before is None else joined([now, before])


def remembered(session: Session, address: str, today: str) -> Classification | None:
    """Return the classification that the state remembers of an address, whatever the label file says now; None if there
    is none."""
    found = session.state.protected.standing(f"source/{plainly(address, session.resolved.root)}") if address else None
    return None if found is None else aged(found, today)


def _made(session: Session, dataset: str) -> dict[str, Level]:
    found: dict[str, Level] = {}
    for zone in ("processed", "published"):
        version = session.state.ledger.version(dataset, session.state.refs.at(refs.in_zone(zone, dataset)) or "")
        if version is not None and version.standing is not None:
            found[zone] = version.standing.level
    return found


def _days(today: str, until: str) -> int | None:
    if not until:
        return None
    from datetime import date

    return (date.fromisoformat(until) - date.fromisoformat(today)).days
