"""The jobs: the envelope, the attempts and the end of every trigger that a worker answers.

A job is durable in the transaction that stores its trigger. While it waits, its trigger is in the inbox; a dead letter
and a cancelled job are out of the inbox, and their rows keep the trigger.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kfm.model.jobs.job_records import JobFailure, JobState, JobStatus
from kfm.store.codec import Repository, exact

MOST_FAILURES = 100  # of one job; the oldest are dropped
OPEN, DEAD, DONE = "open/", "dead/", "done/"
_PLACES = {"waiting": OPEN, "dead": DEAD, "cancelled": DONE, "ended": DONE}  # by the status of a job


class Jobs(Repository):
    """Reads jobs."""

    def get(self, trigger_id: str) -> JobState | None:
        for place in (OPEN, DONE, DEAD):
            job = self._one("jobs", place + trigger_id, JobState)
            if job is not None:
                return job
        return None

    def by_id(self, job_id: str) -> JobState | None:
        trigger_id = self._tables.get("jobs", f"id/{job_id}")
        return None if trigger_id is None else self.get(trigger_id.decode())

    def ids(self, beginning: str) -> Iterator[str]:
        return (key.removeprefix("id/") for key, _ in self._tables.scan("jobs", f"id/{beginning}"))

    def open(self) -> Iterator[JobState]:
        return self._many("jobs", JobState, OPEN)

    def dead(self) -> Iterator[JobState]:
        return self._many("jobs", JobState, DEAD)

    def done(self, *, reverse: bool = False, limit: int = -1) -> Iterator[JobState]:
        return self._many("jobs", JobState, DONE, reverse=reverse, limit=limit)


class JobsTx(Jobs):
    """Writes jobs and their triggers, inside an open transaction."""

    def enqueue(self, job: JobState) -> tuple[JobState, bool]:
        """Store a job with its trigger. Return the job as stored, and whether it is new: the same id again changes
        nothing."""
        known = self.by_id(job.envelope.job_id)
        if known is not None:
            return known, False
        job = msgspec.structs.replace(job, trigger=self._state.tx.inbox.keep(job.trigger))
        return self._put(job), True

    def attempt(self, job: JobState, holder: str, now_ms: int) -> JobState:
        """Count an attempt before it begins, so that one that kills its worker is counted, too."""
        return self._put(msgspec.structs.replace(job, attempts=job.attempts + 1, holder=holder, claimed_ms=now_ms))

    def give_back(self, job: JobState, not_before_ms: int) -> JobState:
        """Let a job wait again without counting the attempt, because it could not begin."""
        job = msgspec.structs.replace(
            job, attempts=max(job.attempts - 1, 0), holder="", claimed_ms=0, not_before_ms=not_before_ms
        )
        return self._wait(job)

    def fail(self, job: JobState, failure: JobFailure, not_before_ms: int) -> JobState:
        """Let a job wait for its next attempt, also if a failed run has ended its trigger."""
        failed = _failed(job, failure)
        return self._wait(msgspec.structs.replace(failed, holder="", claimed_ms=0, not_before_ms=not_before_ms))

    def bury(self, job: JobState, failure: JobFailure | None, now_ms: int) -> JobState:
        """Make a job a dead letter: out of the inbox, until someone puts it back."""
        failed = job if failure is None else _failed(job, failure)
        return self._settle(failed, "dead", now_ms, failed.run_id)

    def cancel(self, job: JobState, now_ms: int) -> JobState:
        return self._settle(job, "cancelled", now_ms, job.run_id)

    def end(self, job: JobState, run_id: str, now_ms: int) -> JobState:
        """Record that a run has ended the trigger of a job."""
        return self._settle(job, "ended", now_ms, run_id)

    def revive(self, job: JobState, now_ms: int) -> JobState:
        """Put a dead letter or a cancelled job back, with all its attempts before it. Its history stays."""
        return self._wait(
            msgspec.structs.replace(
                job, status="waiting", attempts=0, holder="", claimed_ms=0, not_before_ms=now_ms, settled_ms=0
            )
        )

    def forget(self, job: JobState) -> None:
        for key in (place_of(job), f"id/{job.envelope.job_id}"):
            self._tables.delete("jobs", key)

    def _wait(self, job: JobState) -> JobState:
        inbox = self._state.tx.inbox
        if inbox.kept(job.trigger) is None:
            inbox.keep(job.trigger)
            ended = inbox.ended(job.trigger.trigger_id)
            if ended is not None:
                inbox.forget_ended(ended)
        return self._put(job)

    def _settle(self, job: JobState, status: JobStatus, now_ms: int, run_id: str) -> JobState:
        if status != "ended":
            self._state.tx.inbox.withdraw(job.trigger)
        return self._put(
            msgspec.structs.replace(
                job, status=status, holder="", claimed_ms=0, settled_ms=now_ms, run_id=run_id or job.run_id
            )
        )

    def _put(self, job: JobState) -> JobState:
        """Write a job at the place of its status, and nowhere else."""
        at, trigger_id = place_of(job), job.trigger.trigger_id
        is_known = False
        for place in (OPEN, DEAD, DONE):
            if self._tables.get("jobs", place + trigger_id) is not None:
                is_known = True
                if place + trigger_id != at:
                    self._tables.delete("jobs", place + trigger_id)
        if not is_known:
            self._tables.put("jobs", f"id/{job.envelope.job_id}", trigger_id.encode())
        self._tables.put("jobs", at, exact(job))
        return job


def place_of(job: JobState) -> str:
    """Return the key under which a job is stored."""
    return _PLACES[job.status] + job.trigger.trigger_id


def _failed(job: JobState, failure: JobFailure) -> JobState:
    return msgspec.structs.replace(
        job, failures=(*job.failures[1 - MOST_FAILURES :], failure), run_id=failure.run_id or job.run_id
    )
