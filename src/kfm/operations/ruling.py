"""Rules that people sign: operations that move a ref to the bytes that hold from then on."""

from __future__ import annotations

from kfm.contract.aims import LABELS, Aim
from kfm.contract.names import is_digest
from kfm.contract.records import Trigger
from kfm.contract.updater import Sources
from kfm.errors import Refused
from kfm.operations.moves import MoveUpdater


class Labelling(MoveUpdater):
    """The file of labels is followed by the next. Who must have signed it is for the authority to say."""

    id = "kfm-labels"
    op = "labels"
    job_type = "operation.labels"

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        ref, target = trigger.params.get("ref", ""), trigger.params.get("to", "")
        if ref != LABELS or not is_digest(target):
            raise Refused("no file of labels is named", hint="use `kfm labels set`")
        return Aim(sources.ref(ref), target)


RULED: dict[str, type[MoveUpdater]] = {kind.op: kind for kind in (Labelling,)}
