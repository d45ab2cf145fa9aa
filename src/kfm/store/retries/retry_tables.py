"""Circuit breakers and retry budgets: the rows that all processes of an installation share."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.model.retries.retry_records import BreakerState, BudgetState
from kfm.store.codec import Repository, exact


class Breakers(Repository):
    """Reads the circuit breakers that are not simply closed."""

    def get(self, name: str) -> BreakerState | None:
        return self._one("breakers", name, BreakerState)

    def all(self) -> Iterator[BreakerState]:
        return self._many("breakers", BreakerState)


class BreakersTx(Breakers):
    """Writes circuit breakers, inside an open transaction."""

    def keep(self, breaker: BreakerState) -> None:
        self._tables.put("breakers", breaker.name, exact(breaker))

    def forget(self, name: str) -> None:
        self._tables.delete("breakers", name)


class Budgets(Repository):
    """Reads the retry budgets that were used."""

    def get(self, name: str) -> BudgetState | None:
        return self._one("budgets", name, BudgetState)

    def all(self) -> Iterator[BudgetState]:
        return self._many("budgets", BudgetState)


class BudgetsTx(Budgets):
    """Writes retry budgets, inside an open transaction."""

    def keep(self, budget: BudgetState) -> None:
        self._tables.put("budgets", budget.name, exact(budget))

    def forget(self, name: str) -> None:
        self._tables.delete("budgets", name)
