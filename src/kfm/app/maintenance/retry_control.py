"""Breakers and budgets as people see and change them. Each change leaves a receipt and a ledger entry before it is
made."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.maintenance.maintenance_records import record
from kfm.app.session.datasets import dataset_names, dataset_updater
from kfm.app.session.retry_guards import SOURCE_BUDGET, STEP, operation_of
from kfm.clock import rfc3339
from kfm.engine.step_retries import BUDGET as STEP_BUDGET
from kfm.errors import BadInput, KfmError
from kfm.model.retries.retry_records import BreakerState, BudgetState
from kfm.parsing.characters import printable
from kfm.retries.budget import BudgetRules, counted
from kfm.sources import scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kfm.app.session.session import Session
    from kfm.model.records import Receipt

NAMED = 20  # names that a hint lists


class BreakerRow(msgspec.Struct, frozen=True):
    """One circuit breaker. Times are empty where there is none."""

    breaker: str
    state: str
    since: str = ""
    until: str = ""  # when one call is let through; empty: now, or only by hand
    failures: int = 0  # in a row
    why: str = ""
    who: str = ""


class BudgetRow(msgspec.Struct, frozen=True):
    """One retry budget."""

    budget: str
    state: str  # `granting`, `spent`, or `closed` by a person
    tokens: float
    of: float
    since: str = ""
    granted: int = 0  # retries, since the last reset
    why: str = ""
    who: str = ""


class Changed(NamedTuple):
    """A change by hand: the row afterwards, and the receipt of the operation."""

    row: BreakerRow | BudgetRow
    receipt: Receipt


def breaker_rows(session: Session) -> list[BreakerRow]:
    """Return every breaker of this installation, those of its sources also while they are closed."""
    rows = {name: BreakerRow(name, "closed") for name in _source_operations(session)}
    rows |= {each.name: _breaker_row(each) for each in session.state.breakers.all()}
    return [rows[name] for name in sorted(rows)]


def budget_rows(session: Session) -> list[BudgetRow]:
    """Return every retry budget of this installation. Those of steps are listed once they were used."""
    now = session.state.now_ms()
    rows = {name: _budget_row(name, None, now) for name in _source_operations(session)}
    rows |= {each.name: _budget_row(each.name, each, now) for each in session.state.budgets.all()}
    return [rows[name] for name in sorted(rows)]


def open_breaker(session: Session, name: str, *, reason: str, actor: str = "") -> Changed:
    """Refuse all calls of an operation until a person closes its breaker. BadInput for an unknown one."""
    _check_known("breaker", name, [row.breaker for row in breaker_rows(session)])
    receipt = _recorded(session, "breakers", "open", name, reason, actor)
    with session.state.transaction() as tx:
        now = session.state.now_ms()
        opened = BreakerState(name=name, state="open", since_ms=now, why=receipt.reason, who=receipt.actor)
        tx.breakers.keep(opened)
    return Changed(_breaker_row(opened), receipt)


def close_breaker(session: Session, name: str, *, reason: str, actor: str = "") -> Changed:
    """Let all calls of an operation through; its failures are counted anew. BadInput if the breaker is closed."""
    _check_known("breaker", name, [row.breaker for row in breaker_rows(session)])
    if session.state.breakers.get(name) is None:
        raise BadInput(f"breaker {name} is closed, and has no failures", hint="nothing is left to close")
    receipt = _recorded(session, "breakers", "close", name, reason, actor)
    with session.state.transaction() as tx:
        tx.breakers.forget(name)
    return Changed(BreakerRow(name, "closed"), receipt)


def close_budget(session: Session, name: str, *, reason: str, actor: str = "") -> Changed:
    """Grant an operation no retry until a person resets its budget. BadInput for an unknown one."""
    _check_known("budget", name, _known_budgets(session))
    receipt = _recorded(session, "budgets", "close", name, reason, actor)
    with session.state.transaction() as tx:
        now = session.state.now_ms()
        before = tx.budgets.get(name)
        granted = 0 if before is None else before.granted
        closed = BudgetState(
            name=name, tokens=0, at_ms=now, granted=granted, since_ms=now, closed=True, why=receipt.reason,
            who=receipt.actor,
        )  # fmt: skip
        tx.budgets.keep(closed)
    return Changed(_budget_row(name, closed, now), receipt)


def reset_budget(session: Session, name: str, *, reason: str, actor: str = "") -> Changed:
    """Fill a budget, and open it if a person had closed it. BadInput if it is full."""
    _check_known("budget", name, _known_budgets(session))
    if session.state.budgets.get(name) is None:
        raise BadInput(f"budget {name} is full", hint="nothing is left to reset")
    receipt = _recorded(session, "budgets", "reset", name, reason, actor)
    with session.state.transaction() as tx:
        tx.budgets.forget(name)
    return Changed(_budget_row(name, None, session.state.now_ms()), receipt)


BREAKER_ACTIONS: dict[str, Callable[..., Changed]] = {"open": open_breaker, "close": close_breaker}
BUDGET_ACTIONS: dict[str, Callable[..., Changed]] = {"close": close_budget, "reset": reset_budget}


def _recorded(session: Session, operation: str, action: str, name: str, reason: str, actor: str) -> Receipt:
    return record(session, operation, {"action": action, "name": name}, reason=reason, actor=actor)


def _check_known(kind: str, name: str, known: Iterable[str]) -> None:
    names = sorted(set(known))
    if name in names:
        return
    listed = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
    cure = f"one of: {listed}" if names else "the sources of kfm.yml have one, with `network: {retries: N}`"
    if not name:
        raise BadInput(f"no {kind} is named", hint=cure)
    raise BadInput(f"there is no {kind} {printable(name, 100)}", hint=cure)


def _source_operations(session: Session) -> set[str]:
    """Return the operations of all sources that kfm.yml names and that are retried."""
    if not session.config.network.retries:
        return set()
    found = set()
    for declared in session.config.datasets.values():
        for source in declared.sources.values():
            with suppress(KfmError, IndexError):  # an address that a run refuses has no breaker
                if scheme_of(source.uri) in ("http", "https", "s3"):
                    found.add(operation_of(source.uri))
    return found


def _known_budgets(session: Session) -> set[str]:
    """Return the operations that have a budget: also the steps of every updater that repeats them."""
    found = _source_operations(session) | {each.name for each in session.state.budgets.all()}
    for name in dataset_names(session):
        with suppress(KfmError):  # code that cannot be loaded repeats nothing
            updater = dataset_updater(session, name)
            if updater.retries:
                found.add(f"{STEP}{updater.id}")
    return found


def _breaker_row(found: BreakerState) -> BreakerRow:
    until = rfc3339(found.until_ms) if found.until_ms else ""
    return BreakerRow(
        found.name, found.state, rfc3339(found.since_ms), until, found.failures, found.why, _shown(found.who)
    )  # fmt: skip


def _budget_row(name: str, found: BudgetState | None, now_ms: int) -> BudgetRow:
    rules: BudgetRules = STEP_BUDGET if name.startswith(STEP) else SOURCE_BUDGET
    now = counted(found, name, now_ms, rules, 0)
    state = "closed" if now.closed else "granting" if now.tokens >= 1 else "spent"
    since = rfc3339(now.since_ms) if now.since_ms and state != "granting" else ""
    return BudgetRow(name, state, round(now.tokens, 1), rules.tokens, since, now.granted, now.why, _shown(now.who))


def _shown(who: str) -> str:
    """Return a person as stored, and a process by its machine and number alone."""
    parts = who.split(":")
    return f"{parts[0]}, process {parts[1]}" if len(parts) == 5 and parts[1].isdigit() else who
