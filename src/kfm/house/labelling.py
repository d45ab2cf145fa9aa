"""What labels say of the datasets and sources of an installation: on a day, for whom, and where it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from kfm.contract.labels import (
    COMMUNITY,
    Label,
    Labels,
    Level,
    Standing,
    joined,
    read_labels,
    standing_of_source,
)
from kfm.documents import reading
from kfm.documents.characters import printable
from kfm.documents.reading import Document
from kfm.documents.shape import nearest
from kfm.errors import BadInput
from kfm.house.tabling import read_bytes

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.config.datasets import DatasetConfig
    from kfm.house.opening import House


class LabelAt(msgspec.Struct, frozen=True):
    on: str
    at: str


class Shown(msgspec.Struct, frozen=True):
    """What holds for one source of a dataset."""

    dataset: str
    source: str
    address: str
    level: Level
    publishable: bool
    resolution: int | None
    care: str
    access: str
    custodians: tuple[str, ...]
    sealed_by: str  # whose key it lies under, where it is protected: of several the first by name
    authorities: tuple[str, ...]
    community_labels: tuple[str, ...]
    expires: str
    days_left: int | None  # negative: the consent ended
    rules: tuple[str, ...]
    labels: list[LabelAt]
    made: dict[str, Level]  # by zone: how what was made of it stands, with what it inherited


class File:
    """The file of labels as it lies there."""

    def __init__(self, resolved: Resolved) -> None:
        self.path = resolved.at(resolved.config.labels) if resolved.config.labels else ""
        self.name = resolved.config.labels
        self.body = b"version: 1\nlabels: []\n"
        self.is_there = False
        if self.path:
            import os

            if os.path.lexists(self.path):
                self.body, self.is_there = read_bytes(self.path), True
        self.document: Document = reading.read(self.body, self.name, json=self.name.endswith(".json"))
        self.labels: Labels = read_labels(self.document)

    def at(self, index: int) -> LabelAt:
        line, _ = self.document.position(("labels", index, "of"))
        return LabelAt(on=said(self.labels.labels[index]), at=f"{self.name}:{line}")

    def on(self, **asked: str) -> list[int]:
        """Which labels are on one of these."""
        return [
            index
            for index, label in enumerate(self.labels.labels)
            if any(asked.get(kind) == value for kind, value in label.of.given().items())
        ]


def said(label: Label) -> str:
    return " ".join(f"{kind} {value}" for kind, value in label.of.given().items())


def shown(house: House, wanted: str, today: str) -> list[Shown]:
    """Every source of a dataset, of all datasets without a name, or all that read one address."""
    from kfm.house.ruling import labels_in_force

    file, labels = File(house.resolved), labels_in_force(house)
    wanted_ones = _sources(house.config.datasets, wanted)
    return [_shown(house, file, labels, dataset, source, today) for dataset, source in wanted_ones]


def unused(house: House) -> list[LabelAt]:
    """Labels that are on no dataset and no source of kfm.yml. Bytes and records may come yet."""
    file = File(house.resolved)
    used = {
        index
        for name, dataset in house.config.datasets.items()
        for source in [*dataset.sources.values(), None]
        for index in file.on(dataset=name, source=source.known_as if source else "")
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


def _shown(house: House, file: File, labels: Labels, dataset: str, source: str, today: str) -> Shown:
    declared = house.config.datasets[dataset]
    address = declared.sources[source].known_as if source else ""
    standing = holds(house, labels, dataset, address, declared.sensitivity or None, today)
    return Shown(
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
        labels=[file.at(index) for index in file.on(dataset=dataset, source=address)],
        made=_made(house, dataset),
    )


def holds(house: House, labels: Labels, dataset: str, address: str, declared: Level | None, today: str) -> Standing:
    """What the labels and kfm.yml say, and what the state remembers of the address whatever they say."""
    now = standing_of_source(labels, dataset=dataset, source=address, digest="", today=today, declared=declared)
    before = remembered(house, address, today)
    return now if before is None else joined([now, before])


def remembered(house: House, address: str, today: str) -> Standing | None:
    """How protected an address is known to be, whatever a file says now."""
    from kfm.engine.wayin import address as plainly
    from kfm.engine.wayin import aged

    found = house.state.protected.standing(f"source/{plainly(address, house.resolved.root)}") if address else None
    return None if found is None else aged(found, today)


def _made(house: House, dataset: str) -> dict[str, Level]:
    found: dict[str, Level] = {}
    for zone in ("processed", "published"):
        version = house.state.ledger.version(dataset, house.state.refs.at(f"{zone}/{dataset}") or "")
        if version is not None and version.standing is not None:
            found[zone] = version.standing.level
    return found


def _days(today: str, until: str) -> int | None:
    if not until:
        return None
    from datetime import date

    return (date.fromisoformat(until) - date.fromisoformat(today)).days


def community_name(code: str) -> str:
    return COMMUNITY[code][0] if code in COMMUNITY else "unknown"
