"""Facts that ask for a run, and the inbox that keeps them until one has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kfm.clock import Clock, rfc3339
from kfm.model.names import check_id, dataset_id
from kfm.model.ports import State, Tx
from kfm.model.preview_records import PREVIEW, preview_of
from kfm.model.records import KEEP_MS, Delivery, EndedTrigger, LedgerEntry, Trigger, TriggerKind
from kfm.model.updater import Updater

if TYPE_CHECKING:
    from kfm.scheduling.webhook_signatures import Message

DAY_MS = 86_400_000
BATCH = 500  # rows that are dropped in one transaction
MOST = 10_000  # of each kind at a time: whoever settles must not wait for more


def asked(
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
    """Someone asks for a dataset to be updated."""
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


def ordered(
    operation: Updater, dataset: str, params: dict[str, str], clock: Clock, *, actor: str, reason: str
) -> Trigger:
    """Someone orders an operation. Its dataset may be a scope that is no dataset, such as `global`."""
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
    """Was it a run of the preview of a branch? Then it says nothing of the installation."""
    if any(move.ref.startswith(PREVIEW) for move in entry.moves):
        return True
    run = state.runs.get(entry.run_id)
    return run is not None and bool(preview_of(run.trigger))


def _unnoted(_tx: Tx, _trigger: Trigger) -> None:
    """Nothing more to be kept of it."""


def take(
    state: State,
    messages: Sequence[Message],
    told: Callable[[Message], list[Trigger]],
    now_ms: int,
    note: Callable[[Tx, Trigger], None] = _unnoted,
) -> list[list[str] | None]:
    """Put the triggers of verified messages into the inbox, all in one durable transaction: for each message the
    ids of its triggers, or None if it was taken before, or may have been: its id would have been dropped by now.
    Only when this returns may they be acknowledged."""
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
    """Was the id of such a message dropped, if there was one? By what was dropped, not by the clock of today."""
    return message.sent_ms is not None and message.sent_ms <= state.inbox.dropped_until()


def prune(state: State, now_ms: int, keep_ms: int, *, again: bool = False) -> None:
    """Drop triggers that ended, and ids of messages that are stale by their own signed time, once they are older
    than this. Looks for them once a day, or `again`.

    An id is dropped in one transaction with the note up to when ids were. What signs no time is never dropped.
    """
    inbox = state.inbox
    if not again and abs(now_ms - inbox.pruned_at()) < DAY_MS:
        return
    before_ms, before = now_ms - keep_ms, rfc3339(now_ms - keep_ms)
    old: list[Delivery | EndedTrigger] = []
    old += islice((each for each in inbox.deliveries() if 0 < each.expires_ms < before_ms), MOST)
    old += islice((each for each in inbox.all_ended() if each.trigger.received_at < before), MOST)
    for start in range(0, len(old), BATCH):
        with state.transaction(durable=False) as tx:
            for row in old[start : start + BATCH]:
                if isinstance(row, EndedTrigger):
                    tx.inbox.forget_ended(row)
                elif inbox.delivery(row.source_id, row.delivery_id) == row:  # its sender may have sent it anew
                    tx.inbox.forget_delivery(row)
                    tx.inbox.note_dropped(row.expires_ms - KEEP_MS)
    if len(old) < MOST and not inbox.is_empty():
        with state.transaction(durable=False) as tx:
            tx.inbox.note_pruned(now_ms)


def keep(state: State, trigger: Trigger) -> Trigger:
    """Put a trigger into the inbox, with an id. Durable on return: only now may it be acknowledged."""
    with state.transaction() as tx:
        return tx.inbox.keep(trigger)
