"""Settles a session: makes everything durable, publishes it, and reports it to the sinks that follow the ledger."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from kfm.app.metadata.ledger_sinks import report_to_sinks
from kfm.app.session.datasets import public_retention
from kfm.app.session.protection_files import is_configured
from kfm.delivery.public_files import deliver
from kfm.errors import KfmError
from kfm.model.outbox_messages import COUNTED_EVERY, COUNTS
from kfm.scheduling.triggers import DAY_MS, prune

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Effect


def settle_session(session: Session, *, again: bool = False) -> list[Effect]:
    """Make everything durable, then publish it. Acknowledge nothing before this returns.

    Returns the changes of the public files and of the sinks since the last time. If it raises and
    `session.undelivered` is not empty, everything is durable, and only some public files are pending. A sink that
    follows the ledger never makes it raise; with `again` a sink that did not answer lately is tried, too.
    """
    with session.state.recent():
        return _settle(session, again=again)


def _settle(session: Session, *, again: bool) -> list[Effect]:
    session.undelivered = []
    session.undelivered = deliver(
        session.state,
        session.objects,
        session.publisher,
        session.log,
        sync=session.mode == "write",
        retention=partial(public_retention, session),
        waits=cache(partial(_waits, session)),
    )
    effects = list(session.publisher.trace)
    session.publisher.trace.clear()  # a session that stays open must not keep all it ever did
    prune_inbox(session)
    _keep_counts(session)
    unjudged: list[KfmError] = []
    if session.config.notify and not session.notices_apart:
        from kfm.app.runs.state_watch import watch_states

        unjudged = watch_states(session)
    if session.mode != "read":
        problems = [*unjudged, *report_to_sinks(session, again=again, effects=effects)]
        session.sink_problems = problems if session.mode == "write" else []  # a dry run has committed nothing
    if session.undelivered:
        raise session.undelivered[0][1]
    return effects


def _keep_counts(session: Session) -> None:
    """Keep the counts of a ledger that has grown much, so that metrics need not read it from the start."""
    newest = next(iter(session.state.ledger.entries(reverse=True, limit=1)), None)
    if newest is not None and newest.index - session.state.outbox.cursor(f"{COUNTS}/operations") >= COUNTED_EVERY:
        from kfm.app.objectives.kept_counts import keep_counts

        keep_counts(session)


def _waits(session: Session) -> bool:
    """Return whether new public files must wait: kfm.yml has mistakes, or masks and labels do not match."""
    if session.resolved.mistakes:
        return True
    if not is_configured(session.resolved):
        return False
    from kfm.app.authority.label_match import labels_match

    return not labels_match(session)


def keep_ms(session: Session) -> int:
    """Return how long the inbox remembers a trigger."""
    return session.config.keep_days * DAY_MS


def prune_inbox(session: Session, *, again: bool = False) -> None:
    """Drop ended triggers that are older than the time for which the inbox keeps them. A failure is logged and stops
    nothing else."""
    if session.mode == "write":
        try:
            prune(session.state, session.clock.now_ms(), keep_ms(session), again=again)
        except KfmError as problem:
            session.log.event("inbox.unpruned", error=problem)
