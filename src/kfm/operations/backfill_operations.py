"""Starting a backfill and ending it: a move of its ref, to a plan or to nothing."""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import check_id, is_digest
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import NOTHING, MoveUpdater


class Backfilling(MoveUpdater):
    """The ref of a backfill is at the plan that is executed; gone, it was cancelled. Its partitions are runs like any
    other, and ask for themselves what each run must ask."""

    id = "kfm-backfill"
    op = "backfill"
    job_type = "operation.backfill"
    approval = "none"  # a person who may run a dataset may run its parts

    def takes_away(self, trigger: Trigger) -> bool:
        """A backfill can always be cancelled."""
        return trigger.params.get("to") == NOTHING

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        target = trigger.params.get("to", "")
        if target != NOTHING and not is_digest(target):
            raise Refused("no plan is named", hint="use `kfm backfill start`")
        ref = sources.ref(refs.backfill(check_id(trigger.params.get("backfill", ""), "backfill")))
        return Aim(ref, "" if target == NOTHING else target)
