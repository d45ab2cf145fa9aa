"""Runs the stages up to the plan: what a run would do, and how that differs from the previous plan."""

from __future__ import annotations

import msgspec

from kfm.engine.acquire import acquire
from kfm.engine.admit import keys_of
from kfm.engine.changes.code_changes import code_changed, code_warnings
from kfm.engine.plan import make
from kfm.engine.preflight import preflight
from kfm.engine.quarantine import quarantine
from kfm.engine.run_context import RunContext
from kfm.errors import PlanImpure
from kfm.model import refs
from kfm.model.keys import input_hash
from kfm.model.records import ErrorNote, SourceRef, Step
from kfm.projections.plan_diff import plan_diff


class PlanPreview(msgspec.Struct, frozen=True):
    """A plan that is made to be shown and not executed."""

    plan_hash: str
    steps: int
    complete: bool
    inputs: list[SourceRef]
    shown: list[Step] | None  # None if there are too many to show
    against: str  # the plan it was compared with: locked | last | nothing
    before: str  # the hash of that plan, or empty
    diff: str  # one line for each change; empty if there is none or nothing to compare with
    warnings: list[ErrorNote]  # those that a run would write into its receipt

    @property
    def changed(self) -> bool:
        """Whether the same inputs and version made another plan before, so that the version must be raised."""
        return self.against == "locked" and self.before != self.plan_hash


def preview_plan(context: RunContext) -> PlanPreview:
    """Return the plan of a run that is not started. Sources are fetched into the object store to be read, so the world
    of the context must be one that writes nothing lasting."""
    updater, state = context.updater, context.world.state
    preflight(context.guards, context.work)
    acquired = acquire(context)
    keys = keys_of(context, acquired.inputs)
    inputs = quarantine(context, acquired).inputs
    made = make(context, inputs, keys.input_hash, guarded=True)
    if make(context, inputs, keys.input_hash, guarded=False, like=made).plan_hash != made.plan_hash:
        raise PlanImpure(
            f"plan() of {updater.id} made two different plans for the same inputs",
            hint="look for sets, object addresses or state kept between calls",
        )
    against, before = _earlier(context, keys.claim_key)
    diff = ""
    if before and before != made.plan_hash:
        old = b"".join(map(context.world.plain, state.journal.plan_chunks(before)))
        diff = plan_diff(old, b"".join(made.chunks)) if made.chunks is not None and old else "the plans differ"
    outcome = "noop" if against == "locked" else "done"
    changed = code_changed(state, updater, context.dataset, context.trigger.partition, keys.claim_key)
    return PlanPreview(
        plan_hash=made.plan_hash,
        steps=made.steps,
        complete=made.complete,
        inputs=inputs,
        shown=None if made.chunks is None else [step for batch in made.each(state) for step in batch],
        against=against,
        before=before,
        diff=diff,
        warnings=code_warnings(updater, outcome) if changed else [],
    )


def inputs_now(context: RunContext) -> list[SourceRef]:
    """Return the sources that a run would read now. Every byte is fetched; ETag and date of a source are ignored."""
    trigger = msgspec.structs.replace(context.trigger, force=True)
    context.work = msgspec.structs.replace(context.work, trigger=trigger)
    preflight(context.guards, context.work)
    return acquire(context).inputs


def plan_hash(context: RunContext, inputs: list[SourceRef]) -> str:
    """Return the hash of the plan that is made from these inputs."""
    protection = context.guards.protection
    if protection is not None:
        from kfm.engine.protected.source_classification import classifier_of, settle_classification

        settle_classification(context, classifier_of(context, protection), inputs)
    return make(context, inputs, input_hash(inputs), guarded=True).plan_hash


def _earlier(context: RunContext, claim_key: str) -> tuple[str, str]:
    """Return the plan that is locked for this work, or else the plan of the current version."""
    state = context.world.state
    locked = state.journal.locked_plan(claim_key)
    if locked is not None:
        return "locked", locked
    current = state.refs.at(refs.processed(context.dataset))
    version = state.ledger.version(context.dataset, current) if current else None
    return ("last", version.plan_hash) if version is not None else ("nothing", "")
