"""Roll back: a ref returns to a version that it had before, or is withdrawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kfm.errors import Moved, Refused
from kfm.model import refs
from kfm.model.names import dataset_id
from kfm.model.operation_target import Aim
from kfm.model.records import RefEntry, RefMove, Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import ALSO, NOTHING, MoveUpdater, also_named, check_digest
from kfm.projections.live_versions import withdrawn_versions


class Rollback(MoveUpdater):
    """Undo the last move of a ref, or move it to a version it had before.

    A rollback that names no version never undoes another rollback: the same request again, after a kill past its
    commit, would publish what it took back. A caller who wants to go further back, or forward again, names the version.
    `nothing` withdraws the ref, and is named too.
    """

    id = "kfm-rollback"
    op = "rollback"
    job_type = "operation.rollback"
    asks_custodians = True

    def takes_away(self, trigger: Trigger) -> bool:
        return trigger.params.get("to") == NOTHING

    def asks_gates(self, trigger: Trigger) -> bool:
        """Return whether the rollback makes a version public: only then a gate decides about it."""
        ref = trigger.params.get("ref", "")
        return not self.takes_away(trigger) and (not ref or ref.startswith(refs.PUBLISHED))

    def action(self, move: RefMove) -> str:
        return self.op if move.after else "withdraw"

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        """Return the ref that goes back, and those that go back with it: hotfixes, and what was made of the version."""
        first = self.aim(trigger, sources)
        closes = self.takes_away(trigger)
        return [first, *(_going_along(move, sources, closes) for move in also_named(trigger.params.get(ALSO, "")))]

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
                + f"to withdraw it altogether: `kfm rollback {name} --to nothing --reason …`",
            )
        if target == NOTHING:
            if not ref.startswith(refs.PUBLISHED):
                raise Refused(f"{ref} is not published, so it cannot be withdrawn")
            return Aim(sources.ref(ref), "")
        check_digest(target)
        if all(target not in (entry.before, entry.after) for entry in entries):
            raise Refused(f"{ref} was never at {target}", hint=f"see `kfm refs history {ref}`")
        taken_back = withdrawn_versions(entries).get(target) if ref.startswith(refs.PUBLISHED) else None
        if taken_back is not None and not trigger.reason.strip():
            raise Refused(
                f"{name} {target[:19]} was withdrawn by {taken_back.actor} at {taken_back.ts}",
                hint=f"it is published again only with a reason: `kfm rollback {name} --to {target[7:23]} --reason …`",
            )
        return Aim(sources.ref(ref), target)


def _going_along(move: RefMove, sources: Sources, closes: bool) -> Aim:
    """Return the target of a ref that goes back with another one. Raise Moved if it is not where the request says, and
    Refused if it was never at its target, or if the request would publish and withdraw at once."""
    ref, entries = sources.ref(move.ref), sources.history(move.ref)
    if not move.ref.startswith((refs.PUBLISHED, refs.HOTFIX)):
        raise Refused(f"{move.ref} cannot go back with another ref")
    if ref.content_hash != move.before:
        raise Moved(
            f"{move.ref} has moved since this was requested",
            hint=f"look at `kfm refs history {move.ref}`, and request it again if it is still wanted",
        )
    if all(move.after not in (entry.before, entry.after) for entry in entries):
        raise Refused(f"{move.ref} was never at {move.after or NOTHING}", hint=f"see `kfm refs history {move.ref}`")
    if move.ref.startswith(refs.PUBLISHED):
        name = refs.parse(move.ref).dataset
        if closes != (not move.after):
            raise Refused(
                f"{name} would be {'published' if closes else 'withdrawn'} by this rollback",
                hint=f"withdraw it by itself: `kfm rollback {name} --to nothing --reason …`",
            )
        if move.after in withdrawn_versions(entries):
            raise Refused(
                f"{name} {move.after[:19]} was withdrawn",
                hint=f"it is published again only by itself: `kfm rollback {name} --to {move.after[7:23]} --reason …`",
            )
    return Aim(ref, move.after)


def _rolled_back_already(name: str, entries: Sequence[RefEntry]) -> Refused:
    """Return the error for a second rollback without a version. Its hint names the command to go forward again or
    further back."""
    last = entries[-1]
    ref = "" if last.ref.startswith(refs.PUBLISHED) else f" --ref {last.ref}"
    what = "to go forward again" if last.before else "to withdraw it again"
    return Refused(
        f"{last.ref} was rolled back already, from {last.before or 'nothing'} to {last.after or 'nothing'}",
        hint=f"{what}: `kfm rollback {name}{ref} --to {last.before[:23] or 'nothing'} --reason …`; "
        f"any other version is named with --to as well, see `kfm refs history {last.ref}`",
    )
