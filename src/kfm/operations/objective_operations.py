"""Override: a steward opens, for a time, what a burnt error budget closes."""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import MoveUpdater


class Overriding(MoveUpdater):
    """Moves the ref of an objective to the record of an override. It ends by itself; nothing is published by it."""

    id = "kfm-override"
    op = "override"
    job_type = "operation.override"
    heeds_freeze = False
    needs_labels = False

    def asks_gates(self, trigger: Trigger) -> bool:  # noqa: ARG002
        return False

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        ref, target = trigger.params.get("ref", ""), trigger.params.get("to", "")
        if not ref.startswith(refs.OVERRIDE) or not is_digest(target):
            raise Refused("the request names no override", hint="use `kfm slo override`")
        return Aim(sources.ref(ref), target)
