"""Datasets that read other datasets: which, in which order, and which sensitivity they inherit."""

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
    """Yield the sources that are datasets: source name, dataset, settings."""
    for name, source in dataset.sources.items():
        if source.dataset:
            yield name, names.dataset_id(source.dataset), source


def upstreams(datasets: Datasets) -> dict[str, set[str]]:
    """Return the datasets that each dataset reads; datasets that read none are left out."""
    found = {name: {other for _, other, _ in read_by(dataset)} for name, dataset in datasets.items()}
    return {name: others for name, others in found.items() if others}


def above(upstream: Mapping[str, set[str]], name: str) -> list[str]:
    """Return all upstream datasets, direct and indirect; the dataset itself only if there is a cycle."""
    found: dict[str, None] = {}
    waiting = sorted(upstream.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = None
            waiting += sorted(upstream.get(one, ()))
    return sorted(found)


def in_order(datasets: Datasets) -> list[str]:
    """Return all datasets by name, but upstream datasets before those that read them."""
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
    """Raise BadInput if a source names an unknown dataset, or if there is a cycle."""
    upstream: dict[str, set[str]] = {}
    for name, dataset in datasets.items():
        for source, other, _ in _named(document, name, dataset):
            if other not in datasets:
                close = record_shape.nearest(other, sorted(datasets))
                hint = f"did you mean {close}?" if close else "name one of this file"
                document.refuse(_path(name, source), "is not a dataset of this file", hint)
            upstream.setdefault(name, set()).add(other)
    circle = circle_in(upstream)
    if circle:
        source = next(source for source, other, _ in read_by(datasets[circle[0]]) if other == circle[1])
        hint = "remove one of them from `sources`"
        document.refuse(_path(circle[0], source), f"closes a cycle: {' reads '.join(circle)}", hint)


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
    """Return a cycle of datasets, each of which reads the next, with the first repeated at the end; [] if there is
    none.
    """
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
    """Return the level of data built from all of these; None if one of them is undeclared and the rest may be
    published.
    """
    level = LEVELS[max((LEVELS.index(one) for one in said if one is not None), default=0)]
    return None if None in said and level in PUBLISHABLE else level


def metadata_of(datasets: Datasets, name: str) -> dict[str, Any]:
    """Return the declared metadata of a dataset. Its sensitivity is at least that of every upstream dataset."""
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
    """Raise BadInput for `promote: auto` on a dataset that is not plainly public."""
    for name, dataset in datasets.items():
        if dataset.promote != "auto":
            continue
        masked = any(source.mask for source in dataset.sources.values())
        if masked or metadata_of(datasets, name).get("sensitivity") != "public":
            why = "one of its sources is masked" if masked else "it or a dataset it reads lacks sensitivity: public"
            document.refuse(
                ("datasets", name, "promote"),
                f"is auto, and the dataset is not plainly public: {why}",
                "write promote: manual, and publish it with `kfm publish`",
            )


def check_indexes(document: Document, datasets: Datasets) -> None:
    """Raise BadInput if two indexes have one alias, or if an index reads data that may not be public."""
    from kfm.config.derived_jobs import alias_of

    known: dict[str, str] = {}
    for name, dataset in datasets.items():
        alias = alias_of(name, dataset.job or "", dataset.parameters or {})
        if not alias:
            continue
        other = known.setdefault(alias, name)
        if other != name:
            document.refuse(
                ("datasets", name, "parameters"), f"give the alias {alias}, which {other} has", "write another alias"
            )
        level = metadata_of(datasets, name).get("sensitivity")
        if level not in PUBLISHABLE:
            document.refuse(
                ("datasets", name, "job"),
                f"indexes data that are {level or 'not declared public'}, and an index is of public text",
                "declare sensitivity: public for it and for every dataset that it reads, if that is so",
            )
