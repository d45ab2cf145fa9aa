"""Schedules `on: event`: a webhook or a watched source says that something changed, and a run is asked for.

Its tick is kept in the transaction that keeps its trigger, so that what came of an event can be looked up as what came
of an instant can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from kfm.contract.records import Trigger, TriggerKind
from kfm.contract.schedules import Schedule, Tick
from kfm.house.scheduling import is_paused, schedules_of

if TYPE_CHECKING:
    from kfm.contract.ports import Tx
    from kfm.house.opening import House

_known: WeakKeyDictionary[House, dict[str, Schedule]] = WeakKeyDictionary()


def on_events(house: House) -> dict[str, Schedule]:
    """The schedule of each dataset that has one; read once for an open house."""
    if house not in _known:
        _known[house] = {each.dataset: each for each in schedules_of(house.resolved) if each.on == "event"}
    return _known[house]


def asked_by(house: House, dataset: str, kind: TriggerKind, *, actor: str, reason: str) -> Trigger | None:
    """What such a fact asks for; None: its schedule is held, and the event passes as an instant would."""
    schedule = on_events(house).get(dataset)
    if schedule is None:
        return house.trigger(dataset, kind=kind, actor=actor, reason=reason)
    now_ms = house.clock.now_ms()
    begun = schedule.start_ms is None or now_ms >= schedule.start_ms
    if is_paused(house.state, schedule) or not begun or (schedule.end_ms is not None and now_ms > schedule.end_ms):
        house.log.event("event.passed", schedule=schedule.id)
        return None
    reason = f"schedule {schedule.id}, event: {reason}"
    asked = house.trigger(dataset, kind="event", actor=actor, reason=reason, window=schedule.window)
    return replace(asked, pool=schedule.pool)


def note_event(house: House, tx: Tx, trigger: Trigger) -> None:
    """The tick of an event whose trigger was just kept."""
    schedule = on_events(house).get(trigger.dataset)
    if schedule is None or trigger.kind != "event":
        return
    now_ms, last = house.clock.now_ms(), house.state.ticks.last(schedule.id)
    at_ms = max(now_ms, last.at_ms + 1 if last is not None else 0)
    tick = Tick(schedule_id=schedule.id, at_ms=at_ms, claimed_ms=now_ms, why="event", trigger_id=trigger.trigger_id)
    tx.ticks.keep(tick, forget_before_ms=now_ms - house.keep_ms)
