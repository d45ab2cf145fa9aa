"""Works on a backfill: one partition after another, each as a run of its own.

Several workers may work on one backfill, on one machine or more. Each takes partitions that no worker has, and those
that a dead worker left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kfm.app.runs.auto_promotion import promote
from kfm.app.runs.due_schedules import schedules_of
from kfm.app.runs.run_control import resume_runs, run_trigger
from kfm.app.runs.trigger_request import new_trigger, trigger_updater
from kfm.app.session.datasets import dataset_config, dataset_updater
from kfm.clock import rfc3339
from kfm.errors import Broken, Conflict, Corrupt, Denied, Frozen, Full, KfmError, PlanDrift, Refused
from kfm.model import refs
from kfm.model.backfill_plan import FAILED, BackfillPlan, Flight
from kfm.model.records import Lease, Receipt, Trigger
from kfm.scheduling.backfill_cursor import BackfillProgress, is_new, result_of
from kfm.scheduling.tick_claims import is_paused
from kfm.store.process_identity import is_held, this_process

if TYPE_CHECKING:
    from kfm.app.session.recorded_config import RecordedSettings
    from kfm.app.session.session import Session

CONFLICTS = 3  # in a row, after which this worker leaves the backfill to others
LATER_S = 15  # seconds until a finished or stopped backfill is examined again
TAKEN_MS = 60_000  # how long a worker on another machine is believed to be alive
Tell = Callable[[str, KfmError], None]


def is_alive(flight: Flight, now_ms: int) -> bool:
    """Return whether the worker that took a partition may still work on it: its process is not known to be dead, or it
    took the partition a short time ago."""
    if not flight.holder:
        return False  # the worker returned it
    lease = Lease(
        scope="", token=0, holder=flight.holder, expires_ms=flight.since_ms + 365 * 86_400_000, ttl_ms=TAKEN_MS
    )
    seen = is_held(lease, now_ms)
    return seen or is_held(replace(lease, expires_ms=flight.since_ms + TAKEN_MS), now_ms)


class FollowingTriggers:
    """Makes the triggers of schedules that follow the backfilled dataset, after one partition or after all. It is
    created before a transaction begins."""

    def __init__(self, session: Session, plan: BackfillPlan) -> None:
        self._plan = plan
        self._asked: list[Trigger] = []
        if plan.downstream == "suppress" or not plan.after:
            return
        for schedule in schedules_of(session.resolved):
            if schedule.id in plan.after and not is_paused(session.state, schedule):
                trigger = new_trigger(
                    session, schedule.dataset, kind="event", actor="kfm backfill", window=schedule.window
                )
                self._asked.append(trigger)

    def __call__(self, partition: str) -> list[Trigger]:
        what = f"partition {partition} of " if partition else ""
        return [replace(each, reason=f"after {what}backfill {self._plan.backfill}") for each in self._asked]


class Worker:
    """A worker on one backfill. All it has taken is recorded in the state, so it may be killed at any time."""

    def __init__(self, session: Session, board: BackfillProgress, tell: Tell, *, patient: bool = True) -> None:
        self._session = session
        self._patient = patient
        self._waits: tuple[int, Trigger] | None = None  # the partition that waits for a slot of a pool
        self._board = board
        self._tell = tell
        self._telling = FollowingTriggers(session, board.plan)
        self._recorded = _recorded(session, board.plan)
        self._begun = _begun(session, board, self._recorded)
        self._conflicts = 0
        self.over = False  # no partition was left to take
        self.stopped = ""  # why it ended before the backfill was finished
        self.busy = False

    def work(self) -> Iterator[Receipt]:
        """Run partitions until none is left that this worker can take; yield the receipts."""
        yield from self.left()
        while not self.stopped and not self.over:
            receipt = self.one()
            if receipt is not None:
                yield receipt
        if not self.stopped:
            yield from self.left()

    @property
    def dataset(self) -> str:
        return self._board.plan.dataset

    @property
    def waits(self) -> bool:
        """Whether a partition waits for a slot of a pool."""
        return self._waits is not None

    def one(self) -> Receipt | None:
        """Run the next free partition and return its receipt. None if there is none, if another worker has it, or if it
        waits for a slot."""
        if self._waits is not None:
            waits, self._waits = self._waits, None
            return self._run(*waits)
        if (closed := self._closed()) is not None:
            self.stopped = "closed by an objective"
            self._tell(self.dataset, closed)
            return None
        try:
            taken = self._board.claim(self._trigger(), this_process(), self._session.state.now_ms(), self._telling)
        except Frozen:
            self.stopped = "paused"
            return None
        self.over = taken is None
        return self._run(*taken) if taken is not None else None

    def _closed(self) -> Denied | None:
        """Return why no further partition is taken: a burnt error budget closes it until it recovers."""
        if not self._session.resolved.has_objectives:
            return None
        from kfm.app.objectives.error_budgets import closed_by_objectives

        why = closed_by_objectives(self._session, "backfill", self.dataset)
        hint = "see `kfm slo`; what is built stays, and the rest is built when the budget recovers"
        return None if why is None else Denied(why, hint=hint)

    def left(self) -> Iterator[Receipt]:
        """Handle partitions that were taken and have no result: record the result of an ended run, and run again those
        whose worker is gone. Yields the receipts of the latter."""
        me = this_process()
        for text, flight in self._board.progress().flying.items():
            position = int(text)
            ended = self._session.state.inbox.ended(flight.trigger_id)
            receipt = self._session.state.ledger.receipt(ended.run_id) if ended is not None else None
            if receipt is not None:
                self._note(position, receipt)
                continue
            now_ms = self._session.state.now_ms()
            if flight.holder != me and is_alive(flight, now_ms):
                continue
            try:
                trigger = self._board.take_over(position, me, now_ms)
            except Frozen:
                self.stopped = "paused"
                return
            if trigger is None:
                if self._session.state.inbox.ended(flight.trigger_id) is None:
                    self._board.note(position, FAILED, self._telling, new=False)  # its trigger was dropped
                continue
            found = self._run(position, trigger)
            if found is not None:
                yield found
            if self.stopped:
                return

    def _trigger(self) -> Trigger:
        return replace(self._begun, received_at=rfc3339(self._session.clock.now_ms()))

    def _run(self, position: int, trigger: Trigger) -> Receipt | None:
        session = self._session
        self.busy = True
        try:
            receipt = self._taken_up(trigger) or self._fresh(trigger)
        except Broken:
            raise
        except Full:
            self._waits = (position, trigger)
            return None
        except Conflict as problem:  # another worker has it or has ended it, and the next check records the result
            self._board.give_back(position)
            self._conflicts += 1
            if self._conflicts == CONFLICTS or dataset_updater(session, trigger.dataset).lease_by != "partition":
                self.stopped = problem.message
            return None
        except KfmError as problem:
            self._board.give_back(position)
            self._tell(f"{trigger.dataset} {trigger.partition}", problem)
            self.stopped = "frozen" if isinstance(problem, Frozen) else "a run could not be ended"
            return None
        finally:
            self.busy = False
        self._conflicts = 0
        if not self._note(position, receipt):
            self._board.give_back(position)
            self.stopped = "frozen"
        return receipt

    def _fresh(self, trigger: Trigger) -> Receipt:
        session, recorded = self._session, self._recorded
        if recorded is None:
            return run_trigger(session, trigger, trigger_updater(session, trigger), patient=self._patient)
        return run_trigger(session, trigger, recorded.updater, patient=self._patient, recorded=recorded.settings)

    def _taken_up(self, trigger: Trigger) -> Receipt | None:
        """Resume the unfinished run of this trigger, if there is one, and return its receipt."""
        for run in self._session.state.runs.unfinished(trigger.dataset):
            if run.trigger.trigger_id == trigger.trigger_id:
                return next(iter(resume_runs(self._session, run.run_id, recorded=self._recorded)), None)
        return None

    def _note(self, position: int, receipt: Receipt) -> bool:
        result = result_of(receipt)
        if result is not None:
            self._board.note(position, result, self._telling, new=is_new(receipt))
        return result is not None


def _recorded(session: Session, plan: BackfillPlan) -> RecordedSettings | None:
    """Return the settings that the backfill was planned with, if kfm.yml has changed since; else None. PlanDrift if
    they are not stored."""
    if plan.config_hash == dataset_config(session, plan.dataset).digest():
        return None
    from kfm.app.session.recorded_config import recorded_settings

    try:
        return recorded_settings(session, plan.dataset, plan.config_hash, "start the backfill again")
    except (Corrupt, Refused) as problem:
        raise _drift(plan, f"settings of {plan.dataset} that cannot be read: {problem.message}") from problem


def _begun(session: Session, board: BackfillProgress, recorded: RecordedSettings | None) -> Trigger:
    """Return the trigger that each partition is run with. It names the actor and reason of the start, whichever worker
    runs it. PlanDrift if the updater has changed since the plan."""
    plan = board.plan
    updater = dataset_updater(session, plan.dataset) if recorded is None else recorded.updater
    if (updater.id, updater.version, updater.code_hash) != (plan.updater, plan.updater_version, plan.code_hash):
        raise _drift(plan, f"other code or another version of {plan.dataset}")
    moved = next(iter(session.state.refs.history(board.ref, reverse=True, limit=1)))
    reason = f"backfill {plan.backfill}" + (f": {moved.reason}" if moved.reason else "")
    trigger = new_trigger(session, plan.dataset, actor=moved.actor, reason=reason)
    return replace(trigger, correlation_id=f"backfill.{plan.backfill}.{plan.n}", pool=plan.pool, low=True)


def _drift(plan: BackfillPlan, what: str) -> PlanDrift:
    return PlanDrift(
        f"backfill {plan.backfill} was planned with {what}",
        hint=f"go back to it, or end it (`kfm backfill cancel {plan.backfill}`) and start it again",
    )


class Backfills:
    """All running backfills, for `kfm up`. Each round runs one partition of each, so that other work comes in
    between."""

    def __init__(
        self, session: Session, datasets: Sequence[str], tell: Tell, *, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        self._session = session
        self._goes_on = goes_on
        self._watched = frozenset(datasets)
        self._tell = tell
        self._workers: dict[str, Worker] = {}  # by the digest of the plan
        self._wait: dict[str, float] = {}
        self.more = False  # a partition may be left to take

    @property
    def busy(self) -> bool:
        return any(worker.busy for worker in self._workers.values())

    def turn(self) -> Iterator[Receipt]:
        """Run one partition of each backfill that is not paused; yield the receipts."""
        self.more = False
        for ref, digest in list(self._session.state.refs.all(refs.BACKFILL)):
            if self._wait.get(digest, 0) > self._session.clock.monotonic() or is_set(self._session, ref):
                continue
            if not self._goes_on():
                return
            try:
                yield from self._one(digest)
            except Broken:
                raise
            except KfmError as problem:
                self._tell(ref.replace("/", " "), problem)
                self._later(digest)

    def _one(self, digest: str) -> Iterator[Receipt]:
        worker = self._workers.get(digest)
        if worker is None:
            board = BackfillProgress(self._session.state, self._session.objects, digest)
            if board.plan.dataset not in self._watched or board.is_over(board.progress()):
                self._later(digest)
                return
            worker = self._workers[digest] = Worker(self._session, board, self._tell, patient=False)
            yield from worker.left()
        if not worker.stopped:
            receipt = worker.one()
            if receipt is not None:
                yield receipt
        if worker.over and not worker.stopped:
            yield from worker.left()
            yield from promote(self._session, worker.dataset, self._tell)
        if worker.over or worker.stopped:
            del self._workers[digest]
            self._later(digest)
        elif not worker.waits:
            self.more = True

    def _later(self, digest: str) -> None:
        self._wait[digest] = self._session.clock.monotonic() + LATER_S


def is_set(session: Session, ref: str) -> bool:
    """Return whether this backfill is paused."""
    return refs.is_frozen(session.state.refs.at(refs.SWITCH + ref))
