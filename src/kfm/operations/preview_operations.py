"""Operations on previews: record one, take it over once it was merged, or remove it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kfm.errors import Moved, Refused
from kfm.model import refs
from kfm.model.names import check_partition, dataset_id, is_digest
from kfm.model.operation_target import Aim, aiming
from kfm.model.preview_records import record_ref
from kfm.model.records import SourceRef, Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import MoveUpdater


class Propose(MoveUpdater):
    """Records a preview, which people then review."""

    id = "kfm-preview"
    op = "preview"
    job_type = "operation.preview"
    approval = "none"  # no public ref moves; the same holds for the other operations here

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        name, target = check_partition(trigger.params.get("branch", "")), trigger.params.get("to", "")
        if not is_digest(target):
            raise Refused("no preview is named", hint="use `kfm preview build BRANCH`")
        return Aim(sources.ref(record_ref(name)), target)


class _Together(MoveUpdater):
    """Moves several refs in one transaction. The trigger names their starting versions where those matter."""

    approval = "none"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        return [each for aim in self.aims(trigger, sources) for each in aiming(*aim)]

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        raise NotImplementedError

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        return next(iter(self.aims(trigger, sources)))

    def kept(self, trigger: Trigger, inputs: Sequence[SourceRef]) -> Trigger:  # noqa: ARG002
        return trigger


class Adopt(_Together):
    """Makes the previewed version the processed one, with the same digest, and removes the preview."""

    id = "kfm-adopt"
    op = "adopt"
    job_type = "operation.adopt"
    counts_as_ingest = True

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        name, said = dataset_id(trigger.dataset), trigger.params
        branch = check_partition(said.get("branch", ""))
        version, base = said.get("version", ""), said.get("base", "")
        made, processed = sources.ref(refs.preview(branch, refs.processed(name))), sources.ref(refs.processed(name))
        if processed.content_hash == version and not made.content_hash:
            return [Aim(processed, version)]  # done before
        if made.content_hash != version or not is_digest(version):
            raise Moved(
                f"{made.name} is at {made.content_hash or 'nothing'}, and the approved one is {version or 'nothing'}",
                hint="read the report again, and have it approved",
            )
        if processed.content_hash != base:
            raise Moved(
                f"{processed.name} is at {processed.content_hash or 'nothing'}, and the preview was made "
                f"from {base or 'nothing'}",
                hint="build the preview again, and have it approved",
            )
        found = [Aim(processed, version), Aim(made, "")]
        for number in range(int(said.get("inputs", "0"))):
            raw = sources.ref(refs.preview(branch, refs.raw(name, number)))
            if raw.content_hash:
                found += [Aim(sources.ref(refs.raw(name, number)), raw.content_hash), Aim(raw, "")]
        held = sources.ref(refs.preview(branch, refs.quarantine(name)))
        kept = sources.ref(refs.quarantine(name))
        if held.content_hash != kept.content_hash:
            found.append(Aim(kept, held.content_hash))
        return [*found, Aim(held, "")] if held.content_hash else found


class Sweep(_Together):
    """Removes the refs of a preview. Their objects stay in the store, because receipts name them."""

    id = "kfm-sweep"
    op = "sweep"
    job_type = "operation.sweep"
    needs_labels = False

    def aims(self, trigger: Trigger, sources: Sources) -> Iterable[Aim]:
        branch = check_partition(trigger.params.get("branch", ""))
        names = trigger.params.get("refs", "").split()
        if not names:
            raise Refused("the request names no preview to remove", hint="use `kfm preview sweep`")
        return [Aim(sources.ref(refs.preview(branch, name)), "") for name in names]
