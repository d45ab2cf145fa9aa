"""All operations by name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kfm.operations.move_updater import MoveUpdater


@cache
def operations() -> Mapping[str, type[MoveUpdater]]:
    """Return the classes of all operations by name. They are imported at the first call, because most commands need
    none."""
    from kfm.operations.backfill_operations import Backfilling
    from kfm.operations.freeze import Freeze, Thaw
    from kfm.operations.hotfix import Hotfix
    from kfm.operations.key_operations import Approving, Asking, Expiring, Granting, Listing, Rejecting
    from kfm.operations.maintenance_operations import (
        Attest,
        BuildCatalog,
        ChangeBreaker,
        ChangeBudget,
        Collect,
        Compact,
        HandleJob,
        HandleTriggers,
        Relocate,
        Repair,
        Restore,
        RetrySink,
        TakeBackup,
        Upgrade,
    )
    from kfm.operations.objective_operations import Overriding
    from kfm.operations.preview_operations import Adopt, Propose, Sweep
    from kfm.operations.promotion import Promote
    from kfm.operations.rollback import Rollback
    from kfm.operations.rule_operations import Deploying, Labelling, Masking, Reviewing

    kinds: tuple[type[MoveUpdater], ...] = (
        *(Promote, Rollback, Hotfix, Freeze, Thaw),
        *(Listing, Asking, Approving, Rejecting, Expiring, Granting),
        *(Labelling, Masking, Deploying, Reviewing),
        *(Backfilling, Propose, Adopt, Sweep, Overriding),
        *(Repair, Compact, Attest, BuildCatalog, RetrySink, HandleJob, HandleTriggers, Relocate, TakeBackup, Restore),
        *(ChangeBreaker, ChangeBudget, Collect, Upgrade),
    )
    return {kind.op: kind for kind in kinds}
