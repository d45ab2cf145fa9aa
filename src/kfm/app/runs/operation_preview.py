"""What a requested operation would do: the same work as a dry run of its command, in a session that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.run_setup import context_of, guards_of
from kfm.app.runs.execution import Outcome, Request, Undelivered, operation_request, run_request, work
from kfm.app.session.session import open_session
from kfm.engine.run import run
from kfm.engine.stage_results import Warrant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kfm.app.runs.requested_operations import Planned, RequestedOperation
    from kfm.app.session.session import Session
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.errors import KfmError
    from kfm.model.records import Receipt, RefMove, Trigger
    from kfm.model.updater import Updater


class _Nobody:
    """Hears what happens, and tells nobody."""

    def begins(self, about: str) -> None: ...

    def ended(self, receipt: Receipt) -> None: ...

    def failed(self, about: str, problem: KfmError) -> None: ...

    def settles(self) -> None: ...

    def undelivered(self, what: Undelivered) -> None: ...


def predicted_operation(session: Session, found: Planned) -> Outcome:
    """Return what an operation would do. Signatures that it needs are taken as given: who must sign is told apart."""
    move = found.move
    if found.needs_signature:
        request = Request(move.trigger.dataset, lambda dry, _tell: _signed(dry, move.updater, move.trigger))
    else:
        who = {"reason": found.reason, "actor": move.trigger.actor}
        request = operation_request(move.updater.op, move.trigger.dataset, move.trigger.params, **who)
    with open_session(session.resolved, mode="dry", clock=session.clock, in_place=True) as dry:
        return work(dry, [request], _Nobody())


def predicted_run(resolved: Resolved, clock: Clock, wanted: RequestedOperation, person: str) -> Outcome:
    """Return what a run would do. It fetches the sources and does the work."""
    request = run_request(
        wanted.dataset,
        window=wanted.window,
        partition=wanted.partition,
        force=wanted.force,
        abandon=wanted.abandon,
        allow_deletions=wanted.allow_deletions,
        reason=wanted.reason,
        actor=person,
    )
    with open_session(resolved, mode="dry", clock=clock, in_place=True) as dry:
        return work(dry, [request], _Nobody())


def _signed(dry: Session, updater: Updater, trigger: Trigger) -> Iterator[Receipt]:
    def permitted(_updater: Updater, _trigger: Trigger, _moves: list[RefMove]) -> Warrant:
        return Warrant()

    guards = guards_of(dry, trigger.dataset)
    guards.authority = permitted
    yield run(context_of(dry, trigger, updater, guards=guards))
