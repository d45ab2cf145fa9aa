"""The breakers and budgets of an installation: which operation has which, and by what rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kfm.errors import Frozen, KfmError
from kfm.retries.budget import BudgetRules
from kfm.retries.circuit import BreakerRules
from kfm.retries.shared_guards import SharedBreaker, SharedBudget
from kfm.sources import scheme_of

if TYPE_CHECKING:
    from kfm.app.session.session import Session

SOURCE, STEP = "source/", "step/"
# Ten failures in a row, of all datasets of a host: two runs with the usual number of retries do not open it.
SOURCE_BREAKER = BreakerRules(failures=10, pause_s=30, longest_s=600, trial_s=120)
SOURCE_BUDGET = BudgetRules(tokens=50, ratio=0.2, per_minute=5)


class SourceGuards(NamedTuple):
    """Who decides about the retries of one source."""

    session: Session
    dataset: str
    operation: str

    @property
    def breaker(self) -> SharedBreaker:
        from kfm.store.process_identity import this_process

        state, log = self.session.state, self.session.log

        def tell(name: str, circuit: str, why: str) -> None:
            log.event(f"breaker.{_EVENTS[circuit]}", breaker=name, why=why)

        return SharedBreaker(state, self.operation, SOURCE_BREAKER, who=this_process(), on_change=tell)

    @property
    def budget(self) -> SharedBudget:
        from kfm.store.process_identity import this_process

        budgets = self.session.retry_budgets  # one object for each operation: it counts successes in memory
        if self.operation not in budgets:
            budgets[self.operation] = SharedBudget(
                self.session.state, self.operation, SOURCE_BUDGET, who=this_process()
            )
        return budgets[self.operation]

    def halt(self) -> KfmError | None:
        """Return Frozen if a freeze flag of the dataset is set."""
        from kfm.model import refs

        try:
            with self.session.state.transaction(durable=False, switches=refs.switches(self.dataset)):
                return None
        except Frozen as problem:
            return problem


_EVENTS = {"open": "opened", "half-open": "tried", "closed": "closed"}


def operation_of(uri: str) -> str:
    """Return the operation that fetching this address is: all addresses of one host, or of one bucket, share it."""
    if scheme_of(uri) == "s3":
        return f"{SOURCE}s3/{uri.split('/')[2]}"
    from kfm.sources.urls import parse

    return SOURCE + parse(uri).authority


def source_guards(session: Session, dataset: str, uri: str) -> SourceGuards | None:
    """Return the guards of a source; None in a session that only reads, which shares nothing."""
    return None if session.mode == "read" else SourceGuards(session, dataset, operation_of(uri))
