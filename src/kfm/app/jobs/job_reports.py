"""Jobs as records for people and programs: their state, their history, and the command that helps a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kfm.app.jobs.job_queue import is_job, scope_of
from kfm.app.jobs.job_requests import derived_job
from kfm.clock import rfc3339
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.jobs.job_records import JobEnvelope, JobFailure, JobState, Priority
from kfm.model.records import Record
from kfm.parsing.characters import printable
from kfm.store.process_identity import is_held

if TYPE_CHECKING:
    from kfm.app.session.session import Session

Word = Literal["waiting", "back-off", "frozen", "running", "dead", "cancelled", "ended"]
SHORT = 8  # characters of a job's id that people see


class JobRow(Record, frozen=True):
    """One job. A trigger that came without an envelope has the one that a worker would give it."""

    job_id: str
    trigger_id: str
    job_type: str
    dataset: str
    partition: str  # empty: the whole dataset
    state: Word
    priority: Priority
    pools: tuple[str, ...]  # what a worker must have; known since it was enqueued or last claimed
    attempts: int
    requested_by: str
    requested_at: str
    not_before: str  # empty: at once
    failures: tuple[JobFailure, ...]  # oldest first
    run_id: str  # of the last receipt; empty: it has none


class JobReport(Record, frozen=True):
    """One job, whole."""

    job: JobRow
    envelope: JobEnvelope
    next: str  # the command that helps; empty: none is needed


def job_rows(session: Session, *, ended: bool = False, limit: int = -1) -> Iterator[JobRow]:
    """Yield the waiting jobs in the order in which they came, and the dead letters; with `ended` also those that ended,
    newest first, at most `limit` of these."""
    for job in waiting_jobs(session):
        yield row_of(session, job)
    for job in session.state.jobs.dead():
        yield row_of(session, job)
    if ended:
        for job in session.state.jobs.done(reverse=True, limit=limit):
            yield row_of(session, job)


def waiting_jobs(session: Session, dataset: str = "") -> Iterator[JobState]:
    """Yield the jobs that wait or run; for triggers without an envelope, as a worker would make them."""
    for trigger in session.state.inbox.waiting(dataset):
        if is_job(trigger):
            yield session.state.jobs.get(trigger.trigger_id) or derived_job(session, trigger)


def row_of(session: Session, job: JobState) -> JobRow:
    envelope, trigger = job.envelope, job.trigger
    return JobRow(
        job_id=envelope.job_id,
        trigger_id=trigger.trigger_id,
        job_type=envelope.job_type,
        dataset=trigger.dataset,
        partition=trigger.partition,
        state=word_of(session, job),
        priority=job.priority,
        pools=job.pools,
        attempts=job.attempts,
        requested_by=envelope.requested_by,
        requested_at=envelope.requested_at,
        not_before=rfc3339(job.not_before_ms) if job.not_before_ms > session.clock.now_ms() else "",
        failures=job.failures,
        run_id=job.run_id,
    )


def word_of(session: Session, job: JobState) -> Word:
    """Return the state of a job in one word."""
    if job.status != "waiting":
        return job.status
    state, now_ms = session.state, session.clock.now_ms()
    lease = state.leases.of(scope_of(job.trigger.trigger_id))
    if lease is not None and is_held(lease, state.now_ms()):
        return "running"
    if state.inbox.kept(job.trigger) is None:  # a run has ended it, and the next turn of a worker records that
        return "ended"
    if any(refs.is_frozen(state.refs.at(flag)) for flag in refs.switches(job.trigger.dataset)):
        return "frozen"
    return "back-off" if job.not_before_ms > now_ms else "waiting"


def report_of(session: Session, job: JobState) -> JobReport:
    row = row_of(session, job)
    return JobReport(job=row, envelope=job.envelope, next=cure(row))


def cure(row: JobRow) -> str:
    """Return the command that helps a job which does not go on by itself; empty if it does."""
    if row.state == "dead":
        return f"kfm jobs retry {row.job_id[:SHORT]}"
    return f"kfm thaw {row.dataset} --reason …" if row.state == "frozen" else ""


def find_job(session: Session, text: str) -> JobState:
    """Return the job of this id, of this start of an id, or of this trigger. BadInput unless exactly one matches."""
    state = session.state
    found = state.jobs.by_id(text) or state.jobs.get(text)
    if found is not None:
        return found
    for job in waiting_jobs(session):
        if text in (job.trigger.trigger_id, job.envelope.job_id):
            return job
    is_start = 4 <= len(text) <= 36 and all(letter in "0123456789abcdef-" for letter in text)
    ids = list(state.jobs.ids(text)) if is_start else []
    if is_start:
        ids += [job.envelope.job_id for job in waiting_jobs(session) if job.envelope.job_id.startswith(text)]
    ids = list(dict.fromkeys(ids))
    if len(ids) == 1:
        return find_job(session, ids[0])
    if ids:
        raise BadInput(f"{len(ids)} jobs begin with {text}", hint="give more of the id")
    raise BadInput(f"there is no job {printable(text)}", hint="see `kfm jobs list --all`")
