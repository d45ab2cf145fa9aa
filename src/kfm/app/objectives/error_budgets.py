"""Error budgets: how much of what was promised went wrong, how fast, and what is closed because of it.

Runs and rollbacks are counted from the ledger, and the age of data is measured from the moves of refs. Everything is
computed under the clock of the session, so the same ledger gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from kfm.app.objectives.ledger_counts import LedgerFold
from kfm.clock import parse_instant
from kfm.config.objective_files import declared_objectives
from kfm.errors import BadInput, Corrupt, Denied, KfmError
from kfm.model import refs
from kfm.model.records import Record
from kfm.model.reports.objective import WINDOWS, Objective
from kfm.projections.budget_counts import BudgetCounts, counted

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.model.records import Trigger
    from kfm.model.updater import Updater

UNREADABLE = "its objectives cannot be read"
MOST_MOVES = 10_000  # of a ref; older ones count as the oldest of these
_declared: WeakKeyDictionary[Resolved, list[Objective]] = WeakKeyDictionary()


class Override(Record, frozen=True):
    """A steward's word that an objective closes nothing for a time."""

    objective: str
    until: str  # RFC 3339


class Budget(NamedTuple):
    """An objective, and how much of its error budget is left."""

    objective: Objective
    good: float  # events in its window, or milliseconds
    bad: float
    burn: dict[str, float | None]  # by window: 1.0 spends the budget in just its time; None: nothing happened
    override: Override | None  # that is in force now

    @property
    def actual(self) -> float | None:
        """The share that was good; None if nothing happened."""
        return self.good / (self.good + self.bad) if self.good + self.bad else None

    @property
    def left(self) -> float:
        """The share of the budget that is left; below 0: more went wrong than was allowed."""
        return 1.0 if self.actual is None else 1.0 - (1.0 - self.actual) / (1.0 - self.objective.target)

    @property
    def is_burnt(self) -> bool:
        return self.left <= 1e-9

    @property
    def closes(self) -> bool:
        """Whether risky operations on its datasets are closed."""
        return self.is_burnt and self.override is None


def objectives_of(resolved: Resolved) -> list[Objective]:
    """Return every declared objective. The files are read once for each configuration. BadInput if one has a
    mistake."""
    if resolved not in _declared:
        _declared[resolved] = declared_objectives(resolved)
    return _declared[resolved]


def _nothing_counted(session: Session) -> BudgetCounts:
    return BudgetCounts(objectives=counted(objectives_of(session.resolved)))


def _counts_the_same(known: BudgetCounts, fresh: BudgetCounts) -> bool:
    return known.objectives == fresh.objectives


BUDGETS = LedgerFold("budgets", BudgetCounts, _nothing_counted, _counts_the_same)


def budgets(session: Session, datasets: Iterable[str] | None = None) -> list[Budget]:
    """Return the budgets of all objectives, or of those that cover one of these datasets."""
    found = objectives_of(session.resolved)
    if datasets is not None:
        names = list(datasets)
        found = [each for each in found if any(map(each.covers, names))]
    if not found:
        return []
    now_ms = session.clock.now_ms()
    counts = BUDGETS.now(session) if any(each.counts_events for each in found) else BudgetCounts()
    return [_budget(session, objective, counts, now_ms) for objective in found]


def _budget(session: Session, objective: Objective, counts: BudgetCounts, now_ms: int) -> Budget:
    ages = [] if objective.counts_events else list(_ages(session, objective, now_ms))

    def within(length_ms: int) -> tuple[float, float]:
        if objective.counts_events:
            return counts.of(objective.name).between(now_ms - length_ms, now_ms)
        return _good_and_late(ages, objective.limit_ms, now_ms - length_ms, now_ms)

    burn: dict[str, float | None] = {}
    for name, length_ms in WINDOWS.items():
        good, bad = within(length_ms)
        burn[name] = bad / (good + bad) / (1.0 - objective.target) if good + bad else None
    good, bad = within(objective.window_ms)
    return Budget(objective, good, bad, burn, override_of(session, objective.name, now_ms))


class _Age(NamedTuple):
    """A time in which one version was current."""

    begin_ms: int
    end_ms: int
    made_ms: int


def _ages(session: Session, objective: Objective, now_ms: int, begin_ms: int | None = None) -> Iterator[_Age]:
    """Yield which version was current when, of each dataset: the published one, or the processed one of a dataset that
    was never published. While there is none, nothing is counted."""
    since_ms = now_ms - max(objective.window_ms, *WINDOWS.values()) if begin_ms is None else begin_ms
    for name in objective.datasets or sorted(session.config.datasets):
        for ref in (refs.published(name), refs.processed(name)):
            end_ms, has_moved = now_ms, False
            for move in session.state.refs.history(ref, reverse=True, limit=MOST_MOVES):
                has_moved = True
                at_ms = parse_instant(move.ts, "a move")
                version = session.state.ledger.version(name, move.after) if move.after else None
                if version is not None and at_ms < end_ms:
                    made_ms = parse_instant(version.created_at, "a version") if version.created_at else at_ms
                    yield _Age(at_ms, end_ms, made_ms)
                end_ms = min(at_ms, end_ms)
                if at_ms < since_ms:
                    break
            if has_moved:
                break


def _good_and_late(ages: Iterable[_Age], limit_ms: int, begin_ms: int, end_ms: int) -> tuple[float, float]:
    """Return for how long data were young enough in this time, and for how long they were not."""
    good = late = 0
    for age in ages:
        first, last = max(age.begin_ms, begin_ms), min(age.end_ms, end_ms)
        if first < last:
            turn = min(max(age.made_ms + limit_ms, first), last)
            good, late = good + turn - first, late + last - turn
    return good, late


def good_and_bad(
    session: Session, objective: Objective, counts: BudgetCounts, begin_ms: int, end_ms: int
) -> tuple[float, float]:
    """Return what was good and bad for an objective in this time: its events in `counts`, which has those of this time
    alone, or milliseconds."""
    if objective.counts_events:
        found = counts.of(objective.name)
        return found.good, found.bad
    return _good_and_late(_ages(session, objective, end_ms, begin_ms), objective.limit_ms, begin_ms, end_ms)


def late_share(session: Session, objective: Objective) -> float | None:
    """Return the share of datasets whose data are too old now; None if there are none."""
    now_ms = session.clock.now_ms()
    made = [age.made_ms for age in _ages(session, objective, now_ms) if age.end_ms == now_ms]
    found = [now_ms - made_ms > objective.limit_ms for made_ms in made]
    return sum(found) / len(found) if found else None


def events_of(session: Session, objective: Objective) -> tuple[int, int]:
    """Return how many good and bad events the whole ledger has."""
    found = BUDGETS.now(session).of(objective.name)
    return found.good, found.bad


# -- overrides


def override_of(session: Session, name: str, now_ms: int) -> Override | None:
    """Return the override of an objective that is in force now. One that has ended, or that cannot be read, is none."""
    at = session.state.refs.at(refs.override(name))
    if not at:
        return None
    try:
        found = msgspec.json.decode(session.objects.read(at), type=Override)
        until_ms = parse_instant(found.until, "an override")
    except (msgspec.MsgspecError, BadInput, Corrupt):
        return None
    return found if found.objective == name and now_ms < until_ms else None


# -- what is closed


def closed_by_objectives(session: Session, operation: str, dataset: str) -> str | None:
    """Return why a risky operation on a dataset is closed now, in one sentence; None if it is open. If the objectives
    or the ledger cannot be read, it is closed."""
    if not session.resolved.has_objectives:
        return None
    try:
        for budget in budgets(session, [dataset]):
            if budget.closes:
                spent = f"{1 - budget.left:.0%} of its error budget is spent"
                return f"{operation} of {dataset} is closed: {spent} by objective {budget.objective.name}"
    except KfmError as problem:
        return f"{operation} of {dataset} is closed, because {UNREADABLE}: {problem.message}"
    return None


def check_budget(session: Session, updater: Updater, trigger: Trigger) -> None:
    """Raise Denied if this is a risky operation, and a burnt budget closes it."""
    if not (updater.moves_only and updater.is_risky(trigger)):
        return
    why = closed_by_objectives(session, updater.op, trigger.dataset)
    if why is not None:
        hint = "see `kfm slo`; wait until the budget recovers, or have a steward type `kfm slo override`"
        raise Denied(why, hint="correct that first" if UNREADABLE in why else hint)


def spent_share(session: Session, dataset: str) -> float | None:
    """Return the largest share of an error budget that is spent, of the objectives that cover a dataset; None if there
    is no such objective, or if they cannot be read."""
    try:
        found = [1.0 - budget.left for budget in budgets(session, [dataset])]
    except KfmError:
        return None
    return round(max(found), 6) if found else None
