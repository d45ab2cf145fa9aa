"""What a thaw catches up with: which kept triggers run, and which are dropped.

A freeze keeps every request. `all` runs them all, `last` the newest of each kind of work, `none` drops them. An
operation that was requested is a decision of its own: only `none` drops it. The plan is shown first, and it is what is
done: triggers that it does not name are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kfm.app.maintenance.maintenance_records import EVERYTHING, record
from kfm.errors import BadInput, Conflict
from kfm.model import refs
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Receipt, Run, Trigger

CatchUp = Literal["none", "last", "all"]
MODES: tuple[CatchUp, ...] = ("none", "last", "all")


class CatchUpPlan(NamedTuple):
    """The kept triggers of a scope, oldest first: those that run after a thaw, and those that are dropped. Runs that
    the freeze interrupted go on, whatever is dropped."""

    runs: list[Trigger]
    drops: list[Trigger]
    goes_on: list[Run]


def plan_catch_up(session: Session, datasets: Sequence[str], mode: CatchUp, level: str = "") -> CatchUpPlan:
    """Return what a thaw of these datasets would catch up with; without any, of everything. With a level, the thaw
    opens that one alone. A trigger that a worker has is not part of it, nor is one that this thaw does not release."""
    asked = datasets or [""]
    waiting = [each for dataset in asked for each in session.state.inbox.waiting(dataset)]
    opened: dict[str, bool] = {}
    for each in waiting:
        if each.dataset not in opened:
            opened[each.dataset] = _is_opened(session, each.dataset, datasets, level)
    kept = [each for each in waiting if opened[each.dataset]]
    goes_on = [each for dataset in asked for each in session.state.runs.unfinished(dataset)]
    if mode == "all":
        return CatchUpPlan(kept, [], goes_on)
    if mode == "none":
        return CatchUpPlan([], kept, goes_on)
    newest = {_work_of(each): each.trigger_id for each in kept}
    runs = [each for each in kept if each.kind == "operation" or newest[_work_of(each)] == each.trigger_id]
    left = {each.trigger_id for each in runs}
    return CatchUpPlan(runs, [each for each in kept if each.trigger_id not in left], goes_on)


def _is_opened(session: Session, dataset: str, datasets: Sequence[str], level: str) -> bool:
    """Return whether a thaw of these datasets, or of everything, releases what is kept of this one: it is frozen now,
    and nothing else keeps it at red afterwards."""
    everything, alone = refs.switches(dataset)
    flags = {ref: refs.is_frozen(session.state.refs.at(ref)) for ref in (everything, alone, *refs.ambers(dataset))}
    thawed = {alone, refs.ambers(dataset)[1]} if datasets else {everything, refs.ambers(dataset)[0]}
    if level:
        thawed = {ref for ref in thawed if ref.startswith(refs.AMBER if level == "amber" else refs.SWITCH)}
    stays_red = any(flags[ref] and ref not in thawed for ref in (everything, alone))
    return any(flags[ref] for ref in thawed) and not stays_red


def _work_of(trigger: Trigger) -> tuple[object, ...]:
    """Return what a trigger asks for, without who, when and why."""
    params = tuple(sorted(trigger.params.items()))
    return trigger.updater_id, trigger.dataset, trigger.partition, trigger.window, params


def drop_triggers(
    session: Session, triggers: Sequence[Trigger], *, dataset: str = EVERYTHING, reason: str, actor: str = ""
) -> Receipt:
    """Record that an operator drops these triggers, then end them. Raise Conflict if a run has begun to answer one of
    them, or has answered it: then none is dropped."""
    _check_idle(session, triggers)
    report = {
        "action": "drop",
        "triggers": [
            {"trigger": each.trigger_id, "dataset": each.dataset, "kind": each.kind, "received_at": each.received_at}
            for each in triggers
        ],
    }
    receipt = record(session, "triggers", report, dataset=dataset, reason=reason, actor=actor)
    with session.state.transaction() as tx:
        _check_idle(session, triggers)
        for each in triggers:
            job = session.state.jobs.get(each.trigger_id)
            if job is not None:
                tx.jobs.cancel(job, session.clock.now_ms())
            else:
                tx.inbox.finish(each, receipt.run_id)
    return receipt


def _check_idle(session: Session, triggers: Sequence[Trigger]) -> None:
    at_work = {run.trigger.trigger_id for run in session.state.runs.unfinished()}
    for each in triggers:
        if session.state.inbox.kept(each) is None or each.trigger_id in at_work:
            raise Conflict(f"a run has taken trigger {each.trigger_id} up", hint="look at `kfm triggers list` again")


def pending_trigger(session: Session, trigger_id: str) -> Trigger:
    """Return the pending trigger with this id. BadInput if there is none."""
    for each in session.state.inbox.waiting():
        if each.trigger_id == trigger_id:
            return each
    raise BadInput(f"no pending trigger is called {printable(trigger_id, 40)}", hint="see `kfm triggers list`")
