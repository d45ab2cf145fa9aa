"""Rules that a person sets aside for one run. Each is asked for by its own flag, with a reason, and stands in
the receipt and the ledger."""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model.records import Override, Trigger

EVERY_DELETION = 2**53 - 1


def overrides_of(trigger: Trigger) -> list[Override]:
    """What a trigger sets aside."""
    found = []
    if trigger.force:
        found.append(Override(rule="force"))
    if abandons_unfinished(trigger):
        found.append(Override(rule="abandon"))
    if allowed := deletions_allowed(trigger):
        found.append(Override(rule="allow-deletions", limit=allowed))
    return found


def abandons_unfinished(trigger: Trigger) -> bool:
    return trigger.abandon or _meant_all(trigger)


def deletions_allowed(trigger: Trigger) -> int:
    """So many keys may go whatever the deletion budget says."""
    return EVERY_DELETION if _meant_all(trigger) else trigger.allow_deletions or 0


def check_reason(trigger: Trigger) -> None:
    """Nothing is set aside without a reason."""
    found = overrides_of(trigger)
    if found and not trigger.reason.strip():
        raise Refused(f"--{found[0].rule} needs a reason", hint="add --reason; it goes into the ledger")


def _meant_all(trigger: Trigger) -> bool:
    """A trigger from before the three were told apart, when `force` meant each of them."""
    return trigger.force and trigger.allow_deletions is None
