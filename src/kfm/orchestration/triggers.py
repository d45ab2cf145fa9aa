"""Facts that ask for a run, and the inbox that keeps them until one has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kfm.clock import Clock, rfc3339
from kfm.contract.names import check_id, dataset_id
from kfm.contract.ports import State
from kfm.contract.records import Delivery, Trigger, TriggerKind
from kfm.contract.updater import Updater

if TYPE_CHECKING:
    from kfm.orchestration.webhooks import Message


def asked(
    updater: Updater,
    dataset: str,
    clock: Clock,
    *,
    actor: str,
    kind: TriggerKind = "manual",
    window: str = "",
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


def take(
    state: State, messages: Sequence[Message], told: Callable[[Message], list[Trigger]], now_ms: int
) -> list[list[str] | None]:
    """Put the triggers of verified messages into the inbox, all in one durable transaction: for each message the
    ids of its triggers, or None if it was taken before. Only when this returns may they be acknowledged."""
    answers: list[list[str] | None] = []
    asked_for = [
        told(message) if message.wanted else [] for message in messages
    ]  # loads what authors wrote: not inside
    with state.transaction() as tx:
        for message, theirs in zip(messages, asked_for, strict=True):
            known = (state.inbox.delivery(message.source_id, each) for each in message.delivery_ids)
            if any(delivery is not None for delivery in known):
                answers.append(None)
                continue
            kept = [tx.inbox.keep(trigger).trigger_id for trigger in theirs]
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


def forget(state: State, now_ms: int) -> int:
    """Drop the ids of messages that are stale by their own signed time by now; returns how many."""
    old = [each for each in state.inbox.deliveries() if 0 < each.expires_ms < now_ms]
    if old:
        with state.transaction() as tx:
            for each in old:
                tx.inbox.forget_delivery(each)
    return len(old)


def keep(state: State, trigger: Trigger) -> Trigger:
    """Put a trigger into the inbox, with an id. Durable on return: only now may it be acknowledged."""
    with state.transaction() as tx:
        return tx.inbox.keep(trigger)
