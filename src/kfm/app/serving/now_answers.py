"""The answer about the present: what runs, waits, is late, quarantined or frozen, and what to do. For the staff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.maintenance.status import DatasetStatus, NextStep, status
from kfm.app.metadata.completion_records import SinkStatus
from kfm.app.runs.due_schedules import is_overdue, schedule_statuses
from kfm.app.serving.run_answers import RunRow
from kfm.app.serving.run_reader import unfinished_rows
from kfm.app.serving.served_records import Link
from kfm.app.session.datasets import dataset_names
from kfm.clock import rfc3339
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session

MOST = 200  # waiting triggers in the answer


class WaitingTrigger(Record, frozen=True):
    """A trigger whose run has not begun."""

    trigger_id: str
    dataset: str
    kind: str
    received_at: str


class ScheduleRow(Record, frozen=True):
    """A schedule and when it is due."""

    schedule: str
    dataset: str
    is_paused: bool
    is_overdue: bool
    due_at: str


class NowAnswer(Record, frozen=True):
    """The present of an installation, as far as this person may see it."""

    at: str
    is_frozen: bool  # everything is
    running: tuple[RunRow, ...]
    waiting: tuple[WaitingTrigger, ...]
    more_waiting: int
    schedules: tuple[ScheduleRow, ...]
    datasets: tuple[DatasetStatus, ...]
    sinks: tuple[SinkStatus, ...]  # that have not followed some runs
    next: tuple[NextStep, ...]  # what to do, the most urgent first
    ok: bool  # every check passed; `kfm doctor` names the others
    links: tuple[Link, ...]
    ledger_entries: int


def now_answer(session: Session, seen: Discretion, index: int) -> NowAnswer:
    names = [name for name in dataset_names(session) if seen.may_name(name)]
    found = status(session, names)
    shown = found.datasets if names else []
    waiting = [each for each in session.state.inbox.waiting() if seen.may_name(each.dataset)]
    return NowAnswer(
        at=found.at,
        is_frozen=found.is_frozen,
        running=tuple(unfinished_rows(session, seen, "")),
        waiting=tuple(
            WaitingTrigger(
                trigger_id=each.trigger_id, dataset=each.dataset, kind=each.kind, received_at=each.received_at
            )
            for each in waiting[:MOST]
        ),
        more_waiting=max(len(waiting) - MOST, 0),
        schedules=tuple(_schedules(session, seen)),
        datasets=tuple(shown),
        sinks=tuple(each for each in found.pending if seen.may_name(each.dataset)),
        next=tuple(step for step in found.next if not step.dataset or seen.may_name(step.dataset)),
        ok=found.ok,
        links=(
            Link(rel="self", href="/v1/now"),
            Link(rel="alternate", href="/now", type="text/html", title="the page"),
            Link(rel="events", href="/v1/events", type="text/event-stream"),
        ),
        ledger_entries=index,
    )


def _schedules(session: Session, seen: Discretion) -> Iterator[ScheduleRow]:
    now_ms = session.clock.now_ms()
    for each in schedule_statuses(session):
        if seen.may_name(each.schedule.dataset):
            yield ScheduleRow(
                schedule=each.schedule.id,
                dataset=each.schedule.dataset,
                is_paused=each.paused,
                is_overdue=is_overdue(each, now_ms),
                due_at=rfc3339(each.next_ms) if each.next_ms is not None else "",
            )
