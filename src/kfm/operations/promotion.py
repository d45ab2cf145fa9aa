"""Promote: the processed version of a dataset becomes the published one, or a withdrawn one that an operator names."""

from __future__ import annotations

from kfm.errors import Conflict, Moved, Refused
from kfm.model import refs
from kfm.model.names import dataset_id
from kfm.model.operation_target import Aim
from kfm.model.records import SourceRef, Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import MoveUpdater, check_digest
from kfm.projections.live_versions import withdrawn_versions


class Promote(MoveUpdater):
    """Moves published/<dataset> to the version at processed/<dataset>; the digest stays the same.

    A version that was rolled back or withdrawn is published again only if the request names it and gives a reason.
    """

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
        taken_back = withdrawn_versions(sources.history(refs.published(name))).get(target)
        if taken_back is not None and not (trigger.params.get("to") and trigger.reason.strip()):
            raise Refused(
                f"{name} {target[:19]} was withdrawn by {taken_back.actor} at {taken_back.ts}",
                hint="it is published again only by name, with a reason, and if labels and gates allow: "
                f"`kfm publish {name} --to {target[7:23]} --reason …`",
            )
        return Aim(sources.ref(refs.published(name)), target)


class AutomaticPromotion(Promote):
    """The promotion after a run of a dataset with `promote: auto`. If another process moved the published ref first,
    it ends with Conflict and leaves no receipt: no person requested it, and the next run looks again."""

    def spends_budget(self, trigger: Trigger) -> bool:  # noqa: ARG002
        return True

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        try:
            return super().inputs(trigger, sources)
        except Moved as problem:
            raise Conflict(problem.message, hint="the next run looks again") from problem
