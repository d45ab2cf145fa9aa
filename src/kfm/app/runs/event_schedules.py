"""Schedules `on: event`: a webhook or a watched source reports a change, and a run is triggered.

The tick is stored in the transaction that stores the trigger, so that the result of an event can be found like the
result of a timed tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from kfm.app.runs.due_schedules import is_paused, schedules_of
from kfm.app.runs.settlement import keep_ms
from kfm.app.runs.trigger_request import new_trigger
from kfm.model.records import Trigger, TriggerKind
from kfm.model.schedules import Schedule, Tick

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.ports import Tx

_known: WeakKeyDictionary[Session, dict[str, Schedule]] = WeakKeyDictionary()


def on_events(session: Session) -> dict[str, Schedule]:
    """Return the event schedule of each dataset that has one. A session reads them once."""
    if session not in _known:
        _known[session] = {each.dataset: each for each in schedules_of(session.resolved) if each.on == "event"}
    return _known[session]


def event_trigger(session: Session, dataset: str, kind: TriggerKind, *, actor: str, reason: str) -> Trigger | None:
    """Return the trigger for an event of a dataset. None if its schedule is paused or outside its time: then the event
    is logged and dropped."""
    schedule = on_events(session).get(dataset)
    if schedule is None:
        return new_trigger(session, dataset, kind=kind, actor=actor, reason=reason)
    now_ms = session.clock.now_ms()
    begun = schedule.start_ms is None or now_ms >= schedule.start_ms
    if is_paused(session.state, schedule) or not begun or (schedule.end_ms is not None and now_ms > schedule.end_ms):
        session.log.event("event.passed", schedule=schedule.id)
        return None
    reason = f"schedule {schedule.id}, event: {reason}"
    trigger = new_trigger(session, dataset, kind="event", actor=actor, reason=reason, window=schedule.window)
    return replace(trigger, pool=schedule.pool)


def note_event(session: Session, tx: Tx, trigger: Trigger) -> None:
    """Store the tick of an event, in the transaction that stored its trigger."""
    schedule = on_events(session).get(trigger.dataset)
    if schedule is None or trigger.kind != "event":
        return
    now_ms, last = session.clock.now_ms(), session.state.ticks.last(schedule.id)
    at_ms = max(now_ms, last.at_ms + 1 if last is not None else 0)
    tick = Tick(schedule_id=schedule.id, at_ms=at_ms, claimed_ms=now_ms, why="event", trigger_id=trigger.trigger_id)
    tx.ticks.keep(tick, forget_before_ms=now_ms - keep_ms(session))
