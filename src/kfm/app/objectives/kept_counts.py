"""Keeps the counts of the ledger that are far behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.objectives.error_budgets import BUDGETS
from kfm.app.objectives.ledger_counts import OPERATIONS
from kfm.errors import KfmError

if TYPE_CHECKING:
    from kfm.app.session.session import Session


def keep_counts(session: Session) -> None:
    """Keep the counts that are far behind. A failure is logged: a note only saves time."""
    try:
        OPERATIONS.keep(session)
        if session.resolved.has_objectives:
            BUDGETS.keep(session)
    except KfmError as problem:
        session.log.event("counts.unkept", error=problem)
