"""Claim the ticks of schedules: each instant triggers one run, however many processes look or are killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kfm.clock import rfc3339
from kfm.errors import KfmError, Refused
from kfm.model import refs
from kfm.model.ports import State, Tx
from kfm.model.records import Receipt, Trigger, TriggerKind
from kfm.model.schedules import ASKING, Schedule, Tick, Why
from kfm.scheduling.anomalies import crossed
from kfm.scheduling.backfill_cursor import is_of_backfill
from kfm.scheduling.dependent_triggers import (
    DependencyGraph,
    is_made_of,
    is_triggered,
    mark_of,
    only_backfills_moved,
    versions_now,
)
from kfm.scheduling.dependent_triggers import is_paused as is_paused
from kfm.scheduling.schedule_ticks import due
from kfm.scheduling.triggers import is_of_preview

GRACE_MS = 90_000  # a process that looks once a minute misses nothing
BATCH = 500  # schedules whose ticks share a transaction
LOOKED_AT = 50  # newest ticks of a schedule that are searched for an older run

Asking = Callable[[Schedule, int], Trigger]
KINDS: dict[Why, TriggerKind] = {"after": "event", "event": "event", "anomaly": "anomaly"}


class WantedTick(NamedTuple):
    """A tick to be claimed."""

    at_ms: int
    why: Why
    missed: int = 0
    mark: str = ""
    because: str = ""  # text for the reason of its trigger


def claim(
    state: State,
    schedules: Sequence[Schedule],
    now_ms: int,
    asking: Asking,
    *,
    mark: Callable[[Schedule], str],
    keep_ms: int,
    tell: Callable[[Schedule, KfmError], None],
    family: DependencyGraph | None = None,
) -> list[Tick]:
    """Claim the due ticks, store their triggers durably in the inbox, and return the ticks.

    A schedule without ticks begins now, or at its start if it catches up on everything. If an author's code cannot be
    loaded, `tell` receives the error; that schedule stays due and stops no other.
    """
    claimed: list[Tick] = []
    for first in range(0, len(schedules), BATCH):
        batch = schedules[first : first + BATCH]
        marks: dict[str, str] = {}
        asked: dict[str, Trigger] = {}
        looked_at = []
        for each in batch:  # loads authors' code, so not inside the transaction
            try:
                if each.static:
                    marks[each.id] = mark(each)
                wanted = wanted_ticks(state, each, now_ms, marks.get(each.id, ""), family)
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
                wanted = wanted_ticks(state, each, now_ms, marks.get(each.id, ""), family)  # others look too
                if each.id in asked or not any(tick.why in ASKING for tick in wanted):
                    forget_ms = now_ms - keep_ms
                    claimed += [keep(tx, each, tick, now_ms, asked.get(each.id), forget_ms) for tick in wanted]
    return claimed


def keep(tx: Tx, schedule: Schedule, wanted: WantedTick, now_ms: int, asked: Trigger | None, forget_ms: int) -> Tick:
    trigger_id = ""
    if wanted.why in ASKING and asked is not None:
        trigger_id = tx.inbox.keep(tick_trigger(asked, schedule, wanted)).trigger_id
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


def wanted_ticks(
    state: State, schedule: Schedule, now_ms: int, mark: str, family: DependencyGraph | None = None
) -> list[WantedTick]:
    """Return the ticks that a schedule wants now. Reads only."""
    last = state.ticks.last(schedule.id)
    paused = is_paused(state, schedule)
    if schedule.on == "event":  # events claim these ticks
        return [WantedTick(now_ms, "begun")] if last is None else []
    if schedule.static:
        if paused or (last is not None and last.mark == mark):
            return []
        return [WantedTick(max(now_ms, last.at_ms + 1 if last else 0), "changed", mark=mark)]
    if schedule.reads:
        return [] if paused else _of_versions(state, schedule, now_ms, last, family)
    if schedule.after or schedule.on == "anomaly":
        return _of_others(state, schedule, now_ms, last, paused=paused)
    found: list[WantedTick] = []
    begin = now_ms if last is None else last.at_ms
    if last is None:
        if schedule.catch_up == "all" and schedule.start_ms is not None:
            begin = min(begin, schedule.start_ms - 1)
        found.append(WantedTick(begin, "begun"))
    return [*found, *_due(state, schedule, now_ms, begin, last, paused=paused)]


def _of_versions(
    state: State, schedule: Schedule, now_ms: int, last: Tick | None, family: DependencyGraph | None
) -> list[WantedTick]:
    """Return one tick for a set of upstream versions that was not triggered yet, once nothing upstream is running. A
    set that the dataset is built from already is only recorded: if an operator rolls such a version back, it stays
    back.
    """
    versions = versions_now(state, schedule.reads)
    if last is None and not versions:  # a backfill triggers its own downstream datasets from here on
        return [WantedTick(now_ms, "begun", mark=mark_of(state, versions))]
    if not versions or is_triggered(last, versions):
        return []
    if family is not None and family.is_under_way(state, schedule.dataset, now_ms):
        return []
    at_ms = max(now_ms, last.at_ms + 1 if last is not None else 0)
    known = is_made_of(state, schedule.dataset, versions) or only_backfills_moved(state, last, schedule.reads)
    why: Why = "begun" if known else "after"
    return [WantedTick(at_ms, why, mark=mark_of(state, versions), because=", ".join(schedule.after))]


def _of_others(state: State, schedule: Schedule, now_ms: int, last: Tick | None, *, paused: bool) -> list[WantedTick]:
    """Return one tick for any number of new upstream versions or unusual runs since the last tick."""
    newest = next((entry.index for entry in state.ledger.entries(reverse=True, limit=1)), 0)
    if last is None:
        return [WantedTick(now_ms, "begun", mark=str(newest))]
    read = int(last.mark or 0)
    why: Why = "after" if schedule.after else "anomaly"
    if why == "after":
        because = ", ".join(schedule.after) if any(is_newer(state, name, read) for name in schedule.after) else ""
    else:
        because = _anomaly(state, schedule, read)
    if not because:
        return []
    at_ms = max(now_ms, last.at_ms + 1)
    return [WantedTick(at_ms, "paused" if paused else why, mark=str(newest), because=because)]


def _due(
    state: State, schedule: Schedule, now_ms: int, begin: int, last: Tick | None, *, paused: bool
) -> list[WantedTick]:
    asked_for = due(schedule, begin, now_ms, GRACE_MS)
    if not asked_for.upto_ms:
        return []
    missed = asked_for.missed + len(asked_for.at_ms) - 1
    if paused or not asked_for.at_ms:
        return [WantedTick(asked_for.upto_ms, "paused" if paused else "missed", missed)]
    if schedule.overlap == "skip" and last is not None and _is_pending(state, schedule, last):
        return [WantedTick(asked_for.upto_ms, "overlap", missed)]
    first = asked_for.at_ms[0]
    return [WantedTick(at, "due", asked_for.missed if at == first else 0) for at in asked_for.at_ms]


def _is_pending(state: State, schedule: Schedule, last: Tick) -> bool:
    """Say whether the last triggered run is pending or running."""
    for tick in (last, *state.ticks.of(schedule.id, limit=10)):
        if tick.trigger_id:
            known = Trigger(kind="schedule", updater_id="", dataset=schedule.dataset, trigger_id=tick.trigger_id)
            return state.inbox.kept(known) is not None
    return False


def _anomaly(state: State, schedule: Schedule, read: int) -> str:
    """Return which datasets crossed which thresholds since ledger index `read`, as rule names without numbers."""
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
    """Return the unfinished runs of a schedule's older ticks if a newer tick waits; they are to be cancelled."""
    ticks = [tick for tick in state.ticks.of(schedule.id, limit=LOOKED_AT) if tick.trigger_id]
    waiting = {each.trigger_id for each in state.inbox.waiting(schedule.dataset)}
    newest = next((n for n, tick in enumerate(ticks) if tick.trigger_id in waiting), len(ticks))
    older = {tick.trigger_id for tick in ticks[newest + 1 :]}
    return [run.run_id for run in state.runs.unfinished(schedule.dataset) if run.trigger.trigger_id in older]


def is_newer(state: State, dataset: str, read: int) -> bool:
    """Say whether a run made another version of the dataset since ledger index `read`. Backfills do not count: they
    trigger their own downstream datasets.
    """
    for entry in state.ledger.entries_of(dataset):
        if entry.index <= read:
            return False
        moved = any(move.ref == refs.processed(dataset) and move.after != move.before for move in entry.moves)
        if moved and not is_of_backfill(state, entry):
            return True
    return False


def tick_trigger(asked: Trigger, schedule: Schedule, wanted: WantedTick) -> Trigger:
    """Return the trigger of a tick. Its time is the schedule's instant, not the moment a process noticed it."""
    if wanted.why in KINDS:
        said = f"schedule {schedule.id}, {wanted.why}"
        reason = f"{said} {wanted.because}" if wanted.why == "after" else f"{said}: {wanted.because}"
        return replace(asked, kind=KINDS[wanted.why], reason=reason)
    at = rfc3339(wanted.at_ms)
    return replace(asked, received_at=at, reason=f"schedule {schedule.id}, {at}")
