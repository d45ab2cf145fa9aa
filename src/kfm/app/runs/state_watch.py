"""Notices when a state changes that no ledger entry records: a dataset becomes late, an error budget is spent.

What is known is a note in the state. Each change is written there once, by whichever process sees it first, and the
receivers of notices follow the note as they follow the ledger. So a restart neither repeats a change nor loses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from kfm.app.metadata.notice_sinks import KNOWN, known_states
from kfm.app.runs.freshness import check_targets, judged
from kfm.app.runs.visibility import plainly_public
from kfm.app.session.receiver_cursors import begun_receivers
from kfm.clock import parse_instant, rfc3339
from kfm.config.config_file import notice_sink
from kfm.delivery.followers import is_frozen, states_of
from kfm.errors import BadInput, Broken, KfmError
from kfm.model import refs
from kfm.model.outbox_messages import STATES
from kfm.model.reports.state_changes import KnownStates, StateChange

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import DatasetVersion
    from kfm.model.reports.objective import Objective

MOST = 1000  # changes that are kept for receivers that do not answer; the oldest go first


def watch_states(session: Session) -> list[KfmError]:
    """Write down which states have changed. Return what could not be judged; it hides nothing else, and the next
    settlement looks again."""
    wanted = {event for said in session.config.notify.values() for event in said.on} & {"late", "burnt"}
    problems: list[KfmError] = []
    if not wanted or session.mode != "write":
        return problems
    try:
        known = known_states(session)
        found = _Found(session, problems)
        late = found.late(known.late) if "late" in wanted else ()
        burnt = found.burnt() if "burnt" in wanted else ()
        changes = [*found.late_changes(known.late, late), *found.budget_changes(known.burnt, burnt)]
        kept = tuple(found.allowed(known.changes))
        if changes or kept != known.changes or (late, burnt) != (known.late, known.burnt):
            _write(session, known, late, burnt, [*kept, *changes])
    except Broken:
        raise
    except KfmError as problem:
        problems.append(problem)
    for each in problems:
        session.log.event("states.unread", error=each)
    return [_as_notice(each) for each in problems]


def _as_notice(problem: KfmError) -> KfmError:
    return type(problem)(f"notices of late data and spent budgets are incomplete: {problem.message}", hint=problem.hint)


def _write(
    session: Session, known: KnownStates, late: tuple[str, ...], burnt: tuple[str, ...], changes: list[StateChange]
) -> None:
    """Write what is known now, unless another process has written meanwhile: then the next look decides."""
    last = known.last
    numbered: list[StateChange] = []
    for change in changes:
        last += change.n == 0
        numbered.append(msgspec.structs.replace(change, n=last) if change.n == 0 else change)
    with session.state.transaction(durable=False) as tx:
        if known_states(session) != known:
            return
        now = KnownStates(last=last, late=late, burnt=burnt, changes=tuple(_pending(session, numbered)))
        tx.outbox.keep_note(STATES, KNOWN, msgspec.json.encode(now))
        tx.outbox.advance(STATES, last)


def _pending(session: Session, changes: list[StateChange]) -> list[StateChange]:
    """Return the changes that some receiver has not passed, or that wait for it as a dead letter or for a thaw."""
    names = {*session.config.notify, *begun_receivers(session.state)}
    outbox, sinks = session.state.outbox, [notice_sink(name) for name in names]
    passed = min((outbox.cursor(states_of(sink)) for sink in sinks), default=0)
    late = {-index for sink in sinks for index in outbox.waiting(sink)}
    late |= {-letter.index for sink in sinks for letter in outbox.dead(sink)}
    return [change for change in changes if change.n > passed or change.n in late][-MOST:]


class _Found:
    """The states as they are now."""

    def __init__(self, session: Session, problems: list[KfmError]) -> None:
        """What cannot be read is appended to `problems`, and everything else is judged."""
        self._session = session
        self._problems = problems
        self._now_ms = session.clock.now_ms()
        self._public: dict[str, bool] = {}
        self._judged: set[str] = set()  # datasets with a target; without one, a dataset leaves its state in silence
        self._counted: set[str] = set()  # objectives, likewise
        self._by_age: list[Objective] = []
        self._all: dict[str, Objective] = {}
        if session.resolved.has_objectives:
            from kfm.app.objectives.error_budgets import objectives_of

            try:
                self._all = {each.name: each for each in objectives_of(session.resolved)}
            except KfmError as problem:
                problems.append(problem)
            self._by_age = [each for each in self._all.values() if not each.counts_events]

    def late(self, before: Collection[str]) -> tuple[str, ...]:
        """Return the datasets that are older than kfm.yml or an objective allows. What is frozen stays as it was."""
        try:
            check_targets(self._session.resolved)
        except KfmError as problem:
            self._problems.append(problem)
        found = []
        for name in sorted(self._session.config.datasets):
            try:
                is_late = self._is_late(name)
            except BadInput:  # its target is the problem, or one of several
                is_late = None
            if is_late is None:
                continue
            self._judged.add(name)
            if is_late != (name in before) and is_frozen(self._session.state, name):
                is_late = not is_late
            if is_late:
                found.append(name)
        return tuple(found)

    def _is_late(self, name: str) -> bool | None:
        """Return whether a dataset is late; None if nothing says how old it may be."""
        said = self._session.config.datasets[name].freshness
        limits = [each.limit_ms for each in self._by_age if each.covers(name)]
        if said is None and not limits:
            return None
        version = self._version(name)
        if version is None or not version.created_at:
            return False
        made_ms = parse_instant(version.created_at, "a version")
        return judged(said, made_ms, self._now_ms)[0] == "late" or any(self._now_ms - made_ms > ms for ms in limits)

    def _version(self, name: str) -> DatasetVersion | None:
        state = self._session.state
        at = state.refs.at(refs.published(name)) or state.refs.at(refs.processed(name))
        return state.ledger.version(name, at) if at else None

    def burnt(self) -> tuple[str, ...]:
        """Return the objectives whose error budget is spent."""
        if not self._all:
            return ()
        from kfm.app.objectives.error_budgets import budgets

        found = budgets(self._session)
        self._counted |= {each.objective.name for each in found}
        return tuple(sorted(each.objective.name for each in found if each.is_burnt))

    def late_changes(self, before: Collection[str], now: Collection[str]) -> Iterator[StateChange]:
        for name in sorted(({*before} ^ {*now}) & self._judged):
            version = self._version(name) if self._is_public(name) else None
            yield StateChange(
                n=0,
                event="late",
                is_over=name in before,
                at=rfc3339(self._now_ms),
                datasets=(name,),
                version=version.digest if version is not None else "",
                made_at=version.created_at if version is not None else "",
            )

    def budget_changes(self, before: Collection[str], now: Collection[str]) -> Iterator[StateChange]:
        for name in sorted(({*before} ^ {*now}) & self._counted):
            datasets = self._all[name].datasets
            covered = datasets or tuple(sorted(self._session.config.datasets))
            yield StateChange(
                n=0,
                event="burnt",
                is_over=name in before,
                at=rfc3339(self._now_ms),
                datasets=datasets,
                objective=name if all(map(self._is_public, covered)) else "",
            )

    def allowed(self, changes: Iterable[StateChange]) -> Iterator[StateChange]:
        """Yield the changes that are kept, without what may not be named any more."""
        for change in changes:
            covered = change.datasets or tuple(sorted(self._session.config.datasets))
            if (change.objective or change.version) and not all(map(self._is_public, covered)):
                yield msgspec.structs.replace(change, objective="", version="", made_at="")
            else:
                yield change

    def _is_public(self, name: str) -> bool:
        if name not in self._public:
            self._public[name] = name in plainly_public(self._session, [name])
        return self._public[name]
