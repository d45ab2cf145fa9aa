"""Hotfix: what the public metadata of a dataset say is corrected, and the correction can be taken back."""

from __future__ import annotations

from collections.abc import Iterable

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import dataset_id, is_digest
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import NOTHING, MoveUpdater


class Hotfix(MoveUpdater):
    """Moves `hotfix/DATASET` to other corrections, or removes it. The published version is an input: it stays where it
    is, and the gate decides about it with the metadata that it would be shown with."""

    id = "kfm-hotfix"
    op = "hotfix"
    job_type = "operation.hotfix"
    asks_custodians = True

    def asks_gates(self, trigger: Trigger) -> bool:  # noqa: ARG002
        return True

    def is_risky(self, trigger: Trigger) -> bool:  # noqa: ARG002
        return True

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        published = sources.ref(refs.published(dataset_id(trigger.dataset)))
        return [self.aim(trigger, sources), Aim(published, published.content_hash)]

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        target = trigger.params.get("to", "")
        if not is_digest(target) and target != NOTHING:
            raise Refused("no hotfix is named", hint="use `kfm hotfix apply FILE` and `kfm hotfix revert NAME`")
        return Aim(sources.ref(refs.hotfix(dataset_id(trigger.dataset))), "" if target == NOTHING else target)
