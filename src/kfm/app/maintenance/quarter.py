"""Counts a quarter from the ledger, the telemetry and the objectives. A quarter begins at midnight UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.maintenance.metrics import Metrics
from kfm.app.objectives.error_budgets import Override, good_and_bad, objectives_of
from kfm.app.runs.review_queue import items
from kfm.clock import parse_instant, rfc3339
from kfm.errors import BadInput, Corrupt, Refused
from kfm.model.reports.quarter_figures import ObjectiveQuarter, OverrideLine, QuarterReport
from kfm.projections.budget_counts import BudgetCounts, counted
from kfm.projections.operation_counts import EntryFacts
from kfm.projections.reports.quarter_report import DENIED, QuarterCounts, as_html, as_json, as_markdown
from kfm.scheduling.triggers import is_of_preview

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry
    from kfm.model.reports.objective import Objective

FORMS = {".md": as_markdown, ".html": as_html, ".json": as_json}
_QUARTER = re.compile(r"([0-9]{4})-[Qq]([1-4])")


class Quarter(NamedTuple):
    """A quarter of a year: from its first instant to the first one after it."""

    name: str
    begin_ms: int
    end_ms: int


def quarter_of(text: str, now_ms: int) -> Quarter:
    """Return the quarter of a text such as 2026-Q3; of an empty one, the present quarter. BadInput for another text,
    Refused for a quarter that has not begun."""
    if text:
        found = _QUARTER.fullmatch(text)
        if found is None or not 1970 <= int(found[1]) <= 9998:
            raise BadInput("this is no quarter", hint="write it like 2026-Q3")
        year, number = int(found[1]), int(found[2])
    else:
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        year, number = now.year, (now.month + 2) // 3
    begin_ms, end_ms = _first_ms(year, number), _first_ms(*((year + 1, 1) if number == 4 else (year, number + 1)))
    if begin_ms > now_ms:
        raise Refused(f"{year}-Q{number} has not begun", hint="name this quarter or an earlier one")
    return Quarter(f"{year}-Q{number}", begin_ms, end_ms)


def _first_ms(year: int, number: int) -> int:
    return int(datetime(year, 3 * number - 2, 1, tzinfo=UTC).timestamp()) * 1000


def quarter_report(session: Session, quarter: Quarter) -> QuarterReport:
    """Return the report. It reads the whole ledger once."""
    made_ms = session.clock.now_ms()
    begin, end = rfc3339(quarter.begin_ms), rfc3339(quarter.end_ms)
    counts, overrides = QuarterCounts(), list[OverrideLine]()
    try:
        objectives = objectives_of(session.resolved)
    except BadInput:
        objectives = None
    events = BudgetCounts(objectives=counted(objectives or ()))
    state = session.state
    with state.reading():
        for entry in state.ledger.entries():
            if not begin <= entry.ts < end:
                continue
            telemetry = state.ledger.telemetry(entry.run_id)
            counts.add(entry, telemetry, _rules(session, entry) if entry.outcome in DENIED else ())
            overrides += _overrides(session, entry)
            events.add(entry, telemetry, _facts(session, entry))
        until_ms = min(quarter.end_ms, made_ms)
        kept = (
            None
            if objectives is None
            else [_kept(session, one, events, quarter.begin_ms, until_ms) for one in objectives]
        )
    broken, orphans = Metrics(session).links()
    return QuarterReport(
        quarter=quarter.name,
        begin=begin,
        end=end,
        made=rfc3339(made_ms),
        is_over=quarter.end_ms <= made_ms,
        entries=counts.entries,
        datasets=counts.datasets(),
        denials=counts.denials(),
        overrides=overrides,
        objectives=kept,
        open_reviews=len(items(session)),
        broken_links=broken,
        orphan_links=orphans,
    )


def _facts(session: Session, entry: LedgerEntry) -> EntryFacts:
    return EntryFacts(lambda: parse_instant(entry.ts, "an entry"), lambda: is_of_preview(session.state, entry))


def _rules(session: Session, entry: LedgerEntry) -> tuple[str, ...]:
    """Return the rules that denied a run; the codes of its errors if no gate named one."""
    receipt = session.state.ledger.receipt(entry.run_id)
    if receipt is None:
        return ("unknown",)  # damage, which `kfm audit verify` reports
    rules = {rule for each in receipt.policy_decisions if not each.allow for rule in each.rules}
    return tuple(sorted(rules or {note.code for note in receipt.errors} or {"unknown"}))


def _overrides(session: Session, entry: LedgerEntry) -> Iterator[OverrideLine]:
    """Yield what an entry overrode: rules for one run, or an objective for a time."""
    withheld = () if entry.governed is msgspec.UNSET else entry.governed.withheld
    who = None if "operator" in withheld else entry.operator
    reason = None if "reason" in withheld else bool(entry.reason)
    for each in entry.overrides:
        yield OverrideLine(at=entry.ts, dataset=entry.dataset, what=each.rule, who=who, has_reason=reason, until=None)
    if entry.op_type == "override" and entry.outcome == "done":
        for move in entry.moves:
            try:
                found = msgspec.json.decode(session.objects.read(move.after), type=Override)
            except (msgspec.MsgspecError, Corrupt):
                found = Override(objective="unknown", until="unknown")
            yield OverrideLine(
                at=entry.ts, dataset=entry.dataset, what=found.objective, who=who, has_reason=reason, until=found.until
            )


def _kept(session: Session, objective: Objective, events: BudgetCounts, begin_ms: int, end_ms: int) -> ObjectiveQuarter:
    good, bad = good_and_bad(session, objective, events, begin_ms, end_ms)
    actual = good / (good + bad) if good + bad else None
    return ObjectiveQuarter(
        name=objective.name,
        target=objective.target,
        actual=actual,
        kept=None if actual is None else actual >= objective.target,
    )
