"""The answers about freshness: how old a dataset is, how old it may be, and what makes it late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from kfm.app.runs.freshness import freshness
from kfm.app.runs.late_causes import LateCause, due_at, late_causes
from kfm.app.serving.served_records import Link
from kfm.app.session.datasets import dataset_names
from kfm.clock import rfc3339
from kfm.model.records import Record
from kfm.model.reports.freshness_record import Cause, Freshness, Verdict

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session


class Blamed(Record, frozen=True):
    """One cause of an age, and how many of its minutes the cause had."""

    cause: Cause
    minutes: int


class FreshnessRow(Record, frozen=True):
    """The freshness of one dataset. The minutes of all causes add up to its age."""

    dataset: str
    verdict: Verdict
    as_of: str  # when the version that is shown was made; empty: there is none
    age_min: int | None
    target: str  # as kfm.yml says it; empty: none
    late_min: int  # beyond the target; 0: it is not late
    late_since: str  # empty: it is not late
    blame: tuple[Blamed, ...]  # the most minutes first
    waits_for: tuple[LateCause, ...]  # what makes it late, as far as the caller may know of it
    is_withheld: bool  # blame and sources are not shown: the data is not plainly public


class FreshnessList(Record, frozen=True):
    """The freshness of datasets, the latest ones first."""

    at: str
    datasets: tuple[FreshnessRow, ...]
    late: int  # how many of them are late
    links: tuple[Link, ...]
    ledger_entries: int


class FreshnessAnswer(Record, frozen=True):
    """The freshness of one dataset at one instant."""

    at: str
    freshness: FreshnessRow
    links: tuple[Link, ...]
    ledger_entries: int


def freshness_list(session: Session, seen: Discretion, index: int) -> FreshnessList:
    names = [name for name in dataset_names(session) if seen.may_name(name)]
    rows = tuple(_row(session, seen, each) for each in (freshness(session, names) if names else ()))
    return FreshnessList(
        at=rfc3339(session.clock.now_ms()),
        datasets=rows,
        late=sum(each.verdict == "late" for each in rows),
        links=(
            Link(rel="self", href="/v1/freshness"),
            Link(rel="alternate", href="/schedules", type="text/html", title="the page"),
        ),
        ledger_entries=index,
    )


def freshness_answer(session: Session, seen: Discretion, dataset: str, index: int) -> FreshnessAnswer | None:
    """Return the freshness of a dataset; None if kfm.yml does not name it, so that nothing is promised about it."""
    if dataset not in session.config.datasets:
        return None
    (found,) = freshness(session, [dataset])
    return FreshnessAnswer(
        at=rfc3339(session.clock.now_ms()),
        freshness=_row(session, seen, found),
        links=(
            Link(rel="self", href=f"/v1/datasets/{dataset}/freshness"),
            Link(rel="dataset", href=f"/v1/datasets/{dataset}"),
        ),
        ledger_entries=index,
    )


def _row(session: Session, seen: Discretion, found: Freshness) -> FreshnessRow:
    plain = seen.is_plain(found.dataset)
    waits = [each for each in (late_causes(session, found) if plain else ()) if _may_tell(seen, each)]
    return FreshnessRow(
        dataset=found.dataset,
        verdict=found.verdict,
        as_of=found.as_of,
        age_min=found.age_min,
        target=found.target,
        late_min=found.late_min,
        late_since=due_at(session, found),
        blame=tuple(_blamed(found)) if plain else (),
        waits_for=tuple(waits),
        is_withheld=not plain,
    )


def _blamed(found: Freshness) -> Iterator[Blamed]:
    for cause, minutes in found.blame.items():
        yield Blamed(cause=cast("Cause", cause), minutes=minutes)


def _may_tell(seen: Discretion, each: LateCause) -> bool:
    """Return whether the audience may learn of what a dataset waits for. A source that has a name of its own belongs to
    a dataset that is plainly public here."""
    return each.kind == "source" or seen.may_name(each.name)
