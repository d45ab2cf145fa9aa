"""Datasets that read other datasets: which, in what order, and what they inherit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfm.config.dataset_settings import DatasetConfig
from kfm.config.source_settings import SourceConfig
from kfm.errors import BadInput
from kfm.model import names
from kfm.model.labels import LEVELS, PUBLISHABLE, Level
from kfm.parsing import record_shape
from kfm.parsing.documents import Document, Path

Datasets = Mapping[str, DatasetConfig]


def read_by(dataset: DatasetConfig) -> Iterator[tuple[str, str, SourceConfig]]:
    """The sources of it that are datasets: their names, and whose version is read."""
    for name, source in dataset.sources.items():
        if source.dataset:
            yield name, names.dataset_id(source.dataset), source


def upstreams(datasets: Datasets) -> dict[str, set[str]]:
    """Of each dataset that reads others, those."""
    found = {name: {other for _, other, _ in read_by(dataset)} for name, dataset in datasets.items()}
    return {name: others for name, others in found.items() if others}


def above(upstream: Mapping[str, set[str]], name: str) -> list[str]:
    """All that it is made of, however far up; itself only if it is made of itself."""
    found: dict[str, None] = {}
    waiting = sorted(upstream.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = None
            waiting += sorted(upstream.get(one, ()))
    return sorted(found)


def in_order(datasets: Datasets) -> list[str]:
    """All of them by name, except that what others read comes before them."""
    upstream = upstreams(datasets)
    found: dict[str, None] = {}
    for name in sorted(datasets):
        waiting = [name]
        while waiting:
            first = [other for other in sorted(upstream.get(waiting[-1], ())) if other not in found]
            if first:
                waiting += reversed(first)
            else:
                found[waiting.pop()] = None
    return list(found)


def check_reads(document: Document, datasets: Datasets) -> None:
    """What is read is a dataset of this file, and nothing is made of itself, however far around."""
    upstream: dict[str, set[str]] = {}
    for name, dataset in datasets.items():
        for source, other, _ in _named(document, name, dataset):
            if other not in datasets:
                close = record_shape.nearest(other, sorted(datasets))
                hint = f"did you mean {close}?" if close else "name one of this file"
                document.refuse(_path(name, source), "names no dataset of this file", hint)
            upstream.setdefault(name, set()).add(other)
    circle = circle_in(upstream)
    if circle:
        source = next(source for source, other, _ in read_by(datasets[circle[0]]) if other == circle[1])
        hint = "take one of them out of its `sources`"
        document.refuse(_path(circle[0], source), f"closes a circle: {' reads '.join(circle)}", hint)


def _named(document: Document, name: str, dataset: DatasetConfig) -> Iterator[tuple[str, str, SourceConfig]]:
    for source, said in dataset.sources.items():
        if said.dataset:
            try:
                yield source, names.check_id(names.dataset_id(said.dataset), "dataset"), said
            except BadInput as error:
                document.refuse(_path(name, source), f"is refused: {error.message}", error.hint)


def _path(name: str, source: str) -> Path:
    return ("datasets", name, "sources", source, "dataset")


def circle_in(dependencies: Mapping[str, set[str]]) -> list[str]:
    """Datasets of which each comes after the next, and the last is the first; empty: there are none."""
    done: set[str] = set()
    for start in sorted(dependencies):
        path: list[str] = []
        waiting = [iter([start])]
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return [*path[path.index(name) :], name]
            elif name not in done:
                path.append(name)
                waiting.append(iter(sorted(dependencies.get(name, ()))))
    return []


def most_closed(said: list[Level | None]) -> Level | None:
    """What holds for something made of all these; None: nobody says that it may be public."""
    level = LEVELS[max((LEVELS.index(one) for one in said if one is not None), default=0)]
    return None if None in said and level in PUBLISHABLE else level


def metadata_of(datasets: Datasets, name: str) -> dict[str, Any]:
    """What is declared of a dataset. It is no more open than anything it is made of."""
    declared = datasets.get(name)
    if declared is None:
        return {}
    said = declared.metadata()
    if any(source.dataset for source in declared.sources.values()):
        others = [datasets[other].sensitivity for other in above(upstreams(datasets), name) if other in datasets]
        level = most_closed([declared.sensitivity, *others])
        said.pop("sensitivity", None)
        if level is not None:
            said["sensitivity"] = level
    return said


def check_promotions(document: Document, datasets: Datasets) -> None:
    """Only what is plainly public is published without anybody who looks at it."""
    for name, dataset in datasets.items():
        if dataset.promote != "auto":
            continue
        masked = any(source.mask for source in dataset.sources.values())
        if masked or metadata_of(datasets, name).get("sensitivity") != "public":
            why = (
                "a source of it is masked" if masked else "it does not say sensitivity: public, or reads what does not"
            )
            document.refuse(
                ("datasets", name, "promote"),
                f"is auto, and the dataset is not plainly public: {why}",
                "write promote: manual, and publish it with `kfm publish`",
            )
