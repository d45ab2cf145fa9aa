"""Carries out what a server accepted: operations and signatures that wait in the inbox.

Each part of the work is done once. A kill between two of them leaves the trigger in the inbox, and what is found done
is not done again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from kfm.app.runs.change_requests import add_signature, find
from kfm.app.runs.run_control import Tell, resume_runs, run_trigger
from kfm.app.runs.trigger_request import trigger_updater
from kfm.crypto.approvals import Act
from kfm.errors import Broken, Corrupt, Denied, KfmError
from kfm.model import refs
from kfm.model.operation_target import SIGNATURE, is_signature
from kfm.parsing.strict_json import decode

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Receipt, Trigger


def carry_out_trigger(session: Session, trigger: Trigger) -> Iterator[Receipt]:
    """Carry out a requested operation, or go on with it, and yield the receipts."""
    if is_signature(trigger):
        yield from carry_out_signature(session, trigger)
        return
    unfinished = [run.run_id for run in session.state.runs.unfinished(trigger.dataset)
                  if run.trigger.trigger_id == trigger.trigger_id]  # fmt: skip
    if unfinished:
        yield from resume_runs(session, unfinished[0], patient=False)
    else:
        yield run_trigger(session, trigger, trigger_updater(session, trigger), patient=False)


def carry_out_signatures(session: Session, tell: Tell) -> Iterator[Receipt]:
    """Add every signature that waits, as `carry_out_signature` does. `tell` receives each problem."""
    for trigger in [each for each in session.state.inbox.waiting() if is_signature(each)]:
        try:
            yield from carry_out_signature(session, trigger)
        except Broken:
            raise
        except KfmError as problem:
            tell(trigger.dataset, problem)


def carry_out_signature(session: Session, trigger: Trigger) -> Iterator[Receipt]:
    """Add the signature that a trigger brings to its change request, run the operation if it was the last one, and end
    the trigger."""
    if session.state.inbox.kept(trigger) is None:
        return
    try:
        act = msgspec.convert(decode(trigger.params[SIGNATURE].encode(), "a signature"), Act)
    except msgspec.ValidationError as problem:
        raise Corrupt("a signature cannot be read", hint="restore the state from a copy") from problem
    run_id = ""
    try:
        for receipt in add_signature(session, act.request_id, act, reason=trigger.reason, actor=trigger.actor):
            run_id = receipt.run_id
            yield receipt
    except Denied:
        _end(session, trigger, run_id or _last_move(session, act.request_id))
        raise
    _end(session, trigger, run_id or _last_move(session, act.request_id))


def _last_move(session: Session, request_id: str) -> str:
    """Return the run that moved a change request last: it kept the signature, or carried the request out."""
    history = session.state.refs.history(refs.order(find(session, request_id).request.id), reverse=True, limit=1)
    return next((entry.run_id for entry in history), "")


def _end(session: Session, trigger: Trigger, run_id: str) -> None:
    with session.state.transaction() as tx:
        tx.inbox.finish(trigger, run_id)
