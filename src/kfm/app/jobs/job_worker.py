"""A worker's turn: it claims one job and does it.

Every waiting trigger is a job, except operations, which people finish, and the runs of backfills, which run themselves.
The attempt is counted, durably and with the lease, before the work begins: so a job that kills its workers ends as a
dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.classification import world_of
from kfm.app.authority.run_setup import context_of
from kfm.app.jobs.job_pools import job_pools
from kfm.app.jobs.job_queue import JobQueue, is_job, scope_of
from kfm.app.jobs.job_queue import QueueDepth as QueueDepth
from kfm.app.jobs.job_requests import derived_job
from kfm.app.jobs.job_verdict import LOST, Limits, Verdict, carry_out, judged
from kfm.app.runs.auto_promotion import promote_left, with_promotions
from kfm.app.runs.run_control import resume_runs, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import trigger_updater
from kfm.engine import heartbeat
from kfm.engine.receipt_stage import merge
from kfm.engine.stage_results import Tenure
from kfm.errors import BadInput, Broken, Conflict, KfmError
from kfm.model.jobs.job_records import JobState
from kfm.model.records import Lease, Receipt, Trigger
from kfm.model.run_overrides import overrides_of
from kfm.store.process_identity import this_process

if TYPE_CHECKING:
    from kfm.app.session.session import Session

Tell = Callable[[str, KfmError], None]
AGAIN_S = 10.0  # between two deliveries of what others committed, if nothing new is seen
MERGED = 100  # the most equal triggers that one run answers in one turn


class Claim(msgspec.Struct, frozen=True):
    """A claimed job, with the lease on it."""

    job: JobState
    lease: Lease


class JobResult(msgspec.Struct, frozen=True):
    """What became of a job in one turn."""

    job: JobState  # as it is now
    receipts: tuple[Receipt, ...]  # of the run, of the promotion after it, and of triggers that the run answered, too
    problem: KfmError | None
    duration_ms: int


class JobWorker:
    """Claims and does jobs, one in each turn. It keeps nothing that may not be lost; any number of workers in any
    number of processes work side by side."""

    def __init__(
        self,
        session: Session,
        *,
        pools: Collection[str] | None = (),
        datasets: Collection[str] = (),
        tell: Tell = lambda _about, _problem: None,
        goes_on: Callable[[], bool] = lambda: True,
        enqueued_only: bool = False,
    ) -> None:
        """`pools` are the custodians whose protected datasets this worker may handle; with none it takes only what is
        plainly not protected, with None everything. `datasets` narrows the work; empty: all. `tell` receives problems
        as they come; `goes_on` is asked before a job is claimed. With `enqueued_only`, triggers that came without an
        envelope are left to others."""
        self._session = session
        self._tell = tell
        self._goes_on = goes_on
        self._queue = JobQueue(session, pools, datasets, tell, enqueued_only=enqueued_only)
        workers = session.config.workers
        self._limits = Limits(workers.attempts, round(workers.backoff_s * 1000))
        self._host = this_process().partition(":")[0]
        self._did_something = False
        self._datasets = sorted(datasets) or sorted(session.config.datasets)
        self._enqueued_only = enqueued_only
        self._delivered = (-1, 0.0)  # the last ledger entry that was delivered, and when
        self._undelivered = ""  # what the last settlement could not deliver
        self.last: JobResult | None = None  # what became of the last job that this worker claimed

    def turn(self, only: Collection[str] | None = None) -> Receipt | None:
        """Claim one job and do it; return its receipt, after everything is durable and delivered. None if no job could
        be claimed, or if the one that was claimed left no receipt: see `last`. With `only`, these triggers alone are
        looked at."""
        self._did_something, self.last = False, None
        claim = self._next(only)
        for trigger_id in self._queue.orphans if only is None else only:
            self._settle_ended(trigger_id)
        if only is None:
            self._queue.orphans = []
        if claim is None:
            if not self._enqueued_only:  # else the process around this worker delivers
                self._deliver_left()
            return None
        self._did_something = True
        result = self.last = self._do(claim)
        return result.receipts[0] if result.receipts else None

    def pause_s(self) -> float:
        """Return how long to wait before the next turn if no message comes: not at all after a turn that did
        something."""
        return 0.0 if self._did_something else self._session.config.workers.sweep_s

    def is_awaited(self, trigger_id: str) -> bool:
        """Return whether this job waits only until another worker has ended a run of its dataset."""
        return self._queue.is_awaited(trigger_id)

    def depth(self) -> QueueDepth:
        """Return how much waits."""
        return self._queue.depth()

    # -- claims

    def _next(self, only: Collection[str] | None) -> Claim | None:
        for trigger, job in self._queue.candidates(only):
            if not self._goes_on():
                return None
            claim = self._claim(trigger, job)
            if claim is not None:
                return claim
        return None

    def _claim(self, trigger: Trigger, seen: JobState | None) -> Claim | None:
        """Take the lease on a job and count the attempt, in one durable transaction. None if another worker was
        quicker, or if the last attempt was lost with its worker: then that is recorded."""
        session, now_ms = self._session, self._session.clock.now_ms()
        try:
            pools = job_pools(session, trigger.dataset)  # now: a label may have been tightened since the job came
        except BadInput as problem:  # without labels nobody can say whose job it is
            self._tell(trigger.dataset, problem)
            return None
        if not self._queue.takes(pools):
            return None
        job = msgspec.structs.replace(seen or derived_job(session, trigger), trigger=trigger, pools=pools)
        lost = Verdict("retry", LOST) if job.holder else None  # an attempt began, and no worker recorded its end
        with session.state.transaction() as tx:
            if session.state.inbox.kept(trigger) != trigger or session.state.jobs.get(trigger.trigger_id) != seen:
                return None
            if self._queue.is_running(trigger.trigger_id):
                return None
            if lost is not None:
                job = carry_out(tx, job, lost, self._limits, now_ms, job.holder.partition(":")[0])
            else:
                lease = tx.leases.acquire(scope_of(trigger.trigger_id), this_process(), self._lease_ms)
                job = tx.jobs.attempt(job, this_process(), now_ms)
        if lost is None:
            return Claim(job, lease)
        self._did_something = True
        self._say_end(job, lost, None, None)
        return None

    @property
    def _lease_ms(self) -> int:
        return round(self._session.config.execute.lease_s * 1000)

    def _settle_ended(self, trigger_id: str) -> None:
        """Record the end of a job whose run ended its trigger, if the worker died before it did so itself."""
        state, now_ms = self._session.state, self._session.clock.now_ms()
        job = state.jobs.get(trigger_id)
        if job is None or job.status != "waiting" or state.inbox.kept(job.trigger) is not None:
            return
        if self._queue.is_running(trigger_id):
            return
        ended = state.inbox.ended(trigger_id)
        receipt = state.ledger.receipt(ended.run_id) if ended is not None else None
        verdict = judged(receipt, None)
        with state.transaction() as tx:
            if state.jobs.get(trigger_id) != job or state.inbox.kept(job.trigger) is not None:
                return
            carry_out(tx, job, verdict, self._limits, now_ms, self._host)
            lease = state.leases.of(scope_of(trigger_id))
            if lease is not None:
                tx.leases.forget(lease)
        # The worker may have died before the promotion that follows.
        names = [job.trigger.dataset] if verdict.fate == "end" else []
        if list(promote_left(self._session, names, self._tell, self._note)):
            self._settle()

    # -- work

    def _do(self, claim: Claim) -> JobResult:
        session, job = self._session, claim.job
        began = session.clock.monotonic()
        if job.attempts > 1:
            self._say("job.retried", job, attempt=job.attempts)
        self._say("job.started", job, status="started", attempt=job.attempts)
        receipts: list[Receipt] = []
        problem: KfmError | None = None
        with self._renewed(claim):
            equal = list(islice(self._equal(job.trigger), MERGED))
            try:
                for receipt in with_promotions(session, self._run(job.trigger), self._tell, self._note):
                    receipts.append(receipt)
                if receipts and _ended_well(receipts[0]):
                    receipts += self._merged(equal, receipts[0])
            except Broken:
                raise
            except KfmError as raised:
                problem = raised
            job, verdict = self._record(claim, receipts[0] if receipts else None, problem)
        self._settle()
        duration_ms = round((session.clock.monotonic() - began) * 1000)
        self._say_end(job, verdict, receipts[0] if receipts else None, duration_ms)
        if problem is not None and verdict.fate in ("bury", "retry"):
            self._tell(job.trigger.dataset, problem)
        return JobResult(job, tuple(receipts), problem, duration_ms)

    @contextmanager
    def _renewed(self, claim: Claim) -> Iterator[None]:
        """Renew the lease on the job while the block runs. A block that is broken off frees it at once."""
        session, lease = self._session, claim.lease
        tenure = Tenure(lease, session.clock.now_ms())
        with suppress(KfmError):  # the dataset has left kfm.yml: the run says so
            heartbeat.begin(tenure, world_of(session, claim.job.trigger.dataset), tenure)
        try:
            yield
        except BaseException:
            with suppress(KfmError):
                session.state.leases.release(lease)
            raise
        finally:
            heartbeat.end(tenure)

    def _run(self, trigger: Trigger) -> Iterable[Receipt]:
        """Run a trigger; a run of it that another worker left unfinished is resumed."""
        session = self._session
        for unfinished in session.state.runs.unfinished(trigger.dataset):
            if unfinished.trigger.trigger_id == trigger.trigger_id:
                return resume_runs(session, unfinished.run_id, patient=False)
        return [run_trigger(session, trigger, trigger_updater(session, trigger), patient=False)]

    def _equal(self, trigger: Trigger) -> Iterator[Trigger]:
        """Yield the other triggers that wait for the same work as this one."""
        for each in self._session.state.inbox.waiting(trigger.dataset):
            same = (each.window, each.partition) == (trigger.window, trigger.partition) and is_job(each)
            is_other = each.trigger_id != trigger.trigger_id and not overrides_of(each)
            if same and is_other and not self._queue.is_running(each.trigger_id):
                yield each

    def _merged(self, equal: Iterable[Trigger], into: Receipt) -> Iterator[Receipt]:
        """End the triggers that this run answered, too; yield their receipts."""
        session = self._session
        for each in equal:
            try:
                receipt = merge(context_of(session, each, trigger_updater(session, each)), into)
            except Conflict:  # another worker has it
                continue
            if receipt is None:
                continue
            job = session.state.jobs.get(each.trigger_id)
            if job is not None and job.status == "waiting":
                with session.state.transaction(durable=False) as tx:
                    tx.jobs.end(job, receipt.run_id, session.clock.now_ms())
            yield receipt

    def _record(self, claim: Claim, receipt: Receipt | None, problem: KfmError | None) -> tuple[JobState, Verdict]:
        """Record what becomes of the job, and free it, in one transaction. If another worker has taken it over, nothing
        is written."""
        state, job = self._session.state, claim.job
        trigger_id = job.trigger.trigger_id
        if receipt is None and state.inbox.kept(job.trigger) is None:  # another process has ended its trigger
            ended = state.inbox.ended(trigger_id)
            receipt = state.ledger.receipt(ended.run_id) if ended is not None else None
            problem = None
        verdict = judged(receipt, problem)
        try:
            with state.transaction(claim.lease, durable=verdict.fate != "end") as tx:
                job = carry_out(tx, job, verdict, self._limits, self._session.clock.now_ms(), self._host)
                tx.leases.forget(claim.lease)
        except Conflict as fenced:
            self._say("job.fenced", job, status="failed", error={"code": fenced.code})
            return state.jobs.get(trigger_id) or job, verdict
        return job, verdict

    def _deliver_left(self) -> None:
        """Publish and deliver what a worker that died had committed. A worker without work looks at first, and again
        whenever others have committed, or a while after the last time."""
        session, now = self._session, self._session.clock.monotonic()
        newest = next((entry.index for entry in session.state.ledger.entries(reverse=True, limit=1)), 0)
        if newest == self._delivered[0] and 0 <= now - self._delivered[1] < AGAIN_S:
            return
        # Once: later a version may be one of a backfill, which is published when all of it is there.
        for _ in promote_left(session, self._datasets, self._tell, self._note) if self._delivered[0] < 0 else ():
            self._did_something = True
        self._settle()
        self._delivered = newest, now

    def _settle(self) -> None:
        """Make everything durable and deliver it. What is not delivered yet is delivered later: the job is done."""
        try:
            settle_session(self._session)
        except Broken:
            raise
        except KfmError as problem:
            if not self._session.undelivered:
                raise
            if str(problem) != self._undelivered:  # a worker that sweeps names a problem once
                self._tell("", problem)
            self._undelivered = str(problem)
        else:
            self._undelivered = ""
        self._session.recalled.clear()  # the log has them; a session that stays open must not keep all it ever did
        self._session.adopted.clear()
        for refused in self._session.sink_problems:
            self._tell("", refused)

    # -- log

    def _note(self, dataset: str, text: str) -> None:
        self._session.log.event("promotion.left", about=dataset, why=text)

    def _say_end(self, job: JobState, verdict: Verdict, receipt: Receipt | None, duration_ms: int | None) -> None:
        """Write what became of an attempt to the event log: with codes, and without messages, which may name data."""
        status = {"end": "succeeded", "give back": "skipped"}.get(verdict.fate, "failed")
        if status == "succeeded" and receipt is not None and receipt.status == "SKIPPED":
            status = "skipped"
        error = {"code": verdict.code} if verdict.code else None
        self._say(
            "job.ended" if duration_ms is not None else "job.lost",
            job,
            status=status,
            outcome=job.status,
            run_id=verdict.run_id or None,
            attempt=job.attempts,
            duration_ms=duration_ms,
            error=error,
        )

    def _say(self, event: str, job: JobState, **fields: object) -> None:
        envelope = job.envelope
        self._session.log.event(
            event,
            job_type=envelope.job_type,
            job_id=envelope.job_id,
            trigger_id=job.trigger.trigger_id,
            correlation_id=job.trigger.correlation_id or job.trigger.trigger_id,
            dataset_ids=[job.trigger.dataset],
            zone_out=[envelope.parameters.get("target_zone", "Processed")],
            policy_label=envelope.parameters.get("policy_label"),
            **fields,
        )


def _ended_well(receipt: Receipt) -> bool:
    return receipt.status == "SUCCESS" or receipt.outcome in ("noop", "unchanged", "merged")
