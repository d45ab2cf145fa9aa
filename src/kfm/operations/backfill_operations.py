"""Start and cancel a backfill: its ref moves to a plan, or is removed."""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import check_id, is_digest
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import NOTHING, MoveUpdater


class Backfilling(MoveUpdater):
    """Moves the ref of a backfill to the plan to execute, or removes it to cancel. The partitions are normal runs, and
    each passes the checks of a run."""

    id = "kfm-backfill"
    op = "backfill"
    job_type = "operation.backfill"
    approval = "none"  # a person who may run a dataset may run its parts

    def takes_away(self, trigger: Trigger) -> bool:
        """Return whether the operation cancels the backfill, which is always allowed."""
        return trigger.params.get("to") == NOTHING

    def spends_budget(self, trigger: Trigger) -> bool:
        return not self.takes_away(trigger)

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        target = trigger.params.get("to", "")
        if target != NOTHING and not is_digest(target):
            raise Refused("no plan is named", hint="use `kfm backfill start`")
        ref = sources.ref(refs.backfill(check_id(trigger.params.get("backfill", ""), "backfill")))
        return Aim(ref, "" if target == NOTHING else target)
