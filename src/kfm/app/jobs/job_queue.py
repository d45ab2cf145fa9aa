"""The jobs that a worker may claim, in their order: by priority, then by arrival.

A look at all of them is remembered for a while, because a queue may be long; every job is read again before it is
claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.jobs.job_pools import job_pools
from kfm.app.jobs.job_verdict import BUSY_MS
from kfm.app.session.wake_up import is_job as is_job
from kfm.clock import parse_instant
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.jobs.job_envelope import PRIORITIES
from kfm.model.jobs.job_records import JobState
from kfm.model.keys import scopes
from kfm.model.records import Record, Trigger
from kfm.store.process_identity import is_held

if TYPE_CHECKING:
    from kfm.app.session.session import Session

AGE_MS = 1000  # the least time for which a look at the queue is remembered


class QueueDepth(Record, frozen=True):
    """How much waits, and for how long."""

    waiting: int  # jobs that no worker has; those of frozen datasets and in back-off, too
    ready: int  # of these: the jobs that a worker of these pools could claim now
    running: int
    dead: int
    lag_ms: int  # since the oldest ready job came; 0: none is ready


class Untaken(Record, frozen=True):
    """Jobs that a worker could claim now, and that none takes."""

    jobs: int
    since_ms: int  # no worker has taken a job since then, and at least one of them could be claimed all the time
    pools: tuple[str, ...]  # of the job that could be claimed first


class Candidate(NamedTuple):
    """A waiting job as it was when the queue was looked at. Candidates sort in the order of the work."""

    rank: int
    received_at: str
    trigger_id: str
    trigger: Trigger
    job: JobState | None  # None: no worker has claimed it yet, and it came without an envelope

    def received_ms(self, now_ms: int) -> int:
        return parse_instant(self.received_at, "a trigger") if self.received_at else now_ms


def scope_of(trigger_id: str) -> str:
    """Return the scope of the lease on a job."""
    return f"job/{trigger_id}"


class JobQueue:
    """Reads the waiting jobs of a session for one worker."""

    def __init__(
        self,
        session: Session,
        pools: Collection[str] | None,
        datasets: Collection[str],
        tell: Callable[[str, KfmError], None],
        *,
        enqueued_only: bool,
    ) -> None:
        self._session = session
        self._pools = None if pools is None else frozenset(pools)
        self._datasets = frozenset(datasets)
        self._tell = tell
        self._enqueued_only = enqueued_only
        self._known: list[Candidate] = []
        self._looked_at: float | None = None
        self._look_ms = 0.0
        self.orphans: list[str] = []  # jobs whose trigger has ended, and of which no worker recorded the end

    def look(self) -> None:
        """Read the whole queue."""
        session, clock = self._session, self._session.clock
        began = clock.monotonic()
        with session.state.reading():
            jobs = {job.trigger.trigger_id: job for job in session.state.jobs.open()}
            waiting = [trigger for trigger in session.state.inbox.waiting() if self._is_wanted(trigger)]
        found = []
        for trigger in waiting:
            job = jobs.get(trigger.trigger_id)
            if job is not None or not self._enqueued_only:
                priority = job.priority if job is not None else "low" if trigger.low else "normal"
                found.append(
                    Candidate(PRIORITIES.index(priority), trigger.received_at, trigger.trigger_id, trigger, job)
                )
        self._known = sorted(found, key=lambda one: one[:3])
        self.orphans = sorted(jobs.keys() - {trigger.trigger_id for trigger in waiting})
        self._looked_at = clock.monotonic()
        self._look_ms = (self._looked_at - began) * 1000

    def _is_wanted(self, trigger: Trigger) -> bool:
        return is_job(trigger) and (not self._datasets or trigger.dataset in self._datasets)

    def candidates(self, only: Collection[str] | None = None) -> Iterator[tuple[Trigger, JobState | None]]:
        """Yield the jobs that may be claimed now, as they are now, in the order of the work. With `only`, those of
        these triggers. The claim looks at their pools."""
        if only is not None:
            yield from self._named(only)
            return
        now = self._session.clock.monotonic()
        is_old = self._looked_at is None or not 0 <= (now - self._looked_at) * 1000 < max(AGE_MS, 10 * self._look_ms)
        if is_old or not self._known:
            self.look()
        known, self._known = self._known, []
        for position, one in enumerate(known):
            self._known = known[position + 1 :]
            if (found := self._now(one.trigger)) is not None:
                yield found

    def _named(self, only: Collection[str]) -> Iterator[tuple[Trigger, JobState | None]]:
        unknown = set()
        for trigger_id in dict.fromkeys(only):
            job = self._session.state.jobs.get(trigger_id)
            if job is None:
                unknown.add(trigger_id)
            elif self._is_wanted(job.trigger) and (found := self._now(job.trigger)) is not None:
                yield found
        if unknown and not self._enqueued_only:
            for trigger in list(self._session.state.inbox.waiting()):
                is_named = trigger.trigger_id in unknown and self._is_wanted(trigger)
                if is_named and (found := self._now(trigger)) is not None:
                    yield found

    def _now(self, trigger: Trigger) -> tuple[Trigger, JobState | None] | None:
        """Return a job as it is now; None if it cannot be claimed now."""
        state, now_ms = self._session.state, self._session.clock.now_ms()
        kept = state.inbox.kept(trigger)
        if kept is None:
            return None
        job = state.jobs.get(kept.trigger_id)
        if job is not None and (job.status != "waiting" or job.not_before_ms > now_ms):
            return None
        if self.is_running(kept.trigger_id) or self.is_busy(kept):
            return None
        return kept, job

    def is_running(self, trigger_id: str) -> bool:
        """Return whether a live worker has this job."""
        lease = self._session.state.leases.of(scope_of(trigger_id))
        return lease is not None and is_held(lease, self._session.state.now_ms())

    def is_busy(self, trigger: Trigger) -> bool:
        """Return whether the dataset is frozen, or a live worker has it."""
        state = self._session.state
        if self._is_frozen(trigger.dataset):
            return True
        found = (state.leases.of(scope) for scope in scopes(trigger.updater_id, trigger.dataset, trigger.partition))
        return any(lease is not None and is_held(lease, state.now_ms()) for lease in found)

    def _is_frozen(self, dataset: str) -> bool:
        return any(refs.is_frozen(self._session.state.refs.at(flag)) for flag in refs.switches(dataset))

    def is_awaited(self, trigger_id: str) -> bool:
        """Return whether a job waits only for the worker that has its dataset, or for a pause before an attempt that
        was given back."""
        job = self._session.state.jobs.get(trigger_id)
        if (
            job is None
            or job.status != "waiting"
            or job.failures
            or self._session.state.inbox.kept(job.trigger) is None
        ):
            return False
        return not self._is_frozen(job.trigger.dataset) and self.may_take(job.trigger.dataset)

    def may_take(self, dataset: str) -> bool:
        """Return whether this worker may handle the dataset. Where the labels cannot be read, it may not."""
        try:
            return self._pools is None or self.takes(job_pools(self._session, dataset))
        except BadInput as problem:
            self._tell(dataset, problem)
            return False

    def takes(self, pools: Collection[str]) -> bool:
        """Return whether this worker has all of these pools."""
        return self._pools is None or self._pools.issuperset(pools)

    def depth(self) -> QueueDepth:
        """Return how much waits. It reads the whole queue once, and asks once about each dataset."""
        ready, running = self._sorted_out()
        now_ms = self._session.clock.now_ms()
        oldest = min((one.received_ms(now_ms) for one in ready), default=now_ms)
        dead = sum(1 for _ in self._session.state.jobs.dead())
        waiting = len(self._known) - running
        return QueueDepth(waiting=waiting, ready=len(ready), running=running, dead=dead, lag_ms=max(now_ms - oldest, 0))

    def untaken(self) -> Untaken | None:
        """Return the jobs that could be claimed now and that no worker has taken for a while; None if there is none, or
        if a worker has a job."""
        ready, running = self._sorted_out()
        now_ms = self._session.clock.now_ms()
        since_ms, count = now_ms, 0
        pools: tuple[str, ...] = ()
        known: dict[str, tuple[int, tuple[str, ...]] | None] = {}
        for one in ready if not running else ():
            dataset = one.trigger.dataset
            if dataset not in known:
                known[dataset] = self._opened(dataset)
            if (opened := known[dataset]) is None:
                continue
            count += 1
            lease = self._session.state.leases.of(scope_of(one.trigger_id))
            freed_ms = 0 if lease is None else min(lease.expires_ms, now_ms)  # its holder has died
            could_ms = max(one.received_ms(now_ms), opened[0], freed_ms, _last_ms(one.job, now_ms))
            if could_ms < since_ms:
                since_ms, pools = could_ms, opened[1]
        if not count:
            return None
        state = self._session.state
        for jobs in (state.jobs.open(), state.jobs.dead(), state.jobs.done(reverse=True, limit=1)):
            since_ms = max(since_ms, *(_last_ms(job, now_ms) for job in jobs), 0)
        return Untaken(jobs=count, since_ms=since_ms, pools=pools)

    def _opened(self, dataset: str) -> tuple[int, tuple[str, ...]] | None:
        """Return since when the dataset is neither frozen nor at work, as far as is known, and the pools that may have
        it; None if its labels cannot be read, because then no worker may take it."""
        try:
            pools = tuple(job_pools(self._session, dataset))
        except BadInput:
            return None
        state = self._session.state
        moves = (state.refs.history(flag, reverse=True, limit=1) for flag in refs.switches(dataset))
        ends = [move.ts for each in moves for move in each]
        ends += [entry.ts for entry in islice(state.ledger.entries_of(dataset), 1)]
        return max((parse_instant(each, "an entry") for each in ends), default=0), pools

    def _sorted_out(self) -> tuple[list[Candidate], int]:
        """Return the jobs that this worker could claim now, and how many run."""
        session = self._session
        self.look()
        now_ms = session.clock.now_ms()
        held = {lease.scope for lease in session.state.leases.below("job") if is_held(lease, session.state.now_ms())}
        open_to_us: dict[tuple[str, str, str], bool] = {}
        ready, running = list[Candidate](), 0
        for one in self._known:
            if scope_of(one.trigger_id) in held:
                running += 1
                continue
            trigger = one.trigger
            about = (trigger.updater_id, trigger.dataset, trigger.partition)
            if about not in open_to_us:
                open_to_us[about] = not self.is_busy(trigger) and self.may_take(trigger.dataset)
            if open_to_us[about] and (one.job is None or one.job.not_before_ms <= now_ms):
                ready.append(one)
        return ready, running


def _last_ms(job: JobState | None, now_ms: int) -> int:
    """Return when a worker last had a job, or it was put back or given up; 0 if never."""
    if job is None:
        return 0
    failed_ms = parse_instant(job.failures[-1].at, "a failure") if job.failures else 0
    given_back_ms = min(job.not_before_ms, now_ms) if job.not_before_ms <= now_ms + BUSY_MS else 0
    return max(job.claimed_ms, job.settled_ms, failed_ms, given_back_ms)
