"""Overrides of objectives: who opens what a burnt error budget closes, until when, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.objectives.error_budgets import Override
from kfm.clock import parse_instant, rfc3339
from kfm.errors import BadInput, Refused
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.reports.objective import DAY_MS, Objective
from kfm.scheduling.freshness_rules import length_ms

if TYPE_CHECKING:
    from kfm.app.session.session import Session

LONGEST_MS = 30 * DAY_MS
SCOPE = "global"  # of an objective that is about several datasets


def override_params(session: Session, objective: Objective, until: str) -> tuple[str, dict[str, str]]:
    """Store the record of an override; return the dataset and the parameters of the operation. Raise BadInput for a
    time that is none, Refused for one that is past or too far away."""
    now_ms = session.clock.now_ms()
    until_ms = _until_ms(until, now_ms)
    if until_ms <= now_ms:
        raise Refused("--until is past", hint="name a later time; an override ends by itself")
    if until_ms > now_ms + LONGEST_MS:
        raise Refused("an override lasts 30 days at most", hint="name an earlier time, and look again then")
    record = Override(objective=objective.name, until=rfc3339(until_ms))
    dataset = objective.datasets[0] if len(objective.datasets) == 1 else SCOPE
    return dataset, {"ref": refs.override(objective.name), "to": session.objects.put(canonical(record))}


def _until_ms(text: str, now_ms: int) -> int:
    length = length_ms(text)
    if length is not None:
        return now_ms + length
    try:
        return parse_instant(text, "--until")
    except BadInput:
        raise BadInput("--until is no time", hint="write it like 2026-11-20T18:00:00Z, or 12h") from None
