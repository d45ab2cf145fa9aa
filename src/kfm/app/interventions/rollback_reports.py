"""Writes the report of a dry run of a rollback to a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kfm.app.provenance.explain import write_page
from kfm.errors import BadInput, Refused
from kfm.parsing.characters import printable
from kfm.projections.reports.rollback_report import RollbackReport, StaysBehind, as_html, as_json, as_markdown

if TYPE_CHECKING:
    from kfm.app.interventions.rollback_plan import Dependent
    from kfm.app.runs.execution import Outcome

FORMS = {".md": as_markdown, ".html": as_html, ".json": as_json}
_LINKS = "catalog: a link of "


def check_report(path: str, *, dry: bool) -> None:
    """Raise BadInput unless a report can be written there."""
    if not dry:
        raise BadInput("--report is about a dry run", hint="add --dry-run; a rollback that is done has a receipt")
    if os.path.splitext(path)[1] not in FORMS:
        raise BadInput(f"{printable(path, 200)} is no report", hint="give a name that ends in .md, .html or .json")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise BadInput(f"{printable(path, 200)} is in a folder that is not there", hint="make the folder first")


def write_report(path: str, done: Outcome, left: Sequence[Dependent]) -> None:
    """Write what the dry run of a rollback found, in the form that the name of the file says. Refused if the dry run
    found nothing that could be reported."""
    if not done.receipts:
        raise Refused("the dry run ended before it had anything to report", hint="correct the problem above")
    receipt = done.receipts[-1]
    reasons = [reason for one in receipt.policy_decisions for reason in one.reasons]
    report = RollbackReport(
        dataset=receipt.dataset,
        at=receipt.finished_at,
        actor=receipt.actor,
        reason=receipt.reason,
        allowed=receipt.status == "SUCCESS",
        refused=[note.message for note in receipt.errors],
        moves=receipt.moves,
        stays=[StaysBehind(dataset=each.dataset, version=each.version) for each in left],
        decisions=receipt.policy_decisions,
        broken_links=sum(1 for reason in reasons if reason.startswith(_LINKS)),
    )
    write_page(path, FORMS[os.path.splitext(path)[1]](report), "the report")
