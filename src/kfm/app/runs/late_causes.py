"""Which sources make a dataset late: those that have brought nothing new since its version was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kfm.app.runs.due_schedules import dependencies, schedules_of
from kfm.app.runs.freshness import freshness
from kfm.app.session.datasets import dataset_config
from kfm.clock import parse_instant, rfc3339
from kfm.config.upstream_datasets import read_by
from kfm.model import refs
from kfm.model.records import Record
from kfm.model.reports.freshness_record import Freshness
from kfm.scheduling.freshness_rules import deadline_ms, length_ms

if TYPE_CHECKING:
    from kfm.app.session.session import Session

Why = Literal["late", "never made", "no new version", "no new bytes"]

_OF_SOURCES = {"source late", "upstream late", "not yet noticed"}  # causes of an age that sources can have


class LateCause(Record, frozen=True):
    """One thing that a late dataset waits for."""

    kind: Literal["dataset", "source"]
    name: str  # of the dataset, or of the source in kfm.yml
    why: Why
    since: str  # its newest version is of then, or it has had no new bytes since then; empty: it has no version
    checked_at: str = ""  # when the source was last asked; empty: not known, or a dataset


def due_at(session: Session, late: Freshness) -> str:
    """Return since when a dataset is late; empty if it is not."""
    said = dataset_config(session, late.dataset).freshness
    if said is None or late.verdict != "late":
        return ""
    if said.max_age:
        return rfc3339(parse_instant(late.as_of, "a version") + (length_ms(said.max_age) or 0))
    found = deadline_ms(said.by, session.clock.now_ms())
    return rfc3339(found[1]) if found is not None else ""


def late_causes(session: Session, late: Freshness) -> list[LateCause]:
    """Return what a dataset waits for: upstream datasets first, the one that changed longest ago first. Nothing unless
    the dataset is late and its age has to do with its sources."""
    if late.verdict != "late" or not _OF_SOURCES & late.blame.keys():
        return []
    found = [*_datasets(session, late), *_sources(session, late)]
    return sorted(found, key=lambda each: (each.kind, each.since, each.name))


def _datasets(session: Session, late: Freshness) -> Iterator[LateCause]:
    declared = dataset_config(session, late.dataset)
    read = {other for _, other, _ in read_by(declared)}
    followed = dependencies(session.resolved, schedules_of(session.resolved)).get(late.dataset, set())
    names = sorted((read | followed) & session.config.datasets.keys())
    for each in freshness(session, names) if names else ():
        if each.verdict in ("late", "never"):
            why: Why = "never made" if each.verdict == "never" else "late"
            yield LateCause(kind="dataset", name=each.dataset, why=why, since=each.as_of)
        elif each.dataset in read and each.as_of <= late.as_of:
            yield LateCause(kind="dataset", name=each.dataset, why="no new version", since=each.as_of)


def _sources(session: Session, late: Freshness) -> Iterator[LateCause]:
    """Yield the sources outside the installation that still have the bytes that the version was made of."""
    state, current = session.state, _current(session, late.dataset)
    version = state.ledger.version(late.dataset, current) if current else None
    run = state.runs.get(version.validated_by or version.run_id) if version is not None else None
    own = {name for name, source in dataset_config(session, late.dataset).sources.items() if not source.dataset}
    for ref in run.inputs if run is not None else ():
        known = state.inbox.checkpoint(ref.uri) if ref.name in own else None
        if known is not None and known.content_hash == ref.content_hash:
            yield LateCause(
                kind="source", name=ref.name, why="no new bytes", since=late.as_of, checked_at=rfc3339(known.checked_ms)
            )


def _current(session: Session, dataset: str) -> str:
    at = session.state.refs.at
    return at(refs.published(dataset)) or at(refs.processed(dataset))
