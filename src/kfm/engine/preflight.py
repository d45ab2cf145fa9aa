"""The first stage of a run: refuse before anything is fetched what a later stage would refuse after all the work."""

from __future__ import annotations

from kfm.engine.run_context import RunContext
from kfm.errors import Denied


def preflight(context: RunContext) -> None:
    """Raise what would be raised later: masks and labels that do not fit together, a closed dataset, policies that
    cannot be read, or a key to attest with that is not there. A run that only withdraws or stops needs none of these.
    """
    context.stage = "ADMIT"
    ports, updater, trigger = context.ports, context.updater, context.trigger
    if ports.fits is not None:
        ports.fits(updater, trigger)
    if not updater.moves_only and ports.metadata.get("sensitivity") == "closed":
        raise Denied(
            f"dataset {context.dataset} is closed, and what is closed is not used at all",
            hint="ask who closed it; what was published of it goes with `kfm rollback DATASET --to nothing`",
        )
    if not updater.asks_gates(trigger):
        return
    if ports.check_policies is not None:
        ports.check_policies()
    if ports.attest is not None:
        ports.attest.check()
