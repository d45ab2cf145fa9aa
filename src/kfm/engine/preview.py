"""The walk up to the plan and no further: what a run would do, and how that differs from before."""

from __future__ import annotations

import msgspec

from kfm.contract.keys import input_hash
from kfm.contract.records import ErrorNote, SourceRef, Step, Trigger
from kfm.contract.updater import Updater
from kfm.engine.acquire import acquire
from kfm.engine.admit import keys_of
from kfm.engine.changes import code_changed, code_warnings
from kfm.engine.plan import make
from kfm.engine.quarantine import quarantine
from kfm.engine.walk import Ports, Walk
from kfm.errors import PlanImpure
from kfm.projections.plans import plan_diff


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
    walk = Walk(trigger, updater, ports, ports.clock.now_ms())
    acquired = acquire(walk)
    keys = keys_of(walk, acquired.inputs)
    inputs = quarantine(walk, acquired).inputs
    made = make(walk, inputs, keys.input_hash, guarded=True)
    if make(walk, inputs, keys.input_hash, guarded=False, like=made).plan_hash != made.plan_hash:
        raise PlanImpure(
            f"plan() of {updater.id} gave two different plans for the same inputs",
            hint="look for sets, object addresses or state kept between calls",
        )
    against, before = _earlier(walk, keys.claim_key)
    diff = ""
    if before and before != made.plan_hash:
        old = b"".join(map(walk.ports.plain, ports.state.journal.plan_chunks(before)))
        diff = plan_diff(old, b"".join(made.chunks)) if made.chunks is not None and old else "the plans differ"
    outcome = "noop" if against == "locked" else "done"
    changed = code_changed(ports.state, updater, walk.dataset, trigger.partition, keys.claim_key)
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
    return acquire(Walk(asked, updater, ports, ports.clock.now_ms())).inputs


def plan_hash(trigger: Trigger, updater: Updater, ports: Ports, inputs: list[SourceRef]) -> str:
    """Of the plan made of these inputs, and nothing else."""
    walk = Walk(trigger, updater, ports, ports.clock.now_ms())
    if ports.protection is not None:
        from kfm.engine.wayin import settle_standing, way_of

        settle_standing(walk, way_of(walk, ports.protection), inputs)
    return make(walk, inputs, input_hash(inputs), guarded=True).plan_hash


def _earlier(walk: Walk, claim_key: str) -> tuple[str, str]:
    """The plan locked for exactly this work, else the one that made the version there is now."""
    state = walk.ports.state
    locked = state.journal.locked_plan(claim_key)
    if locked is not None:
        return "locked", locked
    current = state.refs.at(f"processed/{walk.dataset}")
    version = state.ledger.version(walk.dataset, current) if current else None
    return ("last", version.plan_hash) if version is not None else ("nothing", "")
