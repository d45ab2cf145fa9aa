"""The loop of a worker: it does jobs one after another, and waits to be woken when there is none.

It keeps nothing that may not be lost. When the state does not answer, it waits and opens the session again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from kfm.app.session.session import check_in_force
from kfm.errors import Busy, KfmError, Unavailable

if TYPE_CHECKING:
    from kfm.app.jobs.job_worker import JobResult, QueueDepth
    from kfm.app.session.session import Session
    from kfm.clock import Clock
    from kfm.model.ports import Log
    from kfm.model.records import Receipt

SLICE_S = 0.5  # longest sleep without a look at whether to stop
FIRST_S, MOST_S = 0.5, 30.0  # between two attempts to reach a state that does not answer


class Turns(Protocol):
    """What the loop needs from a worker of jobs."""

    @property
    def last(self) -> JobResult | None:
        """What became of the job of the last turn, if there was one."""

    def turn(self) -> Receipt | None:
        """Claim one job and do it; return its receipt. None if there was none to claim, or if it left no receipt."""

    def pause_s(self) -> float:
        """Return how long to wait before the next turn if no message comes."""

    def depth(self) -> QueueDepth:
        """Return how much waits."""


class WorkerLoop:
    """Works until `goes_on` says no."""

    def __init__(
        self,
        opened: Callable[[], Session],
        worker_on: Callable[[Session], Turns],
        *,
        told: Callable[[JobResult], None],
        goes_on: Callable[[], bool],
        clock: Clock,
        log: Log,
        pools: Collection[str] = (),
    ) -> None:
        """`told` receives what became of each job. `opened` opens a session, again if the state did not answer."""
        self._opened = opened
        self._worker_on = worker_on
        self._told = told
        self._goes_on = goes_on
        self._clock = clock
        self._log = log
        self._pools = frozenset(pools)
        self._problem: KfmError | None = None
        self._patience_s = 0.0
        self.discarded = 0  # messages that were not ours
        self.beat = clock.monotonic()  # when the loop last came by
        self.at_work = False
        self.broker_problem: KfmError | None = None

    @property
    def problem(self) -> KfmError | None:
        """Why the state does not answer; None if it does."""
        return self._problem

    def run(self, *, once: bool = False) -> None:
        """Work until told to stop; with `once`, until no job is ready, now or for another attempt. Raises what waiting
        does not cure."""
        while self._goes_on():
            try:
                with self._opened() as session:
                    discarded = self.discarded
                    try:
                        if self._work(session, once):
                            return
                    finally:
                        self.discarded = discarded + session.wake_up.discarded
            except (Unavailable, Busy) as problem:
                self._failed(problem)

    def _work(self, session: Session, once: bool) -> bool:
        """Do jobs. Return whether the work is done; otherwise the loop was told to stop."""
        worker = self._worker_on(session)
        while self._goes_on():
            self._beat()
            check_in_force(session)
            self.at_work = True
            try:
                receipt = worker.turn()
            finally:
                self.at_work = False
            self._answered()
            if worker.last is not None:
                self._told(worker.last)
            pause_s = worker.pause_s()
            if receipt is not None or not pause_s:
                session.wake_up.wait(0)  # takes the message of this job, or of another, so that none pile up
            elif once:
                if not worker.depth().ready and not self._is_retried(session):
                    return True
                self._clock.sleep(min(pause_s, SLICE_S))
            else:
                self._rest(session, pause_s)
        return True

    def _is_retried(self, session: Session) -> bool:
        """Return whether a job of this worker waits for its next attempt."""
        now_ms, waiting = self._clock.now_ms(), session.state.jobs.open()
        return any(job.not_before_ms > now_ms and self._pools >= {*job.pools} for job in waiting)

    def _rest(self, session: Session, seconds: float) -> None:
        """Wait for a message, for so long at most."""
        left = min(seconds, session.config.workers.sweep_s)
        until = self._clock.monotonic() + left
        while left > 0 and self._goes_on():
            self._beat()
            woken = session.wake_up.wait(min(left, SLICE_S))
            self.broker_problem = session.wake_up.problem
            if woken:
                return
            left = until - self._clock.monotonic()

    def _beat(self) -> None:
        self.beat = self._clock.monotonic()

    def _answered(self) -> None:
        if self._problem is not None:
            self._log.event("state.answered")
        self._problem, self._patience_s = None, 0.0

    def _failed(self, problem: KfmError) -> None:
        """Wait a while before the next attempt, longer each time."""
        if self._problem is None:
            self._log.event("state.failed", error=problem)
        self._problem = problem
        self._patience_s = min(max(2 * self._patience_s, FIRST_S), MOST_S)
        until = self._clock.monotonic() + self._patience_s
        while self._goes_on() and (left := until - self._clock.monotonic()) > 0:
            self._beat()
            self._clock.sleep(min(left, SLICE_S))
