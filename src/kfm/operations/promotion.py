"""Promote: the processed version of a dataset becomes the published one."""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import dataset_id
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import MoveUpdater, check_digest


class Promote(MoveUpdater):
    """Moves published/<dataset> to the version at processed/<dataset>; the digest stays the same."""

    id = "kfm-promote"
    op = "promote"
    job_type = "operation.promote"
    asks_custodians = True
    source_zone = "processed"

    def asks_gates(self, trigger: Trigger) -> bool:  # noqa: ARG002
        return True

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        name = dataset_id(trigger.dataset)
        target = trigger.params.get("to") or sources.ref(refs.processed(name)).content_hash
        if not target:
            raise Refused(f"{name} has no processed version to promote", hint=f"run it first: `kfm run {name}`")
        check_digest(target)
        return Aim(sources.ref(refs.published(name)), target)
