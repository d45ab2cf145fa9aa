"""The walk up to the plan and no further: what a run would do, and how that differs from before."""

from __future__ import annotations

import msgspec

from kfm.engine.acquire import acquire
from kfm.engine.admit import keys_of
from kfm.engine.code_changes import code_changed, code_warnings
from kfm.engine.plan import make
from kfm.engine.preflight import preflight
from kfm.engine.quarantine import quarantine
from kfm.engine.run_context import Ports, RunContext
from kfm.errors import PlanImpure
from kfm.model import refs
from kfm.model.keys import input_hash
from kfm.model.records import ErrorNote, SourceRef, Step, Trigger
from kfm.model.updater import Updater
from kfm.projections.plan_diff import plan_diff


class PlanPreview(msgspec.Struct, frozen=True):
    """A plan to look at."""

    plan_hash: str
    steps: int
    complete: bool
    inputs: list[SourceRef]
    shown: list[Step] | None  # None: too many to show
    against: str  # what it was compared with: locked | last | nothing
    before: str  # the hash of that plan, or empty
    diff: str  # one line for each change; empty if there is none or nothing to compare with
    warnings: list[ErrorNote]  # as a run of it would tell

    @property
    def changed(self) -> bool:
        """True if the same inputs and version gave another plan before: the version must be bumped."""
        return self.against == "locked" and self.before != self.plan_hash


def preview_plan(trigger: Trigger, updater: Updater, ports: Ports) -> PlanPreview:
    """Needs ports that write nothing lasting: sources are fetched into the store to be read."""
    context = RunContext(trigger, updater, ports, ports.clock.now_ms())
    preflight(context)
    acquired = acquire(context)
    keys = keys_of(context, acquired.inputs)
    inputs = quarantine(context, acquired).inputs
    made = make(context, inputs, keys.input_hash, guarded=True)
    if make(context, inputs, keys.input_hash, guarded=False, like=made).plan_hash != made.plan_hash:
        raise PlanImpure(
            f"plan() of {updater.id} gave two different plans for the same inputs",
            hint="look for sets, object addresses or state kept between calls",
        )
    against, before = _earlier(context, keys.claim_key)
    diff = ""
    if before and before != made.plan_hash:
        old = b"".join(map(context.ports.plain, ports.state.journal.plan_chunks(before)))
        diff = plan_diff(old, b"".join(made.chunks)) if made.chunks is not None and old else "the plans differ"
    outcome = "noop" if against == "locked" else "done"
    changed = code_changed(ports.state, updater, context.dataset, trigger.partition, keys.claim_key)
    return PlanPreview(
        plan_hash=made.plan_hash,
        steps=made.steps,
        complete=made.complete,
        inputs=inputs,
        shown=None if made.chunks is None else [step for batch in made.each(ports.state) for step in batch],
        against=against,
        before=before,
        diff=diff,
        warnings=code_warnings(updater, outcome) if changed else [],
    )


def inputs_now(trigger: Trigger, updater: Updater, ports: Ports) -> list[SourceRef]:
    """What a run would read now, by content: every byte is fetched, and no validator believed."""
    asked = msgspec.structs.replace(trigger, force=True)
    context = RunContext(asked, updater, ports, ports.clock.now_ms())
    preflight(context)
    return acquire(context).inputs


def plan_hash(trigger: Trigger, updater: Updater, ports: Ports, inputs: list[SourceRef]) -> str:
    """Of the plan made of these inputs, and nothing else."""
    context = RunContext(trigger, updater, ports, ports.clock.now_ms())
    if ports.protection is not None:
        from kfm.engine.protected.source_classification import settle_standing, way_of

        settle_standing(context, way_of(context, ports.protection), inputs)
    return make(context, inputs, input_hash(inputs), guarded=True).plan_hash


def _earlier(context: RunContext, claim_key: str) -> tuple[str, str]:
    """The plan locked for exactly this work, else the one that made the version there is now."""
    state = context.ports.state
    locked = state.journal.locked_plan(claim_key)
    if locked is not None:
        return "locked", locked
    current = state.refs.at(refs.processed(context.dataset))
    version = state.ledger.version(context.dataset, current) if current else None
    return ("last", version.plan_hash) if version is not None else ("nothing", "")
