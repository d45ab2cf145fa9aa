"""The answers about what the policies decided about a version, what they would decide now, and which labels they read.
For the staff."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from kfm.app.authority.gates import policies_of
from kfm.app.authority.labels_in_force import is_as_signed
from kfm.app.runs.policy_checks import explain
from kfm.app.serving.discretion import EVERYTHING
from kfm.app.serving.served_records import Link
from kfm.app.stewards.label_report import source_labels
from kfm.clock import rfc3339
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.labels import Level
from kfm.model.records import Obligation, Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session
    from kfm.app.stewards.label_report import SourceLabels
    from kfm.model.records import Decision
    from kfm.policy.rule_report import RuleResult

ASKED = 1000  # files of a version about which the policies are asked within a request
RUNS = 20  # runs that moved a ref to the version, the newest first


class BrokenRule(Record, frozen=True):
    """A rule that a version did not meet."""

    rule: str
    reason: str  # empty: not shown


class RecordedDecision(Record, frozen=True):
    """What a gate decided about a version, as the receipt of a run has it."""

    run_id: str
    op: str
    at: str
    gate: str
    allow: bool
    broken: tuple[BrokenRule, ...]
    warnings: tuple[str, ...]
    obligations: tuple[Obligation, ...]
    policy_digest: str
    label_epoch: int
    engine: str


class RuleNow(Record, frozen=True):
    """One rule between Processed and Published, as it would decide now."""

    gate: str
    rule: str
    holds: str  # yes, no, or warn: it does not hold, and stops nothing
    asks: str  # what it asks, or why it does not hold; empty: not shown
    remedy: str


class DecisionAnswer(Record, frozen=True):
    """What the policies decided about a version of a dataset, and for the processed version what they would decide."""

    dataset: str
    version: str
    is_processed: bool  # it is the version that `kfm publish` would publish
    is_published: bool
    policies: str  # digest of the policies in force
    recorded: tuple[RecordedDecision, ...]  # the newest first
    now: tuple[RuleNow, ...]  # empty: see `command`
    command: str  # what to type for `now` if the version has too many files to ask about it here; empty: it has not
    is_withheld: bool  # reasons and warnings are not shown: the data is not plainly public
    links: tuple[Link, ...]
    ledger_entries: int


class SourceLabelRow(Record, frozen=True):
    """The labels that apply to one source today."""

    source: str  # its name in kfm.yml; empty: it has none, or not shown
    address: str  # empty: not shown
    level: Level
    is_publishable: bool
    resolution: int | None  # the finest H3 resolution that may be shown
    care: str
    access: str
    custodians: tuple[str, ...]
    authorities: tuple[str, ...]
    community_labels: tuple[str, ...]
    consent_until: str
    days_left: int | None  # negative: the consent has ended
    rules: tuple[str, ...]  # why it is not more open
    written_at: tuple[str, ...]  # file and line of each label


class DatasetLabels(Record, frozen=True):
    """The labels of the sources of a dataset, and the levels that its versions have."""

    dataset: str
    sources: tuple[SourceLabelRow, ...]
    versions: dict[str, Level]  # by zone
    is_withheld: bool  # names and addresses of sources are not shown: the data is not plainly public


class LabelList(Record, frozen=True):
    """The labels in force, by dataset."""

    datasets: tuple[DatasetLabels, ...]
    next: str
    is_as_signed: bool  # the label file is what is in force; if not, what it opens does not hold
    links: tuple[Link, ...]
    ledger_entries: int


def decision_answer(session: Session, seen: Discretion, dataset: str, wanted: str, index: int) -> DecisionAnswer | None:
    """Return the decisions about a version: the named one, else the processed one. None if this person may not know of
    the dataset, or if it has no such version."""
    if dataset in ("", EVERYTHING) or not seen.may_name(dataset):
        return None
    at = session.state.refs.at
    processed, published = at(refs.processed(dataset)), at(refs.published(dataset))
    version = wanted or processed or published
    made = session.state.ledger.version(dataset, version) if version else None
    if made is None:
        return None
    plain, is_asked = seen.is_plain(dataset, made), version == processed and made.entries <= ASKED
    way = f"/v1/datasets/{dataset}/decisions"
    return DecisionAnswer(
        dataset=dataset,
        version=version if plain or seen.shelf.may_show(dataset, version) else "",
        is_processed=version == processed,
        is_published=version == published,
        policies=policies_of(session.resolved).digest,
        recorded=tuple(_recorded(session, dataset, version, plain=plain)),
        now=tuple(_now(session, dataset, plain=plain)) if is_asked else (),
        command=f"kfm policy explain {dataset}" if version == processed and not is_asked else "",
        is_withheld=not plain,
        links=(
            Link(rel="self", href=way),
            Link(rel="alternate", href=f"/decisions/{dataset}", type="text/html", title="the page"),
            Link(rel="why-not", href=f"/v1/why-not/{dataset}"),
        ),
        ledger_entries=index,
    )


def _recorded(session: Session, dataset: str, version: str, *, plain: bool) -> Iterator[RecordedDecision]:
    ledger = session.state.ledger
    made = ledger.version(dataset, version)
    runs = [
        move.run_id
        for move in session.state.refs.history(refs.published(dataset), reverse=True)
        if version in (move.before, move.after)
    ][:RUNS]
    runs += [made.validated_by, made.run_id] if made is not None else []
    for run_id in dict.fromkeys(filter(None, runs)):
        receipt = ledger.receipt(run_id)
        if receipt is None:
            continue
        for each in receipt.policy_decisions:
            yield _decided(run_id, receipt.job_type.removeprefix("operation."), receipt.finished_at, each, plain=plain)


def _decided(run_id: str, op: str, at: str, each: Decision, *, plain: bool) -> RecordedDecision:
    reasons = each.reasons if plain else [""] * len(each.rules)
    return RecordedDecision(
        run_id=run_id,
        op=op,
        at=at,
        gate=each.gate,
        allow=each.allow is True,
        broken=tuple(BrokenRule(rule=rule, reason=reason) for rule, reason in zip(each.rules, reasons, strict=False)),
        warnings=tuple(each.warnings) if plain else (),
        obligations=tuple(each.obligations) if plain else (),
        policy_digest=each.policy_digest,
        label_epoch=each.label_epoch,
        engine=each.engine,
    )


def _now(session: Session, dataset: str, *, plain: bool) -> Iterator[RuleNow]:
    try:
        found = explain(session, dataset)
    except KfmError:  # its text may name data, and no answer is not a yes
        return
    for each in found:
        yield _rule(each, plain=plain)


def _rule(each: RuleResult, *, plain: bool) -> RuleNow:
    shows = plain or each.holds == "yes"
    return RuleNow(
        gate=each.gate,
        rule=each.rule,
        holds=each.holds,
        asks=each.asks if shows else "",
        remedy=each.remedy if shows else "",
    )


# -- labels


def label_list(session: Session, seen: Discretion, after: str, limit: int, index: int) -> LabelList:
    """Return a page of the labels by dataset; `after` is the last name of the page before."""
    today = rfc3339(session.clock.now_ms())[:10]
    rows = [row for row in source_labels(session, "", today) if row.dataset > after and seen.may_name(row.dataset)]
    found = [(name, list(each)) for name, each in groupby(rows, key=lambda row: row.dataset)]
    return LabelList(
        datasets=tuple(_labels(seen, name, each) for name, each in found[:limit]),
        next=found[limit - 1][0] if len(found) > limit else "",
        is_as_signed=is_as_signed(session),
        links=(
            Link(rel="self", href="/v1/labels"),
            Link(rel="alternate", href="/governance", type="text/html", title="the page"),
        ),
        ledger_entries=index,
    )


def _labels(seen: Discretion, dataset: str, rows: list[SourceLabels]) -> DatasetLabels:
    plain = seen.is_plain(dataset)
    return DatasetLabels(
        dataset=dataset,
        sources=tuple(_source(row, plain=plain) for row in rows),
        versions=rows[0].made,
        is_withheld=not plain,
    )


def _source(row: SourceLabels, *, plain: bool) -> SourceLabelRow:
    return SourceLabelRow(
        source=row.source if plain else "",
        address=row.address if plain else "",
        level=row.level,
        is_publishable=row.publishable,
        resolution=row.resolution,
        care=row.care,
        access=row.access,
        custodians=row.custodians,
        authorities=row.authorities,
        community_labels=row.community_labels,
        consent_until=row.expires,
        days_left=row.days_left,
        rules=row.rules,
        written_at=tuple(each.at for each in row.labels),
    )
