"""What people do with jobs: put a dead letter back, and cancel a job. Each leaves a receipt and a ledger entry before
it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.jobs.job_reports import row_of, word_of
from kfm.app.maintenance.maintenance_records import record
from kfm.errors import BadInput, Conflict

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.jobs.job_records import JobState
    from kfm.model.records import Receipt


def retry_job(session: Session, job: JobState, *, reason: str, actor: str = "") -> tuple[JobState, Receipt]:
    """Put a dead letter or a cancelled job back, with all its attempts before it. BadInput for any other job."""
    if job.status not in ("dead", "cancelled"):
        word = word_of(session, job)
        hint = "make it again: `kfm jobs enqueue`" if word == "ended" else "a worker takes it when its turn comes"
        raise BadInput(f"job {job.envelope.job_id} is no dead letter: it is {word}", hint=hint)
    receipt = _recorded(session, "retry", job, reason, actor)
    with session.state.transaction() as tx:
        if session.state.jobs.get(job.trigger.trigger_id) != job:
            raise Conflict(f"job {job.envelope.job_id} has changed meanwhile", hint="see `kfm jobs show`")
        return tx.jobs.revive(job, session.clock.now_ms()), receipt


def cancel_job(session: Session, job: JobState, *, reason: str, actor: str = "") -> tuple[JobState, Receipt]:
    """Take a waiting job out of the inbox, or give a dead letter up. BadInput if it has ended, Conflict if a worker has
    it."""
    row = row_of(session, job)
    if row.state in ("ended", "cancelled"):
        raise BadInput(f"job {row.job_id} is {row.state}", hint="nothing is left to cancel")
    if row.state == "running":
        raise Conflict(
            f"a worker has job {row.job_id}", hint="`kfm runs list` shows its run; `kfm runs cancel RUN` ends it"
        )
    receipt = _recorded(session, "cancel", job, reason, actor)
    state = session.state
    with state.transaction() as tx:
        known = state.jobs.get(job.trigger.trigger_id)
        is_there = job.status == "dead" or state.inbox.kept(job.trigger) is not None
        if (known is not None and known != job) or not is_there or word_of(session, job) == "running":
            raise Conflict(f"job {row.job_id} has changed meanwhile", hint="see `kfm jobs show`")
        return tx.jobs.cancel(job, session.clock.now_ms()), receipt


def _recorded(session: Session, action: str, job: JobState, reason: str, actor: str) -> Receipt:
    report = {"action": action, "job": job.envelope.job_id, "trigger": job.trigger.trigger_id}
    return record(session, "jobs", report, dataset=job.trigger.dataset, reason=reason, actor=actor)
