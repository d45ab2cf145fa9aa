"""The first stage of a run: before anything is fetched, it refuses what a later stage would refuse after the work."""

from __future__ import annotations

from kfm.engine.guards import Guards
from kfm.engine.run_context import Work
from kfm.errors import Denied


def preflight(guards: Guards, work: Work) -> None:
    """Raise what a later stage would raise: masks and labels that do not match, a burnt error budget, a closed dataset,
    policies that cannot be read, or a missing key for attestations. A run that only withdraws or stops needs no
    policies and no key.
    """
    updater, trigger = work.updater, work.trigger
    if guards.check_labels is not None:
        guards.check_labels(updater, trigger)
    if guards.check_budget is not None:
        guards.check_budget(updater, trigger)
    if not updater.moves_only and work.metadata.get("sensitivity") == "closed":
        raise Denied(
            f"dataset {trigger.dataset} is closed, and closed data may not be used",
            hint="ask who closed it; if it may be public, write `sensitivity: public` under datasets."
            f"{trigger.dataset} in kfm.yml; `kfm rollback DATASET --to nothing --reason …` withdraws what was public",
        )
    if not updater.asks_gates(trigger):
        return
    if guards.check_policies is not None:
        guards.check_policies()
    if guards.attest is not None:
        guards.attest.check()
