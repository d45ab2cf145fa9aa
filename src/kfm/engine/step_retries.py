"""Repeats steps that failed: as often as the updater says, as its shared budget allows, and while nothing is frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.errors import BudgetSpent, KfmError, Unavailable
from kfm.retries.budget import BudgetRules
from kfm.retries.policy import Policy

if TYPE_CHECKING:
    from kfm.engine.run_context import RunContext
    from kfm.retries.budget import Budget

LONGEST_S = 60.0  # the most seconds between two attempts of a step
# An author who declares retries counts on them: a run may repeat every second step for as long as it likes.
BUDGET = BudgetRules(tokens=100, ratio=0.5, per_minute=10)


class StepRetries:
    """The retries of the steps of one run. Threads share it."""

    def __init__(self, context: RunContext) -> None:
        updater = context.updater
        self._context = context
        # The author declares the waits, so they are fixed: the steps of one run need no spreading.
        self._policy = Policy(
            attempts=updater.retries + 1,
            first_s=updater.backoff_s,
            longest_s=LONGEST_S,
            jitter=0,
            on=(Unavailable, *updater.retry_on),
            statuses=None,
        )
        self._budget = _budget(context) if updater.retries else None

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
        context, run = self._context, self._context.reached.run
        switches = context.switches if run is None else context.switches_of(run.run_id)
        with context.world.state.transaction(context.reached.lease, durable=False, switches=switches):
            pass


def _budget(context: RunContext) -> Budget:
    from kfm.retries.shared_guards import SharedBudget

    lease = context.reached.lease
    holder = "" if lease is None else lease.holder
    return SharedBudget(context.world.state, f"step/{context.updater.id}", BUDGET, who=holder)
