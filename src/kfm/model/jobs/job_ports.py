"""The ports of jobs: those in the state, and what wakes workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kfm.model.jobs.job_records import JobFailure, JobState


class Jobs(Protocol):
    """The jobs: the attempts and the end of every trigger that a worker answers."""

    def get(self, trigger_id: str) -> JobState | None: ...

    def by_id(self, job_id: str) -> JobState | None: ...

    def ids(self, beginning: str) -> Iterator[str]:
        """Yield the ids of jobs with this beginning."""

    def open(self) -> Iterator[JobState]:
        """Yield the jobs that have not ended and are no dead letters, in the order in which they came. A trigger that
        no worker has claimed may have no job."""

    def dead(self) -> Iterator[JobState]:
        """Yield the dead letters."""

    def done(self, *, reverse: bool = False, limit: int = -1) -> Iterator[JobState]:
        """Yield the jobs that ended or were cancelled."""


class JobsTx(Jobs, Protocol):
    def enqueue(self, job: JobState) -> tuple[JobState, bool]: ...

    def attempt(self, job: JobState, holder: str, now_ms: int) -> JobState: ...

    def give_back(self, job: JobState, not_before_ms: int) -> JobState: ...

    def fail(self, job: JobState, failure: JobFailure, not_before_ms: int) -> JobState: ...

    def bury(self, job: JobState, failure: JobFailure | None, now_ms: int) -> JobState: ...

    def cancel(self, job: JobState, now_ms: int) -> JobState: ...

    def end(self, job: JobState, run_id: str, now_ms: int) -> JobState: ...

    def revive(self, job: JobState, now_ms: int) -> JobState: ...

    def forget(self, job: JobState) -> None: ...


class Bell(Protocol):
    """Wakes workers. It decides nothing: the state is the queue, and a message that is lost, doubled or late changes
    nothing."""

    discarded: int  # messages that were not ours

    def ring(self, trigger_ids: Iterable[str]) -> None:
        """Say that these triggers wait. Call it after the commit. Unavailable or Denied if no message could be sent:
        workers then find the triggers when they next look."""

    def wait(self, timeout_s: float) -> set[str]:
        """Wait for a message and return the ids of triggers it named; empty if none came, perhaps before the time is
        over. With 0, return at once. Unavailable or Denied if none can come."""

    def depth(self) -> int:
        """Return how many messages wait. Unavailable or Denied if the broker does not say."""

    def try_out(self) -> int:
        """Return how many messages wait. Unavailable or Denied if none could be sent or taken; nothing is changed."""

    def close(self) -> None: ...
