"""Repeats steps that failed: as often as the updater says, as its shared budget allows, and while nothing is frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.errors import BudgetSpent, KfmError, Unavailable
from kfm.model import refs
from kfm.retries.budget import BudgetRules
from kfm.retries.policy import Policy

if TYPE_CHECKING:
    from kfm.engine.run_context import RunContext
    from kfm.model.records import Lease
    from kfm.retries.budget import Budget

LONGEST_S = 60.0  # the most seconds between two attempts of a step
# An author who declares retries counts on them: a run may repeat every second step for as long as it likes.
BUDGET = BudgetRules(tokens=100, ratio=0.5, per_minute=10)


class StepRetries:
    """The retries of the steps of one run. Threads share it. A worker of a cluster performs steps once, without the
    lease of the run."""

    def __init__(self, context: RunContext, run_id: str = "", lease: Lease | None = None) -> None:
        updater = context.updater
        self._state = context.world.state
        # The author declares the waits, so they are fixed: the steps of one run need no spreading.
        self._policy = Policy(
            attempts=updater.retries + 1,
            first_s=updater.backoff_s,
            longest_s=LONGEST_S,
            jitter=0,
            on=(Unavailable, *updater.retry_on),
            statuses=None,
        )
        self._lease = lease
        self._switches = context.switches_of(run_id) if run_id else context.switches
        self._budget: Budget | None = None
        if updater.retries:
            from kfm.retries.shared_guards import SharedBudget

            holder = "" if lease is None else lease.holder
            self._budget = SharedBudget(context.world.state, f"step/{updater.id}", BUDGET, who=holder)

    def succeeded(self) -> None:
        if self._budget is not None:
            self._budget.give_back()

    def is_passing(self, problem: BaseException) -> bool:
        """Return whether this error may be gone at the next attempt."""
        return self._policy.is_passing(problem)

    def wait_s(self, passing: bool, failure: KfmError, attempt: int) -> float:
        """Return the wait before the next attempt. Raise the failure if there is none, BudgetSpent if the budget is
        used up or cannot be read, and what `check_open` raises."""
        if not passing or attempt >= self._policy.attempts:
            raise failure
        self.check_open()
        if self._budget is not None:
            from kfm.retries.attempts import refused_after, unreadable

            try:
                self._budget.take(failure.code)
            except BudgetSpent as spent:
                raise refused_after(spent, failure) from failure
            except Exception as problem:
                raise unreadable("the step") from problem
        return self._policy.wait_s(attempt)

    def check_open(self) -> None:
        """Raise Frozen if a freeze flag is set, Cancelled if the run was cancelled, Fenced if another worker has it."""
        with self._state.transaction(self._lease, durable=False, switches=self._switches):
            pass

    def look(self) -> None:
        """Raise what `check_open` raises if a flag is set. It only reads, so it may be asked often."""
        if any(refs.is_frozen(self._state.refs.at(flag)) for flag in self._switches):
            self.check_open()
