"""Rules that a person overrides for one run. Each needs its own flag and a reason; the receipt and the ledger record
it."""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model.records import Override, Trigger

EVERY_DELETION = 2**53 - 1


def overrides_of(trigger: Trigger) -> list[Override]:
    """Return the rules that a trigger overrides."""
    found = []
    if trigger.force:
        found.append(Override(rule="force"))
    if abandons_unfinished(trigger):
        found.append(Override(rule="abandon"))
    if allowed := deletions_allowed(trigger):
        found.append(Override(rule="allow-deletions", limit=allowed))
    return found


def abandons_unfinished(trigger: Trigger) -> bool:
    return trigger.abandon or _forces_everything(trigger)


def deletions_allowed(trigger: Trigger) -> int:
    """Return how many keys may be deleted beyond the deletion budget."""
    return EVERY_DELETION if _forces_everything(trigger) else trigger.allow_deletions or 0


def check_reason(trigger: Trigger) -> None:
    """Raise Refused if a rule is overridden without a reason."""
    found = overrides_of(trigger)
    if found and not trigger.reason.strip():
        raise Refused(f"--{found[0].rule} needs a reason", hint="add --reason; it goes into the ledger")


def _forces_everything(trigger: Trigger) -> bool:
    """Return whether the trigger is of an older format in which `force` meant all three overrides."""
    return trigger.force and trigger.allow_deletions is None
