"""Claiming ticks: each instant of a schedule asks for one run, whoever looks first and however often it is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kfm.clock import rfc3339
from kfm.contract.ports import State, Tx
from kfm.contract.records import Trigger
from kfm.contract.schedules import Schedule, Tick, Why
from kfm.orchestration.backfills import is_of_backfill
from kfm.orchestration.ticks import due

GRACE_MS = 90_000  # somebody who looks once a minute misses nothing
BATCH = 500  # schedules whose ticks share a transaction

Asking = Callable[[Schedule, int], Trigger]


def claim(
    state: State,
    schedules: Sequence[Schedule],
    now_ms: int,
    asking: Asking,
    *,
    mark: Callable[[Schedule], str],
    keep_ms: int,
) -> list[Tick]:
    """Ticks that became ours, with their triggers in the inbox: durable on return. A schedule that nobody has seen
    before begins now, or at its start if all of it is to be made up for."""
    claimed: list[Tick] = []
    for first in range(0, len(schedules), BATCH):
        batch = schedules[first : first + BATCH]
        marks = {each.id: mark(each) for each in batch if each.static}  # loads what authors wrote: not inside
        asked = {each.id: asking(each, now_ms) for each in batch}
        with state.transaction() as tx:
            for schedule in batch:
                claimed += Claim(state, tx, schedule, now_ms, asked[schedule.id], keep_ms).all(
                    marks.get(schedule.id, "")
                )
    return claimed


class Claim:
    """Of one schedule, in an open transaction."""

    def __init__(self, state: State, tx: Tx, schedule: Schedule, now_ms: int, asked: Trigger, keep_ms: int) -> None:
        self._state = state
        self._tx = tx
        self._schedule = schedule
        self._now_ms = now_ms
        self._asked = asked
        self._keep_ms = keep_ms

    def all(self, mark: str) -> list[Tick]:
        schedule = self._schedule
        last = self._state.ticks.last(schedule.id)
        paused = is_paused(self._state, schedule)
        if schedule.static:
            if paused or (last is not None and last.mark == mark):
                return []
            return [self._tick(max(self._now_ms, last.at_ms + 1 if last else 0), "changed", mark=mark)]
        if schedule.after:
            return self._after(last, paused=paused)
        found: list[Tick] = []
        if last is None:
            begin = self._now_ms
            if schedule.catch_up == "all" and schedule.start_ms is not None:
                begin = min(begin, schedule.start_ms - 1)
            last = self._tick(begin, "begun")
            found.append(last)
        return [*found, *self._due(last, paused=paused)]

    def _after(self, last: Tick | None, *, paused: bool) -> list[Tick]:
        """New versions of the others, however many, ask for one run. What it reads it reads after this."""
        newest = next((entry.index for entry in self._state.ledger.entries(reverse=True, limit=1)), 0)
        if last is None:
            return [self._tick(self._now_ms, "begun", mark=str(newest))]
        read = int(last.mark or 0)
        if not any(is_newer(self._state, name, read) for name in self._schedule.after):
            return []
        at_ms = max(self._now_ms, last.at_ms + 1)
        return [self._tick(at_ms, "paused" if paused else "after", mark=str(newest))]

    def _due(self, last: Tick, *, paused: bool) -> list[Tick]:
        asked_for = due(self._schedule, last.at_ms, self._now_ms, GRACE_MS)
        if not asked_for.upto_ms:
            return []
        if paused or not asked_for.at_ms:
            missed = asked_for.missed + len(asked_for.at_ms) - 1
            return [self._tick(asked_for.upto_ms, "paused" if paused else "missed", missed=missed)]
        if self._schedule.overlap == "skip" and self._waits(last):
            missed = asked_for.missed + len(asked_for.at_ms) - 1
            return [self._tick(asked_for.upto_ms, "overlap", missed=missed)]
        first = asked_for.at_ms[0]
        return [self._tick(at, "due", missed=asked_for.missed if at == first else 0) for at in asked_for.at_ms]

    def _waits(self, last: Tick) -> bool:
        """Is the run that was asked for last still to come, or at work?"""
        for tick in (last, *self._state.ticks.of(self._schedule.id, limit=10)):
            if tick.trigger_id:
                return self._state.inbox.kept(replace(self._asked, trigger_id=tick.trigger_id)) is not None
        return False

    def _tick(self, at_ms: int, why: Why, *, missed: int = 0, mark: str = "") -> Tick:
        trigger_id = ""
        if why in ("due", "changed", "after"):
            trigger_id = self._tx.inbox.keep(told(self._asked, self._schedule, at_ms)).trigger_id
        tick = Tick(
            schedule_id=self._schedule.id,
            at_ms=at_ms,
            claimed_ms=self._now_ms,
            why=why,
            trigger_id=trigger_id,
            missed=missed,
            mark=mark,
        )
        self._tx.ticks.keep(tick, forget_before_ms=self._now_ms - self._keep_ms)
        return tick


def is_paused(state: State, schedule: Schedule) -> bool:
    """By its declaration, or by its switch; whatever is not plainly open is set."""
    return schedule.paused or state.refs.at(f"switch/schedule/{schedule.id}") not in ("", "open")


def is_newer(state: State, dataset: str, read: int) -> bool:
    """Did a run of it make another version since the ledger was read? A backfill tells of its own."""
    for entry in state.ledger.entries_of(dataset):
        if entry.index <= read:
            return False
        moved = any(move.ref == f"processed/{dataset}" and move.after != move.before for move in entry.moves)
        if moved and not is_of_backfill(state, entry):
            return True
    return False


def told(asked: Trigger, schedule: Schedule, at_ms: int) -> Trigger:
    """The trigger of a tick: asked for at the instant of the schedule, whoever noticed it and when."""
    at = rfc3339(at_ms)
    if schedule.after:
        return replace(asked, kind="event", reason=f"schedule {schedule.id}, after {', '.join(schedule.after)}")
    return replace(asked, received_at=at, reason=f"schedule {schedule.id}, {at}")
