"""Triggers request a run; the inbox keeps each until its run has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kfm.clock import Clock, rfc3339
from kfm.model import refs
from kfm.model.names import check_id, dataset_id
from kfm.model.ports import State, Tx
from kfm.model.preview_records import preview_of
from kfm.model.records import KEEP_MS, Delivery, EndedTrigger, LedgerEntry, Trigger, TriggerKind
from kfm.model.updater import Updater

if TYPE_CHECKING:
    from kfm.model.jobs.job_records import JobState
    from kfm.scheduling.webhook_requests import Message

DAY_MS = 86_400_000
BATCH = 500  # rows dropped in one transaction
MOST = 10_000  # rows dropped per call, so that the caller does not wait long


def update_trigger(
    updater: Updater,
    dataset: str,
    clock: Clock,
    *,
    actor: str,
    kind: TriggerKind = "manual",
    window: str = "",
    partition: str = "",
    force: bool = False,
    abandon: bool = False,
    allow_deletions: int = 0,
    reason: str = "",
) -> Trigger:
    """Return a trigger for an update of a dataset."""
    return Trigger(
        kind=kind,
        updater_id=updater.id,
        dataset=dataset_id(dataset),
        window=window,
        partition=partition,
        force=force,
        abandon=abandon,
        allow_deletions=allow_deletions,
        reason=reason,
        actor=actor,
        received_at=rfc3339(clock.now_ms()),
    )


def operation_trigger(
    operation: Updater, dataset: str, params: dict[str, str], clock: Clock, *, actor: str, reason: str
) -> Trigger:
    """Return a trigger for an operation. Its target may be a scope that is not a dataset, such as `global`."""
    return Trigger(
        kind="operation",
        updater_id=operation.id,
        dataset=check_id(dataset.removeprefix("kfm://dataset/"), "dataset"),
        params=params,
        reason=reason,
        actor=actor,
        received_at=rfc3339(clock.now_ms()),
    )


def is_of_preview(state: State, entry: LedgerEntry) -> bool:
    """Say whether a ledger entry is a run of a branch preview, which says nothing about the installation."""
    if any(move.ref.startswith(refs.PREVIEW) for move in entry.moves):
        return True
    run = state.runs.get(entry.run_id)
    return run is not None and bool(preview_of(run.trigger))


def _no_note(_tx: Tx, _trigger: Trigger) -> None:
    """Record nothing: the default of `note`."""


def take(
    state: State,
    messages: Sequence[Message],
    told: Callable[[Message], list[Trigger]],
    now_ms: int,
    note: Callable[[Tx, Trigger], None] = _no_note,
) -> list[list[str] | None]:
    """Store the triggers of verified messages in one durable transaction. Return for each message the ids of its
    triggers; None if it was received before, or is so old that its id may have been dropped. The caller acknowledges
    the messages only after this returns.
    """
    answers: list[list[str] | None] = []
    asked_for = [
        told(message) if message.wanted else [] for message in messages
    ]  # loads what authors wrote: not inside
    with state.transaction() as tx:
        for message, theirs in zip(messages, asked_for, strict=True):
            known = (state.inbox.delivery(message.source_id, each) for each in message.delivery_ids)
            if is_past(state, message) or any(delivery is not None for delivery in known):
                answers.append(None)
                continue
            kept = []
            for trigger in (tx.inbox.keep(each) for each in theirs):
                note(tx, trigger)
                kept.append(trigger.trigger_id)
            for each in message.delivery_ids:
                tx.inbox.take_delivery(
                    Delivery(
                        source_id=message.source_id,
                        delivery_id=each,
                        trigger_ids=tuple(kept),
                        received_ms=now_ms,
                        expires_ms=message.expires_ms,
                    )
                )
            answers.append(kept)
    return answers


def is_past(state: State, message: Message) -> bool:
    """Return whether a message is so old that its id would have been dropped by now. The record of dropped ids decides,
    not today's clock."""
    return message.sent_ms is not None and message.sent_ms <= state.inbox.dropped_until()


def prunable(state: State, now_ms: int, keep_ms: int) -> list[Delivery | EndedTrigger | JobState]:
    """Return the triggers, message ids and jobs that `prune` would drop now. It drops at most so many at a time."""
    before_ms, before = now_ms - keep_ms, rfc3339(now_ms - keep_ms)
    old: list[Delivery | EndedTrigger | JobState] = []
    old += islice((each for each in state.inbox.deliveries() if 0 < each.expires_ms < before_ms), MOST)
    old += islice((each for each in state.inbox.all_ended() if each.trigger.received_at < before), MOST)
    if state.has_jobs():
        old += islice((job for job in state.jobs.done() if job.settled_ms < before_ms), MOST)
    return old


def prune(state: State, now_ms: int, keep_ms: int, *, again: bool = False) -> None:
    """Drop triggers and jobs that ended, and ids of messages whose signed time is stale, once they are older than
    `keep_ms`. This runs once a day, or always with `again`.

    An id is dropped in one transaction with the note of how far ids were dropped. A message without a signed time keeps
    its id for ever.
    """
    inbox = state.inbox
    if not again and abs(now_ms - inbox.pruned_at()) < DAY_MS:
        return
    old = prunable(state, now_ms, keep_ms)
    for start in range(0, len(old), BATCH):
        with state.transaction(durable=False) as tx:
            for row in old[start : start + BATCH]:
                if isinstance(row, EndedTrigger):
                    tx.inbox.forget_ended(row)
                elif not isinstance(row, Delivery):
                    tx.jobs.forget(row)
                elif inbox.delivery(row.source_id, row.delivery_id) == row:  # its sender may have sent it again
                    tx.inbox.forget_delivery(row)
                    tx.inbox.note_dropped(row.expires_ms - KEEP_MS)
    if len(old) < MOST and not inbox.is_empty():
        with state.transaction(durable=False) as tx:
            tx.inbox.note_pruned(now_ms)


def keep(state: State, trigger: Trigger) -> Trigger:
    """Store a trigger durably and return it with its id. The caller acknowledges it only after this returns."""
    with state.transaction() as tx:
        return tx.inbox.keep(trigger)
