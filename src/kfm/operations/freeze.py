"""Freeze and thaw: set or clear the freeze flag of a dataset, a schedule, a backfill, a run, or of everything."""

from __future__ import annotations

from kfm.model import refs
from kfm.model.names import check_id, dataset_id
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import MoveUpdater


class Freeze(MoveUpdater):
    """Sets a freeze flag: it stops all effects of a dataset or of everything, the ticks of a schedule, a backfill, or
    one run for good."""

    id = "kfm-freeze"
    op = "freeze"
    job_type = "operation.freeze"
    heeds_freeze = False
    needs_labels = False
    target = "frozen"

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        name = trigger.params.get("scope") or trigger.dataset
        kind, slash, rest = name.partition("/")
        if slash and kind in ("schedule", "run", "backfill"):
            switch = refs.switch(kind, check_id(rest, kind))
        else:
            switch = refs.switch("global") if name == "global" else refs.switch("dataset", dataset_id(name))
        return Aim(sources.ref(switch), self.target)


class Thaw(Freeze):
    id = "kfm-thaw"
    op = "thaw"
    job_type = "operation.thaw"
    needs_labels = True
    target = "open"
