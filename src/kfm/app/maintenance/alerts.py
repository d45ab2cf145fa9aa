"""The rules for Prometheus of an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.objectives.error_budgets import objectives_of
from kfm.projections.alert_rules import rules_text

if TYPE_CHECKING:
    from kfm.config import Resolved


def alert_rules(resolved: Resolved) -> tuple[str, list[str]]:
    """Return the rules, and the names of the objectives in them. BadInput if an objective has a mistake."""
    objectives = objectives_of(resolved)
    return rules_text(objectives), [each.name for each in objectives]
