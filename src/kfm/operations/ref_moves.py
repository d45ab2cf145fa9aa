"""Promote, roll back, freeze, thaw: updaters whose plan is a move of a ref, and nothing to perform."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kfm.errors import BadInput, Moved, Refused
from kfm.model import refs
from kfm.model.names import check_id, dataset_id, is_digest
from kfm.model.operation_target import Aim, aim_of, aiming
from kfm.model.records import RefEntry, RefMove, SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader, Sources, Updater

NOTHING = "nothing"


class MoveUpdater(Updater):
    """Plans one move: from where the ref is to its target. Both are inputs."""

    version = "1.0.0"
    moves_only = True

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        ref, target = self.aim(trigger, sources)
        before = trigger.params.get("before")
        if before is None and trigger.trigger_id:
            raise Refused("it is not known any more what this was to move", hint="order it anew")
        if before is not None and before != (ref.content_hash or NOTHING):
            raise Moved(
                f"{ref.name} has moved since this was ordered",
                hint=f"look at `kfm refs history {ref.name}`, and order it anew if it is still wanted",
            )
        return aiming(ref, target)

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        """The ref to move, and where it shall go."""
        raise NotImplementedError

    def kept(self, trigger: Trigger, inputs: Sequence[SourceRef]) -> Trigger:
        """What was ordered is decided when it is ordered: done later, it is this move or none."""
        ref, target = aim_of(inputs)
        pinned = {"before": ref.content_hash or NOTHING, "to": target or NOTHING}
        return msgspec.structs.replace(trigger, params={**trigger.params, **pinned})

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        ref, target = aim_of(inputs)
        move = RefMove(ref=ref.name, before=ref.content_hash, after=target)
        return Plan([Step(id=f"move-{ref.name}", move=move)] if target != ref.content_hash else [])

    def perform(self, step: Step, read: Reader) -> Output:  # noqa: ARG002
        raise Refused("a move has nothing to perform")


class Promote(MoveUpdater):
    """The version at processed/<dataset> becomes the one at published/<dataset>, the same digest."""

    id = "kfm-promote"
    op = "promote"
    job_type = "operation.promote"

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        name = dataset_id(trigger.dataset)
        target = trigger.params.get("to") or sources.ref(refs.processed(name)).content_hash
        if not target:
            raise Refused(f"{name} has no processed version to promote", hint=f"run it first: `kfm run {name}`")
        _check_digest(target)
        return Aim(sources.ref(refs.published(name)), target)


class Rollback(MoveUpdater):
    """Undo the last move of a ref, or move it to a version it had before.

    What a rollback did is never undone by another that names nothing: the same order again, after a kill past its
    commit, would publish what it took back. Whoever wants to go on, or forward again, names the version. To `nothing`:
    withdraw it; that is asked for by name too.
    """

    id = "kfm-rollback"
    op = "rollback"
    job_type = "operation.rollback"

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        name = dataset_id(trigger.dataset)
        ref = trigger.params.get("ref") or refs.published(name)
        if ref not in (refs.published(name), refs.processed(name)):
            raise Refused(f"{ref} is not a ref of {name} that can be rolled back")
        entries = sources.history(ref)
        if not entries:
            raise Refused(f"{ref} has no history to go back to", hint="see `kfm refs list`")
        target = trigger.params.get("to")
        if not target and entries[-1].op == self.op:
            raise _rolled_back_already(name, entries)
        target = target or entries[-1].before
        if not target:
            withdrawn = any(entry.before for entry in entries)
            raise Refused(
                f"{ref} was withdrawn before this version" if withdrawn else f"{ref} had no version before this one",
                hint=(f"name the version, see `kfm refs history {ref}`; " if withdrawn else "")
                + f"to withdraw it altogether: `kfm rollback {name} --to nothing`",
            )
        if target == NOTHING:
            if not ref.startswith(refs.PUBLISHED):
                raise Refused(f"{ref} is not published, so it cannot be withdrawn")
            return Aim(sources.ref(ref), "")
        _check_digest(target)
        if all(target not in (entry.before, entry.after) for entry in entries):
            raise Refused(f"{ref} was never at {target}", hint=f"see `kfm refs history {ref}`")
        return Aim(sources.ref(ref), target)


def _rolled_back_already(name: str, entries: Sequence[RefEntry]) -> Refused:
    """The hint is what to type: forward again by name, or further back if there is anything."""
    last = entries[-1]
    ref = "" if last.ref.startswith(refs.PUBLISHED) else f" --ref {last.ref}"
    what = "to go forward again" if last.before else "to withdraw it again"
    return Refused(
        f"{last.ref} was rolled back already, from {last.before or 'nothing'} to {last.after or 'nothing'}",
        hint=f"{what}: `kfm rollback {name}{ref} --to {last.before[:23] or 'nothing'}`; "
        f"any other version is named with --to as well, see `kfm refs history {last.ref}`",
    )


class Freeze(MoveUpdater):
    """Stop all effects of a dataset, or of everything; or the ticks of a schedule, a backfill, or one run for good."""

    id = "kfm-freeze"
    op = "freeze"
    job_type = "operation.freeze"
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
    target = "open"


OPERATIONS: dict[str, type[MoveUpdater]] = {
    "promote": Promote,
    "rollback": Rollback,
    "freeze": Freeze,
    "thaw": Thaw,
}


def _check_digest(text: str) -> None:
    if not is_digest(text):
        raise BadInput("the version is not a digest", hint="a digest looks like sha256:<64 hex digits>")
