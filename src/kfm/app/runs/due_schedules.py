"""The schedules of an installation: what is declared, which are due, and the claiming of their ticks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from kfm import __version__
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_config, dataset_updater
from kfm.clock import rfc3339
from kfm.config.schedule_files import declared_schedules
from kfm.config.upstream_datasets import circle_in, upstreams
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Trigger
from kfm.model.schedules import Schedule, Tick
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest
from kfm.scheduling.dependent_triggers import DependencyGraph
from kfm.scheduling.schedule_ticks import acted_on, cron_mistake, is_cron, look_ms, next_ms, upcoming, zone
from kfm.scheduling.tick_claims import GRACE_MS, claim, older_runs
from kfm.scheduling.tick_claims import is_paused as is_paused
from kfm.scheduling.triggers import DAY_MS, keep

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved

_declared: WeakKeyDictionary[Resolved, list[Schedule]] = WeakKeyDictionary()
LOOK_MS = 60_000  # a changed clock is noticed after this time


class ScheduleStatus(NamedTuple):
    """A schedule and its status."""

    schedule: Schedule
    paused: bool
    last: Tick | None
    next_ms: int | None
    ahead: bool  # a later tick is claimed already, because the clock was set back; nothing runs until then


class Instant(NamedTuple):
    """A future tick of a schedule, with its local time."""

    schedule: str
    at_ms: int
    acted_on_ms: int
    local: str
    note: str  # the effect of daylight saving, if any


def schedules_of(resolved: Resolved) -> list[Schedule]:
    """Return every declared schedule. The files are read once for each configuration. BadInput if one has a mistake."""
    if resolved not in _declared:
        _declared[resolved] = _checked(resolved)
    return _declared[resolved]


def read_again(resolved: Resolved) -> list[Schedule]:
    """Read the schedule files again and return the schedules. If one has a mistake, raise BadInput and keep those that
    were read before."""
    _declared[resolved] = _checked(resolved)
    return _declared[resolved]


def _checked(resolved: Resolved) -> list[Schedule]:
    found = declared_schedules(resolved)
    for problem in mistakes_in(resolved, found):
        raise problem
    return found


def mistakes_in(resolved: Resolved, schedules: Sequence[Schedule]) -> Iterator[BadInput]:
    """Yield each mistake: unknown time zones, cron lines that never match, unknown datasets, cycles in `after`, and two
    event schedules of one dataset."""
    for schedule in schedules:
        if zone(schedule.timezone) is None:
            yield BadInput(
                f"{schedule.place}: there is no time zone {printable(schedule.timezone)}",
                hint="write one like America/Chicago, or UTC",
            )
        if schedule.cron and not is_cron(schedule.cron):
            wrong, cure = cron_mistake(schedule.cron)
            yield BadInput(f"{schedule.place}: cron {printable(schedule.cron)} {wrong}", hint=cure)
    yield from _after_mistakes(resolved, schedules)
    events: dict[str, Schedule] = {}
    for schedule in schedules:
        if schedule.on == "event" and (other := events.setdefault(schedule.dataset, schedule)) is not schedule:
            yield BadInput(
                f"{schedule.place}: {schedule.dataset} has a schedule on: event already, {other.id}",
                hint="leave one of the two out: an event triggers one run",
            )


def _after_mistakes(resolved: Resolved, schedules: Sequence[Schedule]) -> Iterator[BadInput]:
    """Yield the mistakes in `after` and `of` of schedules: unknown datasets, and cycles."""
    known = resolved.config.datasets
    for schedule in schedules:
        for name in (*schedule.after, *schedule.of):
            if name not in known:
                close = nearest(name, sorted(known))
                hint = f"did you mean {close}?" if close else "name one of kfm.yml"
                word = "after" if schedule.after else "of"
                yield BadInput(f"{schedule.place}: {word} names no dataset {printable(name)}", hint=hint)
    try:
        circle = circle_in(dependencies(resolved, schedules))
    except BadInput:  # an invalid dataset name is reported elsewhere
        return
    place = next((each.place for each in schedules if each.dataset in circle and each.after), "")
    if place:
        yield BadInput(
            f"{place}: {' comes after '.join(circle)}: no run of them could ever start",
            hint="take one of them out of `after`",
        )


def dependencies(resolved: Resolved, schedules: Sequence[Schedule]) -> dict[str, set[str]]:
    """Return for each dataset those that it reads or that its schedule names in `after`."""
    found = upstreams(resolved.config.datasets)
    for schedule in schedules:
        if schedule.after:
            found.setdefault(schedule.dataset, set()).update(schedule.after)
    return found


def one(resolved: Resolved, id: str) -> Schedule:
    """Return the schedule with this id. BadInput if there is none."""
    known = {each.id: each for each in schedules_of(resolved)}
    if id not in known:
        close = nearest(id, sorted(known))
        hint = f"did you mean {close}?" if close else "see `kfm schedule list`"
        raise BadInput(f"there is no schedule {printable(id)}", hint=hint)
    return known[id]


def request_run(session: Session, schedule: Schedule, *, actor: str, reason: str) -> Trigger:
    """Store a manual trigger for a schedule's dataset, apart from its ticks, and return it. It is durable on return."""
    trigger = new_trigger(session, schedule.dataset, kind="manual", window=schedule.window, actor=actor, reason=reason)
    return keep(session.state, replace(trigger, pool=schedule.pool))


def schedule_statuses(session: Session) -> Iterator[ScheduleStatus]:
    """Yield every schedule with its status now."""
    now_ms = session.clock.now_ms()
    for schedule in schedules_of(session.resolved):
        last = session.state.ticks.last(schedule.id)
        since = last.at_ms if last is not None else now_ms
        paused = is_paused(session.state, schedule)
        ahead = bool(schedule.cron) and since > now_ms + GRACE_MS
        yield ScheduleStatus(schedule, paused, last, None if paused else next_ms(schedule, since), ahead)


def is_overdue(each: ScheduleStatus, now_ms: int) -> bool:
    """Return whether a tick has stayed unclaimed for five minutes. A running `kfm up` claims within seconds."""
    return each.next_ms is not None and each.next_ms < now_ms - 300_000


def instants(schedules: Sequence[Schedule], after_ms: int, count: int) -> list[Instant]:
    """Return the next `count` ticks of all these schedules together, in order."""
    found: list[Instant] = []
    for schedule in schedules:
        last_offset = None
        for at_ms in islice(upcoming(schedule, after_ms), count):
            local, offset, moved = _on_the_wall(schedule, at_ms)
            note = ""
            if moved:
                note = "moved out of the hour that the clock skips"
            elif last_offset is not None and offset != last_offset:
                note = "the clock was changed since the one before"
            last_offset = offset
            found.append(Instant(schedule.id, at_ms, acted_on(schedule, at_ms), local, note))
    return sorted(found, key=lambda each: (each.at_ms, each.schedule))[:count]


def _on_the_wall(schedule: Schedule, at_ms: int) -> tuple[str, str, bool]:
    """Return the local time of a tick, its offset from UTC, and whether it differs from the time that the cron line
    names."""
    from datetime import datetime

    local = datetime.fromtimestamp(at_ms / 1000, zone(schedule.timezone))
    fields = schedule.cron.split()
    asked_for = (fields[1].isdigit() and fields[0].isdigit()) and (int(fields[1]), int(fields[0]))
    moved = bool(asked_for) and asked_for != (local.hour, local.minute)
    return local.strftime("%Y-%m-%d %H:%M %Z"), local.strftime("%z"), moved


class Ticker:
    """Claims due ticks. It examines only schedules whose time has come, so that 10,000 of them cost little."""

    def __init__(
        self, session: Session, datasets: Sequence[str], tell: Callable[[str, KfmError], None] | None = None
    ) -> None:
        """`tell` receives schedules whose updater cannot be loaded; without it, they are logged."""
        self._session = session
        self._tell = tell
        watched = frozenset(datasets)
        schedules = schedules_of(session.resolved)
        self._schedules = {each.id: each for each in schedules if each.dataset in watched}
        self._on_events = [each for each in self._schedules.values() if each.on == "event"]
        self._family = DependencyGraph(list(self._schedules.values()), dependencies(session.resolved, schedules))
        self._below: dict[str, list[Schedule]] = {}  # by dataset: the schedules that its runs may trigger
        for each in self._schedules.values():
            own = (each.dataset,) if each.on == "anomaly" else ()
            for name in each.after or each.of or own:
                self._below.setdefault(name, []).append(each)
        self._put_off: dict[str, Schedule] = {}  # schedules that wait for an upstream run
        self._next: list[tuple[int, str]] = []
        self._looked_ms: int | None = None
        newest = session.state.ledger.entries(reverse=True, limit=1)
        self._read = next((entry.index for entry in newest), 0)  # the last ledger entry that was examined

    def __len__(self) -> int:
        return len(self._schedules)

    def claim(self) -> list[Tick]:
        """Claim every due tick, cancel older runs where a schedule says so, and return the claimed ticks."""
        now_ms = self._session.clock.now_ms()
        due = self._due(now_ms)
        if not due:
            return []
        claimed = claim(
            self._session.state,
            due,
            now_ms,
            self._trigger,
            mark=self._mark,
            keep_ms=self._session.config.keep_days * DAY_MS,
            tell=self._unclaimed,
            family=self._family,
        )
        state = self._session.state
        self._put_off = {each.id: each for each in due if each.reads and self._family.is_due(state, each)}
        for schedule in due:
            self._later(schedule, now_ms)
            if schedule.overlap == "cancel-older":
                self._cancel_older(schedule)
        for tick in claimed:
            self._session.log.event(
                "schedule.ticked", schedule=tick.schedule_id, at=rfc3339(tick.at_ms), why=tick.why, missed=tick.missed
            )
        return claimed

    def _unclaimed(self, schedule: Schedule, problem: KfmError) -> None:
        if self._tell is not None:
            self._tell(f"schedule {schedule.id}", problem)
        else:
            self._session.log.event("tick.unclaimed", schedule=schedule.id, error=problem)

    def _due(self, now_ms: int) -> list[Schedule]:
        """Return the schedules to examine: all of them on the first call and after the clock was set, later only those
        whose time has come or whose upstream datasets moved."""
        looked, self._looked_ms = self._looked_ms, now_ms
        moved = self._moved()
        if looked is None or now_ms < looked or now_ms - looked > LOOK_MS:
            self._next.clear()
            return list(self._schedules.values())
        after = {each.id: each for name in moved for each in self._below.get(name, ())}
        due = list({**self._put_off, **after}.values())
        due = [*due, *(each for each in self._on_events if each.overlap == "cancel-older")]
        while self._next and self._next[0][0] <= now_ms:
            due.append(self._schedules[heapq.heappop(self._next)[1]])
        return due

    def _moved(self) -> set[str]:
        """Return the datasets that have new ledger entries since the last call."""
        found = set()
        for entry in self._session.state.ledger.entries(after=self._read):
            found.add(entry.dataset)
            self._read = entry.index
        return found

    def _later(self, schedule: Schedule, now_ms: int) -> None:
        at_ms = look_ms(schedule, now_ms)
        if at_ms is not None:
            heapq.heappush(self._next, (at_ms, schedule.id))

    def _cancel_older(self, schedule: Schedule) -> None:
        """Cancel the older runs of a schedule. Every claim repeats this, so that it happens even if the worker that
        claimed the newer tick was killed."""
        session = self._session
        for run_id in older_runs(session.state, schedule):
            switch = f"run/{run_id}"
            if refs.is_frozen(session.state.refs.at(refs.SWITCH + switch)):
                continue
            reason = f"schedule {schedule.id}: a newer instant came"
            try:
                run_operation(session, "freeze", schedule.dataset, {"scope": switch}, reason=reason, actor="kfm up")
                session.log.event("run.cancelled", run_id=run_id, schedule=schedule.id)
            except KfmError as problem:  # the older run continues, and the newer one waits for it
                session.log.event("run.uncancelled", run_id=run_id, schedule=schedule.id, error=problem)

    def next_ms(self) -> int | None:
        return self._next[0][0] if self._next else None

    def _trigger(self, schedule: Schedule, _now_ms: int) -> Trigger:
        trigger = new_trigger(self._session, schedule.dataset, kind="schedule", actor="kfm up", window=schedule.window)
        return replace(trigger, pool=schedule.pool)

    def _mark(self, schedule: Schedule) -> str:
        """Return a digest of everything that determines the output of a static dataset. While it stays the same, no new
        run is needed."""
        from platform import python_version

        session, name = self._session, schedule.dataset
        updater = dataset_updater(session, name)
        said = {
            "code": updater.code_hash,
            "version": updater.version,
            "declared": replace(dataset_config(session, name), schedule=None, freshness=None),
            "kfm": __version__,
            "python": python_version(),
        }
        return digest(canonical(said))
