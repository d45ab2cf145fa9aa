"""Triggers that a caller requests, the actor that they name, and the updater that answers a trigger."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.session.datasets import dataset_config, dataset_updater
from kfm.clock import rfc3339
from kfm.errors import BadInput, Refused
from kfm.model.names import check_partition, dataset_id
from kfm.model.preview_records import preview_of
from kfm.model.transform_config import check_window
from kfm.model.updater import check_version
from kfm.parsing.characters import is_printable
from kfm.scheduling.triggers import update_trigger

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Trigger, TriggerKind
    from kfm.model.updater import Updater


def new_trigger(
    session: Session,
    dataset: str,
    *,
    window: str = "",
    partition: str = "",
    force: bool = False,
    abandon: bool = False,
    allow_deletions: int = 0,
    reason: str = "",
    actor: str = "",
    kind: TriggerKind = "manual",
) -> Trigger:
    """Return a trigger of a dataset. BadInput if kfm.yml does not name it, or if it has no such window or partition."""
    name = dataset_id(dataset)
    declared = dataset_config(session, name)
    if window:
        from kfm.parsing.time_windows import interval

        window = interval(window, rfc3339(session.clock.now_ms())[:10])
        check_window(name, declared.outputs)
    if partition:
        check_partition(partition)
        if declared.updater is None:
            raise BadInput(
                f"--partition has no meaning for {name}: what kfm.yml declares is made whole",
                hint="leave it out; partitions are for updaters that look at trigger.partition",
            )
    updater = dataset_updater(session, name)
    check_version(updater)
    if reason and kind == "manual":
        from kfm.app.authority.private_reasons import private_reason

        reason = private_reason(session, name, reason)
    return update_trigger(
        updater,
        name,
        session.clock,
        actor=actor or default_actor(),
        kind=kind,
        window=window,
        partition=partition,
        force=force,
        abandon=abandon,
        allow_deletions=allow_deletions,
        reason=reason,
    )


def default_actor() -> str:
    """Return the name that the ledger records if the caller gives none: that of KFM_ACTOR, else the user's. BadInput if
    KFM_ACTOR is not one short line."""
    named = os.environ.get("KFM_ACTOR", "")
    if not is_printable(named) or len(named) > 1000:
        raise BadInput("KFM_ACTOR must be one line of at most 1000 characters", hint="shorten it")
    for name in (named, os.environ.get("USER", ""), os.environ.get("LOGNAME", "")):
        if name and is_printable(name) and len(name) <= 1000:
            return name
    return f"uid:{os.getuid()}"


def trigger_updater(session: Session, trigger: Trigger) -> Updater:
    """Return the updater that answers a trigger: the dataset's, or an operation. Refused if this version of kfm has no
    such operation, or if the trigger belongs to a preview."""
    if preview_of(trigger):
        raise Refused("this run is of the preview of a branch", hint="`kfm preview build BRANCH` resumes it")
    if trigger.kind != "operation":
        return dataset_updater(session, trigger.dataset)
    from kfm.operations.registry import operations

    for kind in operations().values():
        if kind.id == trigger.updater_id:
            return kind()
    raise Refused(f"no operation is called {trigger.updater_id}", hint="it was made by another version of kfm")
