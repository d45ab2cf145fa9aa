"""The base of all operations: updaters whose plan moves refs and that have nothing to perform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from kfm.errors import BadInput, Moved, Refused
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.operation_target import Aim, aim_of, aiming, aims_of
from kfm.model.records import RefMove, SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader, Sources, Updater

NOTHING = "nothing"
ALSO = "also"  # the parameter that names the moves that are made with the first one

# Whose signatures an operation needs once there is a key list: none; those on the next key list; one on a change
# request; that on the record of an access token; those on a change of rules, which cannot be made without a key list;
# those on a change request.
Approval = Literal["none", "key-list", "signature", "token", "rules", "request"]


class MoveUpdater(Updater):
    """Plans one move, or several in one commit: from where each ref is to its target. Both are inputs.

    An operation describes itself by its attributes, so that neither the engine nor the app knows it by name.
    """

    version = "1.0.0"
    moves_only = True
    approval: Approval = "request"
    asks_custodians: bool = False  # whether the custodians of the data must agree
    counts_as_ingest: bool = False  # whether it makes the current version, as a run of the dataset does

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        aims = list(self.aims(trigger, sources))
        ref = aims[0].ref
        before = trigger.params.get("before")
        if before is None and trigger.trigger_id:
            raise Refused("the record of this request does not say any more what to move", hint="request it again")
        if before is not None and before != (ref.content_hash or NOTHING):
            raise Moved(
                f"{ref.name} has moved since this was requested",
                hint=f"look at `kfm refs history {ref.name}`, and request it again if it is still wanted",
            )
        return [each for aim in aims for each in aiming(*aim)]

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        """Return the ref to move and its target."""
        raise NotImplementedError

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        """Return every ref to move in the one commit, and its target. The first is what the operation is about."""
        return [self.aim(trigger, sources)]

    def kept(self, trigger: Trigger, inputs: Sequence[SourceRef]) -> Trigger:
        """Return the trigger with its move pinned: a request that is carried out later makes this move or none."""
        ref, target = aim_of(inputs)
        pinned = {"before": ref.content_hash or NOTHING, "to": target or NOTHING}
        return msgspec.structs.replace(trigger, params={**trigger.params, **pinned})

    def takes_away(self, trigger: Trigger) -> bool:  # noqa: ARG002
        return False

    def asks_gates(self, trigger: Trigger) -> bool:  # noqa: ARG002
        return False

    def action(self, move: RefMove) -> str:  # noqa: ARG002
        """Return the name that a change request gives to this move, such as promote."""
        return self.op

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        moves = [
            RefMove(ref=ref.name, before=ref.content_hash, after=target)
            for ref, target in aims_of(inputs)
            if target != ref.content_hash
        ]
        return Plan([Step(id=f"move-{move.ref}", move=move) for move in moves])

    def perform(self, step: Step, read: Reader) -> Output:  # noqa: ARG002
        raise Refused("a move has nothing to perform")


def also(moves: Iterable[RefMove]) -> str:
    """Return moves as a parameter of an operation: on each line a ref, where it is, and where it goes."""
    return "\n".join(f"{move.ref} {move.before or NOTHING} {move.after or NOTHING}" for move in moves)


def also_named(text: str) -> list[RefMove]:
    """Return the moves in such a parameter. Raise Refused if it is none."""
    found = []
    for line in text.splitlines():
        words = ["" if word == NOTHING else word for word in line.split(" ")]
        is_flag = words[0].startswith((refs.SWITCH, refs.AMBER))
        if len(words) != 3 or any(word and not is_digest(word) and not is_flag for word in words[1:]):
            raise Refused("the request does not say what else to move", hint="request it again")
        found.append(RefMove(ref=words[0], before=words[1], after=words[2]))
    return found


def check_digest(text: str) -> None:
    if not is_digest(text):
        raise BadInput("the version is not a digest", hint="a digest looks like sha256:<64 hex digits>")
