"""The answers about what runs when: schedules, backfills and pools. For the staff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.backfills.backfill_control import known_backfills, status_of
from kfm.app.runs.due_schedules import (
    ScheduleStatus,
    instants,
    is_overdue,
    schedule_statuses,
    schedules_of,
)
from kfm.app.serving.served_records import Link
from kfm.app.session.pools import pool_statuses
from kfm.clock import rfc3339
from kfm.model.records import Record
from kfm.model.schedules import CatchUp, Overlap, Why

if TYPE_CHECKING:
    from kfm.app.backfills.backfill_control import BackfillStatus
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session
    from kfm.model.reports.pool_status import PoolClaim
    from kfm.model.schedules import Schedule, Tick

TICKS, COMING = 20, 10  # of a schedule: past and future instants in its answer
FAILED = 200  # failed partitions of a backfill in its answer
_PAGE = Link(rel="alternate", href="/schedules", type="text/html", title="the page")


class ScheduleEntry(Record, frozen=True):
    """A schedule as it is declared, and its status now."""

    schedule: str
    dataset: str
    cron: str  # empty: it is static, comes after other datasets, or waits for an event
    timezone: str
    on: str  # event or anomaly; empty: neither
    after: tuple[str, ...]  # datasets whose new versions request a run, as far as the caller may know of them
    of: tuple[str, ...]  # datasets that it watches for anomalies, likewise
    overlap: Overlap
    catch_up: CatchUp
    pool: str  # empty: that of the dataset
    is_implied: bool  # not declared: a dataset that reads others follows them
    is_paused: bool
    is_overdue: bool  # nobody claimed its instant for five minutes: is `kfm up` running?
    last_at: str  # its newest claimed instant; empty: none
    last_why: str
    due_at: str  # its next instant; empty: no clock decides


class ScheduleList(Record, frozen=True):
    """Schedules by name."""

    schedules: tuple[ScheduleEntry, ...]
    next: str
    links: tuple[Link, ...]
    ledger_entries: int


class PastInstant(Record, frozen=True):
    """An instant that a process claimed."""

    at: str
    claimed_at: str
    why: Why
    missed: int  # earlier instants that will not run
    trigger_id: str  # empty: no run was requested


class ComingInstant(Record, frozen=True):
    at: str
    local: str  # in the time zone of the schedule
    note: str  # what a change of the clock does to it


class ScheduleAnswer(Record, frozen=True):
    """One schedule with its last and its next instants."""

    schedule: ScheduleEntry
    past: tuple[PastInstant, ...]  # the newest first
    coming: tuple[ComingInstant, ...]
    links: tuple[Link, ...]
    ledger_entries: int


class BackfillRow(Record, frozen=True):
    """A backfill that is declared or was started."""

    backfill: str
    dataset: str
    state: str  # not started, waiting, at work, paused, finished or cancelled
    started_at: str
    total: int | None  # partitions of its plan; null: no plan, or not shown
    left: int | None
    counts: dict[str, int]  # of partitions by result; empty: not shown
    is_withheld: bool  # the data is not plainly public


class BackfillList(Record, frozen=True):
    """Backfills by name."""

    backfills: tuple[BackfillRow, ...]
    next: str
    links: tuple[Link, ...]
    ledger_entries: int


class BadPartition(Record, frozen=True):
    """A partition that a backfill could not build."""

    partition: str
    result: str
    run_id: str


class BackfillAnswer(Record, frozen=True):
    """One backfill with the partitions that it could not build."""

    backfill: BackfillRow
    plan: str  # digest of its plan; empty: none, or not shown
    failing: tuple[BadPartition, ...]  # the first of them
    links: tuple[Link, ...]
    ledger_entries: int


class PoolUse(Record, frozen=True):
    """A run that has a slot of a pool or waits for one."""

    dataset: str
    partition: str  # empty: the whole dataset, or not shown
    slot: int | None  # null: it waits
    since: str
    waited_ms: int
    priority: str


class PoolRow(Record, frozen=True):
    """A pool. Runs of datasets that the caller may not know of are not listed."""

    pool: str
    slots: int
    held: tuple[PoolUse, ...]
    waiting: tuple[PoolUse, ...]  # in the order in which they get a slot


class PoolList(Record, frozen=True):
    """Pools by name."""

    pools: tuple[PoolRow, ...]
    links: tuple[Link, ...]
    ledger_entries: int


# -- schedules


def schedule_list(session: Session, seen: Discretion, after: str, limit: int, index: int) -> ScheduleList:
    """Return a page of schedules; `after` is the last name of the page before."""
    every = sorted(schedule_statuses(session), key=lambda each: each.schedule.id)
    found = [each for each in every if each.schedule.id > after and seen.may_name(each.schedule.dataset)]
    return ScheduleList(
        schedules=tuple(_entry(session, seen, each) for each in found[:limit]),
        next=found[limit - 1].schedule.id if len(found) > limit else "",
        links=(Link(rel="self", href="/v1/schedules"), _PAGE),
        ledger_entries=index,
    )


def schedule_answer(session: Session, seen: Discretion, wanted: str, index: int) -> ScheduleAnswer | None:
    """Return a schedule; None if there is none of this name whose dataset the caller may know of."""
    for each in schedule_statuses(session):
        if each.schedule.id == wanted and seen.may_name(each.schedule.dataset):
            past = session.state.ticks.of(wanted, limit=TICKS)
            return ScheduleAnswer(
                schedule=_entry(session, seen, each),
                past=tuple(map(_past, past)),
                coming=tuple(_coming(session, each.schedule)) if not each.paused else (),
                links=(
                    Link(rel="self", href=f"/v1/schedules/{wanted}"),
                    Link(rel="collection", href="/v1/schedules"),
                    Link(rel="runs", href=f"/v1/runs?dataset={each.schedule.dataset}"),
                ),
                ledger_entries=index,
            )
    return None


def _entry(session: Session, seen: Discretion, each: ScheduleStatus) -> ScheduleEntry:
    said = each.schedule
    return ScheduleEntry(
        schedule=said.id,
        dataset=said.dataset,
        cron=said.cron,
        timezone=said.timezone,
        on=said.on or "",
        after=tuple(filter(seen.may_name, said.after)),
        of=tuple(filter(seen.may_name, said.of)),
        overlap=said.overlap,
        catch_up=said.catch_up,
        pool=said.pool,
        is_implied=said.implied,
        is_paused=each.paused,
        is_overdue=is_overdue(each, session.clock.now_ms()),
        last_at=rfc3339(each.last.at_ms) if each.last is not None else "",
        last_why=each.last.why if each.last is not None else "",
        due_at=rfc3339(each.next_ms) if each.next_ms is not None else "",
    )


def _past(tick: Tick) -> PastInstant:
    return PastInstant(
        at=rfc3339(tick.at_ms),
        claimed_at=rfc3339(tick.claimed_ms),
        why=tick.why,
        missed=tick.missed,
        trigger_id=tick.trigger_id,
    )


def _coming(session: Session, schedule: Schedule) -> Iterator[ComingInstant]:
    for each in instants([schedule], session.clock.now_ms(), COMING) if schedule.cron else ():
        yield ComingInstant(at=rfc3339(each.at_ms), local=each.local, note=each.note)


# -- backfills


def backfill_list(session: Session, seen: Discretion, after: str, limit: int, index: int) -> BackfillList:
    """Return a page of backfills; `after` is the last name of the page before."""
    rows: list[BackfillRow] = []
    following = ""
    for name, declared in sorted(known_backfills(session).items()):
        if name <= after:
            continue
        status = status_of(session, name, declared, 0)
        if not status.dataset or not seen.may_name(status.dataset):
            continue
        if len(rows) >= limit:
            following = rows[-1].backfill
            break
        rows.append(_backfill(seen, status))
    return BackfillList(
        backfills=tuple(rows),
        next=following,
        links=(Link(rel="self", href="/v1/backfills"), _PAGE),
        ledger_entries=index,
    )


def backfill_answer(session: Session, seen: Discretion, wanted: str, index: int) -> BackfillAnswer | None:
    """Return a backfill; None if there is none of this name whose dataset the caller may know of."""
    known = known_backfills(session)
    if wanted not in known:
        return None
    status = status_of(session, wanted, known[wanted], FAILED)
    if not status.dataset or not seen.may_name(status.dataset):
        return None
    plain = seen.is_plain(status.dataset)
    failing = (BadPartition(partition=p, result=r, run_id=run) for p, r, run in (status.failing if plain else ()))
    return BackfillAnswer(
        backfill=_backfill(seen, status),
        plan=status.digest if plain else "",
        failing=tuple(failing),
        links=(
            Link(rel="self", href=f"/v1/backfills/{wanted}"),
            Link(rel="collection", href="/v1/backfills"),
            Link(rel="runs", href=f"/v1/runs?dataset={status.dataset}"),
        ),
        ledger_entries=index,
    )


def _backfill(seen: Discretion, status: BackfillStatus) -> BackfillRow:
    plain = seen.is_plain(status.dataset)
    return BackfillRow(
        backfill=status.id,
        dataset=status.dataset,
        state=status.state,
        started_at=status.started_at,
        total=status.plan.total if plain and status.plan is not None else None,
        left=status.left if plain and status.plan is not None else None,
        counts=status.counts if plain else {},
        is_withheld=not plain,
    )


# -- pools


def pool_list(session: Session, seen: Discretion, index: int) -> PoolList:
    names = [name for name in sorted(session.config.pools) if _may_name_pool(session, seen, name)]
    rows = (
        PoolRow(
            pool=each.pool,
            slots=each.slots,
            held=tuple(_use(seen, one) for one in each.held if seen.may_name(one.dataset)),
            waiting=tuple(_use(seen, one) for one in each.waiting if seen.may_name(one.dataset)),
        )
        for each in pool_statuses(session, names)
    )
    return PoolList(pools=tuple(rows), links=(Link(rel="self", href="/v1/pools"), _PAGE), ledger_entries=index)


def _may_name_pool(session: Session, seen: Discretion, pool: str) -> bool:
    """Return whether the caller may know of a pool. One that only unnamed datasets use may be named after them."""
    users = {name for name, declared in session.config.datasets.items() if declared.pool == pool}
    users |= {each.dataset for each in schedules_of(session.resolved) if each.pool == pool}
    return not users or any(map(seen.may_name, users))


def _use(seen: Discretion, claim: PoolClaim) -> PoolUse:
    return PoolUse(
        dataset=claim.dataset,
        partition=claim.partition if seen.is_plain(claim.dataset) else "",
        slot=claim.slot,
        since=claim.since,
        waited_ms=claim.waited_ms,
        priority=claim.priority,
    )
