"""Rules that people sign: operations that move a ref to the bytes that are then in force."""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import NOTHING, MoveUpdater


class Ruling(MoveUpdater):
    """Replaces one signed text by the next. The authority decides who must sign it."""

    heeds_freeze = False
    approval = "rules"
    ref = ""  # which it moves; one that ends with a slash, any below it

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        ref, target = trigger.params.get("ref", ""), trigger.params.get("to", "")
        right = ref.startswith(self.ref) if self.ref.endswith("/") else ref == self.ref
        if not right or not is_digest(target):
            raise Refused("the request names nothing that can be signed", hint="use `kfm labels set`, or `deploy`")
        return Aim(sources.ref(ref), target)


class Labelling(Ruling):
    """Replaces the labels in force."""

    id = "kfm-labels"
    op = "labels"
    job_type = "operation.labels"
    ref = refs.LABELS


class Masking(Ruling):
    """Replaces the masking policy of a source."""

    id = "kfm-mask"
    op = "mask"
    job_type = "operation.mask"
    ref = refs.MASKS

    def takes_away(self, trigger: Trigger) -> bool:
        return trigger.params.get("to") == NOTHING

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        """Return the move; to nothing, if the source has its policy under another name."""
        ref = trigger.params.get("ref", "")
        if self.takes_away(trigger) and ref.startswith(refs.MASKS):
            return Aim(sources.ref(ref), "")
        return super().aim(trigger, sources)


class Reviewing(Ruling):
    """Replaces the rules about how many people must approve."""

    id = "kfm-review"
    op = "review"
    job_type = "operation.review"
    ref = refs.REVIEW


class Deploying(Ruling):
    """Replaces the policies that an installation adds."""

    id = "kfm-policy"
    op = "policy"
    job_type = "operation.policy"
    ref = refs.POLICY
