"""Claiming ticks: each instant of a schedule asks for one run, whoever looks first and however often it is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kfm.clock import rfc3339
from kfm.errors import KfmError, Refused
from kfm.model.ports import State, Tx
from kfm.model.records import Receipt, Trigger, TriggerKind
from kfm.model.schedules import ASKING, Schedule, Tick, Why
from kfm.scheduling.anomalies import crossed
from kfm.scheduling.backfill_cursor import is_of_backfill
from kfm.scheduling.dependent_triggers import Family, is_asked_for, is_made_of, is_told, mark_of, versions_now
from kfm.scheduling.dependent_triggers import is_paused as is_paused
from kfm.scheduling.schedule_ticks import due
from kfm.scheduling.triggers import is_of_preview

GRACE_MS = 90_000  # somebody who looks once a minute misses nothing
BATCH = 500  # schedules whose ticks share a transaction
LOOKED_AT = 50  # ticks of a schedule among which an older run is looked for

Asking = Callable[[Schedule, int], Trigger]
KINDS: dict[Why, TriggerKind] = {"after": "event", "event": "event", "anomaly": "anomaly"}


class Wanted(NamedTuple):
    """A tick to be claimed."""

    at_ms: int
    why: Why
    missed: int = 0
    mark: str = ""
    because: str = ""  # for the reason of its trigger


def claim(
    state: State,
    schedules: Sequence[Schedule],
    now_ms: int,
    asking: Asking,
    *,
    mark: Callable[[Schedule], str],
    keep_ms: int,
    tell: Callable[[Schedule, KfmError], None],
    family: Family | None = None,
) -> list[Tick]:
    """Ticks that became ours, with their triggers in the inbox: durable on return. A schedule that nobody has seen
    before begins now, or at its start if all of it is to be made up for. Where what an author wrote cannot be loaded,
    `tell` hears of it: that one stays due, and stops no other."""
    claimed: list[Tick] = []
    for first in range(0, len(schedules), BATCH):
        batch = schedules[first : first + BATCH]
        marks: dict[str, str] = {}
        asked: dict[str, Trigger] = {}
        looked_at = []
        for each in batch:  # loads what authors wrote: not inside
            try:
                if each.static:
                    marks[each.id] = mark(each)
                wanted = planned(state, each, now_ms, marks.get(each.id, ""), family)
                if any(tick.why in ASKING for tick in wanted):
                    asked[each.id] = asking(each, now_ms)
            except Refused as problem:
                tell(each, problem)
                continue
            if wanted:
                looked_at.append(each)
        if not looked_at:
            continue
        with state.transaction() as tx:
            for each in looked_at:
                wanted = planned(state, each, now_ms, marks.get(each.id, ""), family)  # as it is now: others look too
                if each.id in asked or not any(tick.why in ASKING for tick in wanted):
                    forget_ms = now_ms - keep_ms
                    claimed += [keep(tx, each, tick, now_ms, asked.get(each.id), forget_ms) for tick in wanted]
    return claimed


def keep(tx: Tx, schedule: Schedule, wanted: Wanted, now_ms: int, asked: Trigger | None, forget_ms: int) -> Tick:
    trigger_id = ""
    if wanted.why in ASKING and asked is not None:
        trigger_id = tx.inbox.keep(told(asked, schedule, wanted)).trigger_id
    tick = Tick(
        schedule_id=schedule.id,
        at_ms=wanted.at_ms,
        claimed_ms=now_ms,
        why=wanted.why,
        trigger_id=trigger_id,
        missed=wanted.missed,
        mark=wanted.mark,
    )
    tx.ticks.keep(tick, forget_before_ms=forget_ms)
    return tick


def planned(state: State, schedule: Schedule, now_ms: int, mark: str, family: Family | None = None) -> list[Wanted]:
    """What a schedule asks for now. Looks, and changes nothing."""
    last = state.ticks.last(schedule.id)
    paused = is_paused(state, schedule)
    if schedule.on == "event":  # its ticks come with its events
        return [Wanted(now_ms, "begun")] if last is None else []
    if schedule.static:
        if paused or (last is not None and last.mark == mark):
            return []
        return [Wanted(max(now_ms, last.at_ms + 1 if last else 0), "changed", mark=mark)]
    if schedule.reads:
        return [] if paused else _of_versions(state, schedule, now_ms, last, family)
    if schedule.after or schedule.on == "anomaly":
        return _of_others(state, schedule, now_ms, last, paused=paused)
    found: list[Wanted] = []
    begin = now_ms if last is None else last.at_ms
    if last is None:
        if schedule.catch_up == "all" and schedule.start_ms is not None:
            begin = min(begin, schedule.start_ms - 1)
        found.append(Wanted(begin, "begun"))
    return [*found, *_due(state, schedule, now_ms, begin, last, paused=paused)]


def _of_versions(
    state: State, schedule: Schedule, now_ms: int, last: Tick | None, family: Family | None
) -> list[Wanted]:
    """A set of versions that was not asked for asks for one run, once nothing above is under way. One that it is made
    of already is only remembered: whoever takes that back, takes it back for good."""
    versions = versions_now(state, schedule.reads)
    if last is None and not versions:  # what a backfill makes of them from here on is its own to tell
        return [Wanted(now_ms, "begun", mark=mark_of(state, versions))]
    if not versions or is_asked_for(last, versions):
        return []
    if family is not None and family.is_under_way(state, schedule.dataset, now_ms):
        return []
    at_ms = max(now_ms, last.at_ms + 1 if last is not None else 0)
    known = is_made_of(state, schedule.dataset, versions) or is_told(state, last, schedule.reads)
    why: Why = "begun" if known else "after"
    return [Wanted(at_ms, why, mark=mark_of(state, versions), because=", ".join(schedule.after))]


def _of_others(state: State, schedule: Schedule, now_ms: int, last: Tick | None, *, paused: bool) -> list[Wanted]:
    """New versions of others, or runs that are not as usual, however many, ask for one run. What it reads it reads
    after this."""
    newest = next((entry.index for entry in state.ledger.entries(reverse=True, limit=1)), 0)
    if last is None:
        return [Wanted(now_ms, "begun", mark=str(newest))]
    read = int(last.mark or 0)
    why: Why = "after" if schedule.after else "anomaly"
    if why == "after":
        because = ", ".join(schedule.after) if any(is_newer(state, name, read) for name in schedule.after) else ""
    else:
        because = _anomaly(state, schedule, read)
    if not because:
        return []
    at_ms = max(now_ms, last.at_ms + 1)
    return [Wanted(at_ms, "paused" if paused else why, mark=str(newest), because=because)]


def _due(state: State, schedule: Schedule, now_ms: int, begin: int, last: Tick | None, *, paused: bool) -> list[Wanted]:
    asked_for = due(schedule, begin, now_ms, GRACE_MS)
    if not asked_for.upto_ms:
        return []
    missed = asked_for.missed + len(asked_for.at_ms) - 1
    if paused or not asked_for.at_ms:
        return [Wanted(asked_for.upto_ms, "paused" if paused else "missed", missed)]
    if schedule.overlap == "skip" and last is not None and _waits(state, schedule, last):
        return [Wanted(asked_for.upto_ms, "overlap", missed)]
    first = asked_for.at_ms[0]
    return [Wanted(at, "due", asked_for.missed if at == first else 0) for at in asked_for.at_ms]


def _waits(state: State, schedule: Schedule, last: Tick) -> bool:
    """Is the run that was asked for last still to come, or at work?"""
    for tick in (last, *state.ticks.of(schedule.id, limit=10)):
        if tick.trigger_id:
            known = Trigger(kind="schedule", updater_id="", dataset=schedule.dataset, trigger_id=tick.trigger_id)
            return state.inbox.kept(known) is not None
    return False


def _anomaly(state: State, schedule: Schedule, read: int) -> str:
    """Which datasets crossed which threshold since the ledger was read; names of rules, and never a number."""
    found: dict[str, None] = {}
    for name in schedule.of or (schedule.dataset,):
        new: list[tuple[int, Receipt]] = []
        for entry in state.ledger.entries_of(name):
            ours = entry.op_type == "ingest" and not is_of_preview(state, entry)
            receipt = state.ledger.receipt(entry.run_id) if ours else None
            if receipt is None or receipt.status == "SKIPPED" or receipt.dry_run:
                continue
            new.append((entry.index, receipt))
            if entry.index <= read:
                break
        for n, (index, receipt) in enumerate(new):
            before = new[n + 1][1] if n + 1 < len(new) else None
            if index > read:
                found.update(dict.fromkeys(f"{rule} of {name}" for rule in crossed(schedule.when, receipt, before)))
    return ", ".join(found)


def older_runs(state: State, schedule: Schedule) -> list[str]:
    """Runs at work for an older instant of it, while a newer one waits."""
    ticks = [tick for tick in state.ticks.of(schedule.id, limit=LOOKED_AT) if tick.trigger_id]
    waiting = {each.trigger_id for each in state.inbox.waiting(schedule.dataset)}
    newest = next((n for n, tick in enumerate(ticks) if tick.trigger_id in waiting), len(ticks))
    older = {tick.trigger_id for tick in ticks[newest + 1 :]}
    return [run.run_id for run in state.runs.unfinished(schedule.dataset) if run.trigger.trigger_id in older]


def is_newer(state: State, dataset: str, read: int) -> bool:
    """Did a run of it make another version since the ledger was read? A backfill tells of its own."""
    for entry in state.ledger.entries_of(dataset):
        if entry.index <= read:
            return False
        moved = any(move.ref == f"processed/{dataset}" and move.after != move.before for move in entry.moves)
        if moved and not is_of_backfill(state, entry):
            return True
    return False


def told(asked: Trigger, schedule: Schedule, wanted: Wanted) -> Trigger:
    """The trigger of a tick: asked for at the instant of the schedule, whoever noticed it and when."""
    if wanted.why in KINDS:
        said = f"schedule {schedule.id}, {wanted.why}"
        reason = f"{said} {wanted.because}" if wanted.why == "after" else f"{said}: {wanted.because}"
        return replace(asked, kind=KINDS[wanted.why], reason=reason)
    at = rfc3339(wanted.at_ms)
    return replace(asked, received_at=at, reason=f"schedule {schedule.id}, {at}")
