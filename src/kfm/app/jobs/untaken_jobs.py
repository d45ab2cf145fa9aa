"""Jobs that wait for workers and that no worker takes.

An idle worker leaves nothing in the state, so KFM cannot know that there is none. It says what it does know: how many
jobs a worker could claim, and since when no worker has taken one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.jobs.job_queue import JobQueue
from kfm.clock import rfc3339
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.errors import KfmError

LEAST_MS = 10_000  # before no worker is called late, however often workers look


class UntakenJobs(Record, frozen=True):
    """A sentence about jobs that no worker takes, and the command that helps."""

    what: str
    command: str


def untaken_jobs(session: Session) -> UntakenJobs | None:
    """Return what to say if workers are wanted (`queue`) and none has taken a job for two of their looks into the
    inbox; else None."""
    if not session.config.queue:
        return None
    found = JobQueue(session, None, (), _hear_nothing, enqueued_only=False).untaken()
    patience_ms = max(2000 * session.config.workers.sweep_s, LEAST_MS)
    if found is None or session.clock.now_ms() - found.since_ms < patience_ms:
        return None
    waiting = "1 job waits" if found.jobs == 1 else f"{found.jobs} jobs wait"
    return UntakenJobs(
        what=f"{waiting} that a worker could do, and no worker has taken a job since {rfc3339(found.since_ms)}",
        command="python -m workers run" + "".join(f" --pool {pool}" for pool in found.pools),
    )


def _hear_nothing(_about: str, _problem: KfmError) -> None:
    """Pass over labels that cannot be read: other checks name them."""
