"""What becomes of a job after an attempt, decided from its receipt or its error."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kfm.app.runs.execution import problem_of
from kfm.clock import rfc3339
from kfm.errors import Busy, Cancelled, Denied, Frozen, KfmError, Refused, StepFailed
from kfm.model.jobs.job_records import JobFailure, JobState
from kfm.model.ports import Tx
from kfm.model.records import Receipt

LONGEST_MS = 3_600_000  # the longest wait before another attempt
BUSY_MS = 1000  # the wait for a dataset that another worker has
LOST = "worker.lost"  # the code of an attempt whose worker died or was stopped
Fate = Literal["end", "cancel", "give back", "retry", "bury"]


class Verdict(NamedTuple):
    """What becomes of a job, and the code of its failure."""

    fate: Fate
    code: str = ""
    run_id: str = ""
    wait_ms: int = 0  # as the source or service asked


class Limits(NamedTuple):
    """How often a job is tried, and how long it waits in between."""

    attempts: int
    backoff_ms: int


def judged(receipt: Receipt | None, problem: KfmError | None) -> Verdict:
    """Return what becomes of a job whose run has this receipt, or raised this error before there was one."""
    run_id = ""
    if receipt is not None:
        run_id = receipt.run_id
        if receipt.outcome == "superseded":  # a later run took its place
            return Verdict("end", run_id=run_id)
        problem = problem_of(receipt)
    if problem is None:
        return Verdict("end", run_id=run_id)
    wait = problem.fields.get("retry_after_s")
    wait_ms = wait * 1000 if isinstance(wait, int) else 0
    if isinstance(problem, Cancelled):
        return Verdict("cancel", problem.code, run_id)
    if isinstance(problem, (Frozen, Busy)):
        return Verdict("give back", problem.code, run_id, max(wait_ms, BUSY_MS))
    if isinstance(problem, (Denied, Refused)) and not isinstance(problem, StepFailed):
        return Verdict("bury", problem.code, run_id)
    return Verdict("retry", problem.code, run_id, wait_ms)


def carry_out(tx: Tx, job: JobState, verdict: Verdict, limits: Limits, now_ms: int, host: str) -> JobState:
    """Write what becomes of a job; return it as it is then."""
    failure = JobFailure(code=verdict.code, at=rfc3339(now_ms), host=host, run_id=verdict.run_id)
    if verdict.fate == "end":
        return tx.jobs.end(job, verdict.run_id, now_ms)
    if verdict.fate == "cancel":
        return tx.jobs.cancel(job, now_ms)
    if verdict.fate == "give back":
        return tx.jobs.give_back(job, now_ms + verdict.wait_ms)
    if verdict.fate == "bury" or job.attempts >= limits.attempts:
        return tx.jobs.bury(job, failure, now_ms)
    return tx.jobs.fail(job, failure, now_ms + max(backoff_ms(job.attempts, limits), verdict.wait_ms))


def backoff_ms(attempts: int, limits: Limits) -> int:
    """Return the wait after so many attempts: it doubles, up to an hour."""
    return min(limits.backoff_ms << min(max(attempts - 1, 0), 30), LONGEST_MS)
