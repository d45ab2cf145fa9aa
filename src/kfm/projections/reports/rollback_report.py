"""The report on what a rollback would do, for the people who decide about it and for auditors. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.model.canonical import canonical
from kfm.model.records import Decision, Record, RefMove
from kfm.projections.reports.report_text import as_page, table

NOTHING = "nothing"


class StaysBehind(Record, frozen=True):
    """A published dataset that was made of what is taken back, and that the rollback leaves as it is."""

    dataset: str
    version: str


class RollbackReport(Record, frozen=True):
    """What a rollback would do, as its dry run found it."""

    dataset: str
    at: str  # when the dry run ended
    actor: str
    reason: str
    allowed: bool
    refused: list[str]  # why it would be refused; empty if it is allowed
    moves: list[RefMove]
    stays: list[StaysBehind]
    decisions: list[Decision]  # what policy says today, for each version that would be public
    broken_links: int  # links of the catalog that would lead to no file


def as_json(report: RollbackReport) -> str:
    return canonical(report).decode() + "\n"


def as_markdown(report: RollbackReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def as_html(report: RollbackReport) -> str:
    return as_page(f"Rollback of {report.dataset}", _lines(report))


def _lines(report: RollbackReport) -> Iterator[str]:
    yield from (f"# Rollback of {report.dataset}", "")
    verdict = "It would be done." if report.allowed else "It would be refused: " + "; ".join(report.refused)
    yield from (f"Dry run of {report.at} by {report.actor}. {verdict}", "")
    if report.reason:
        yield from (f"Reason: {report.reason}", "")
    yield from ("## What would move", "")
    yield from table(
        ("ref", "from", "to"), [(one.ref, one.before or NOTHING, one.after or NOTHING) for one in report.moves]
    )
    yield from ("## What was made of it and stays", "")
    yield from table(("dataset", "version"), [(one.dataset, one.version) for one in report.stays])
    yield from ("## What policy says today", "")
    said = [
        (one.subject, "yes" if one.allow else "no", "; ".join(one.reasons) or "-", one.policy_digest)
        for one in report.decisions
    ]
    yield from table(("version", "allowed", "reasons", "policies"), said)
    yield from ("## Links", "", f"{report.broken_links} links of the catalog would lead to no file.")
