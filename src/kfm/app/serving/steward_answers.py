"""The answers for the staff: objectives, what waits for a decision, labels and policies in force, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

from kfm.app.authority.gates import policies_of
from kfm.app.authority.labels_in_force import labelled
from kfm.app.objectives.error_budgets import budgets
from kfm.app.provenance.why_not import Reason, why_not
from kfm.app.runs.review_queue import items
from kfm.app.runs.visibility import Visibility
from kfm.app.serving.discretion import EVERYTHING
from kfm.app.session.datasets import dataset_names
from kfm.clock import rfc3339
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.objectives.error_budgets import Budget
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.review_item import ReviewItem
    from kfm.app.session.session import Session
    from kfm.model.records import Classification

SOON_DAYS = 90
# What a review item of plainly public data shows of its evidence.
_EVIDENCE = ("before", "after", "request", "custodian", "signed", "next", "reasons", "findings", "corrections")
_WHAT = {
    "held": "rows are quarantined",
    "gate": "a gate stopped it",
    "hotfix": "a hotfix does not hold for the published version",
}


class ObjectiveRow(Record, frozen=True):
    """One objective: what was promised, what came of it, and what it closes."""

    name: str
    title: str
    indicator: str
    datasets: tuple[str, ...]  # empty: all
    limit_seconds: float | None
    window_days: float
    target: float
    actual: float | None  # null: nothing happened in its window
    budget_left: float
    burn: dict[str, float | None]
    is_burnt: bool
    override_until: str
    closes: bool


class ObjectiveList(Record, frozen=True):
    objectives: tuple[ObjectiveRow, ...]
    ledger_entries: int


class ReviewRow(Record, frozen=True):
    """Something that waits for a person, with the evidence and what is missing."""

    kind: str  # order: a change request; held, gate, hotfix
    id: str
    dataset: str
    what: str
    state: str
    since: str
    until: str
    asked_by: str
    reason: str
    missing: tuple[str, ...]  # for its approval
    evidence: dict[str, Any]
    is_withheld: bool  # the data is not plainly public, so its evidence is not shown


class ReviewList(Record, frozen=True):
    items: tuple[ReviewRow, ...]
    ledger_entries: int


class LabelRow(Record, frozen=True):
    """The labels that apply to a dataset today."""

    dataset: str
    level: str
    care: str
    access: str
    resolution: int | None  # the finest H3 resolution that may be shown
    custodians: tuple[str, ...]
    authorities: tuple[str, ...]
    community_labels: tuple[str, ...]
    consent_until: str
    days_left: int | None


class PolicyRow(Record, frozen=True):
    """Rules in force, and their digest."""

    what: str
    digest: str


class GovernanceAnswer(Record, frozen=True):
    """Labels by dataset, consents that end soon, and the rules in force."""

    labels: tuple[LabelRow, ...]
    ending_soon: tuple[LabelRow, ...]  # consents of the next 90 days, and those that have ended
    policies: tuple[PolicyRow, ...]
    ledger_entries: int


class WhyNotAnswer(Record, frozen=True):
    """Why a dataset is not run, built, shown or published, and what to do."""

    dataset: str
    reasons: tuple[Reason, ...]
    ledger_entries: int


def objective_list(session: Session, seen: Discretion, index: int) -> ObjectiveList:
    every = dataset_names(session)
    found = [
        _objective(each, plain=all(seen.is_plain(name) for name in each.objective.datasets or every))
        for each in budgets(session)
        if all(seen.may_name(name) for name in each.objective.datasets or every)
    ]
    return ObjectiveList(objectives=tuple(found), ledger_entries=index)


def _objective(each: Budget, *, plain: bool) -> ObjectiveRow:
    """Return an objective. The title of one about data that is not plainly public may name a place: it is not shown."""
    said = each.objective
    return ObjectiveRow(
        name=said.name,
        title=said.title if plain else "",
        indicator=said.indicator,
        datasets=said.datasets,
        limit_seconds=said.limit_ms / 1000 if said.limit_ms else None,
        window_days=said.window_ms / 86_400_000,
        target=said.target,
        actual=each.actual,
        budget_left=each.left,
        burn=each.burn,
        is_burnt=each.is_burnt,
        override_until=each.override.until if each.override is not None else "",
        closes=each.closes,
    )


def review_list(session: Session, seen: Discretion, index: int) -> ReviewList:
    rows = tuple(_review(seen, each) for each in items(session) if seen.may_name(each.dataset))
    return ReviewList(items=rows, ledger_entries=index)


def _review(seen: Discretion, item: ReviewItem) -> ReviewRow:
    """Return an item. Of data that is not plainly public it shows who must decide what, and nothing of the data."""
    plain = item.dataset not in ("", EVERYTHING) and seen.is_plain(item.dataset)
    shown = _EVIDENCE if plain else ("request", "signed")
    evidence = {name: value for name, value in item.more.items() if name in shown and value}
    return ReviewRow(
        kind=item.kind,
        id=item.id if plain or item.kind != "hotfix" else f"hotfix-{item.dataset}",
        dataset=item.dataset,
        what=item.what if plain else _WHAT.get(item.kind, item.what),
        state=item.state,
        since=item.since,
        until=item.until,
        asked_by=item.asked_by,
        reason=item.reason if plain else "",
        missing=tuple(item.missing),
        evidence=evidence,
        is_withheld=not plain,
    )


def governance_answer(session: Session, seen: Discretion, index: int) -> GovernanceAnswer:
    today = rfc3339(session.clock.now_ms())[:10]
    visibility = Visibility(session)
    rows = []
    for name in seen.names():
        declared = session.config.datasets.get(name)
        said = labelled(session, name, said=declared.sensitivity) if declared is not None else None
        rows.append(_label_row(name, visibility.level(name), said, today))
    ending = sorted(
        (row for row in rows if row.days_left is not None and row.days_left <= SOON_DAYS),
        key=lambda row: row.consent_until,
    )
    return GovernanceAnswer(
        labels=tuple(rows),
        ending_soon=tuple(ending),
        policies=tuple(_policies(session, seen)),
        ledger_entries=index,
    )


def _label_row(name: str, level: str, said: Classification | None, today: str) -> LabelRow:
    until = said.expires if said is not None else ""
    left = (date.fromisoformat(until[:10]) - date.fromisoformat(today)).days if until else None
    return LabelRow(
        dataset=name,
        level=level,
        care=said.care if said is not None else "open",
        access=said.access if said is not None else "open",
        resolution=said.resolution if said is not None else None,
        custodians=said.custodians if said is not None else (),
        authorities=said.authorities if said is not None else (),
        community_labels=said.community_labels if said is not None else (),
        consent_until=until,
        days_left=left,
    )


def _policies(session: Session, seen: Discretion) -> Iterator[PolicyRow]:
    yield PolicyRow(what="policies of the gates", digest=policies_of(session.resolved).digest)
    at = session.state.refs.at
    for what, ref in (("signed policies of this installation", refs.POLICY), ("signed labels", refs.LABELS),
                      ("signed rules of review", refs.REVIEW), ("key list", refs.KEY_LIST)):  # fmt: skip
        if at(ref):
            yield PolicyRow(what=what, digest=at(ref))
    for ref, target in session.state.refs.all(refs.MASKS):
        dataset = ref.removeprefix(refs.MASKS).partition("/")[0]
        if target and seen.may_name(dataset):
            yield PolicyRow(what=f"masking policy of {dataset}", digest=target)


def why_not_answer(session: Session, seen: Discretion, dataset: str, index: int) -> WhyNotAnswer | None:
    """Return why something about a dataset is not so; None if this person may not know of it."""
    if dataset in ("", EVERYTHING) or not seen.may_name(dataset):
        return None
    try:
        found = why_not(session, dataset)
    except BadInput:
        return None
    plain = seen.is_plain(dataset)
    reasons = found.reasons if plain else tuple(_discreet(each) for each in found.reasons)
    return WhyNotAnswer(dataset=dataset, reasons=reasons, ledger_entries=index)


def _discreet(reason: Reason) -> Reason:
    """Return a reason with its rule and what to do, without texts that may name something of the data."""
    return Reason(what=reason.what, why=reason.what, do="", rule=reason.rule, since=reason.since)
