"""Facts that ask for a run, and the inbox that keeps them until one has ended."""

from __future__ import annotations

from kfm.clock import Clock, rfc3339
from kfm.contract.names import check_id, dataset_id
from kfm.contract.ports import State
from kfm.contract.records import Trigger, TriggerKind
from kfm.contract.updater import Updater


def asked(
    updater: Updater,
    dataset: str,
    clock: Clock,
    *,
    actor: str,
    kind: TriggerKind = "manual",
    window: str = "",
    force: bool = False,
    reason: str = "",
) -> Trigger:
    """Someone asks for a dataset to be updated."""
    return Trigger(
        kind=kind,
        updater_id=updater.id,
        dataset=dataset_id(dataset),
        window=window,
        force=force,
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


def keep(state: State, trigger: Trigger) -> Trigger:
    """Put a trigger into the inbox, with an id. Durable on return: only now may it be acknowledged."""
    with state.transaction() as tx:
        return tx.keep_trigger(trigger)
