"""The answers about work that was requested: jobs and triggers. For the staff.

Of data that is not plainly public they show that work was requested and how it stands, and nothing that a person typed
or a source named.
"""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from kfm.app.authority.private_reasons import shown_reason
from kfm.app.jobs.job_reports import Word, cure, row_of, waiting_jobs
from kfm.app.runs.queries import ended_row, trigger_row
from kfm.app.serving.served_records import Link
from kfm.model.jobs.job_records import Priority
from kfm.model.records import EndedTrigger, Record

if TYPE_CHECKING:
    from kfm.app.jobs.job_reports import JobRow
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session
    from kfm.model.records import Trigger

EXAMINED = 20_000  # jobs or triggers that one request looks at
_PAGE = Link(rel="alternate", href="/schedules", type="text/html", title="the page")
T = TypeVar("T")
Place = tuple[str, str, str]  # rank, time of the request, id of the trigger


class JobAttempt(Record, frozen=True):
    """An attempt that failed. It has no message."""

    at: str
    code: str
    run_id: str


class JobEntry(Record, frozen=True):
    """One job."""

    job_id: str
    trigger_id: str
    job_type: str
    dataset: str
    partition: str  # empty: the whole dataset, or not shown
    state: Word
    priority: Priority
    pools: tuple[str, ...]  # what a worker must have; of data that is not plainly public it is not shown
    attempts: int
    requested_by: str  # empty: not shown
    requested_at: str
    not_before: str  # empty: at once
    failures: tuple[JobAttempt, ...]
    run_id: str
    next: str  # the command that helps; empty: none is needed
    is_withheld: bool  # the data is not plainly public


class JobList(Record, frozen=True):
    """Jobs that wait or run in the order in which they came, then dead letters; or ended ones, the newest first."""

    jobs: tuple[JobEntry, ...]
    next: str  # the cursor of the next page; empty: there is none
    links: tuple[Link, ...]
    ledger_entries: int


class TriggerEntry(Record, frozen=True):
    """A request for a run."""

    trigger_id: str
    dataset: str
    kind: str
    operation: str  # of an operation: its name
    state: str  # waiting, or how its run ended
    received_at: str
    actor: str  # empty: not shown
    reason: str
    window: str
    partition: str
    run_id: str
    is_withheld: bool  # the data is not plainly public


class TriggerList(Record, frozen=True):
    """Triggers that wait in the order in which they came, or ended ones, the newest first."""

    triggers: tuple[TriggerEntry, ...]
    next: str
    links: tuple[Link, ...]
    ledger_entries: int


def job_list(session: Session, seen: Discretion, state: str, after: str, limit: int, index: int) -> JobList:
    """Return a page of jobs. `state` is `open` or `ended`; `after` is the cursor of the page before."""
    jobs, is_ended = session.state.jobs, state == "ended"
    if is_ended:
        every = [(_place(0, job.trigger), job) for job in jobs.done(reverse=True, limit=EXAMINED)]
    else:
        every = [(_place(0, job.trigger), job) for job in islice(waiting_jobs(session), EXAMINED)]
        every += [(_place(1, job.trigger), job) for job in islice(jobs.dead(), EXAMINED)]
    every = [each for each in every if seen.may_name(each[1].trigger.dataset)]
    page, following = _page(every, after, limit, newest_first=is_ended)
    return JobList(
        jobs=tuple(_job(seen, row_of(session, job)) for job in page),
        next=following,
        links=(Link(rel="self", href=f"/v1/jobs?state={state}"), _PAGE),
        ledger_entries=index,
    )


def _job(seen: Discretion, row: JobRow) -> JobEntry:
    plain = seen.is_plain(row.dataset)
    return JobEntry(
        job_id=row.job_id,
        trigger_id=row.trigger_id,
        job_type=row.job_type,
        dataset=row.dataset,
        partition=row.partition if plain else "",
        state=row.state,
        priority=row.priority,
        pools=row.pools if plain else (),
        attempts=row.attempts,
        requested_by=row.requested_by if plain else "",
        requested_at=row.requested_at,
        not_before=row.not_before,
        failures=tuple(JobAttempt(at=each.at, code=each.code, run_id=each.run_id) for each in row.failures),
        run_id=row.run_id,
        next=cure(row),
        is_withheld=not plain,
    )


def trigger_list(session: Session, seen: Discretion, state: str, after: str, limit: int, index: int) -> TriggerList:
    """Return a page of triggers. `state` is `waiting` or `ended`; `after` is the cursor of the page before."""
    inbox, is_ended = session.state.inbox, state == "ended"
    every: list[tuple[Place, Trigger | EndedTrigger]]
    if is_ended:
        ended = inbox.all_ended(reverse=True, limit=EXAMINED)
        every = [(_place(0, past.trigger), past) for past in ended if seen.may_name(past.trigger.dataset)]
    else:
        waiting = islice(inbox.waiting(), EXAMINED)
        every = [(_place(0, trigger), trigger) for trigger in waiting if seen.may_name(trigger.dataset)]
    page, following = _page(every, after, limit, newest_first=is_ended)
    rows = (
        ended_row(session, each) if isinstance(each, EndedTrigger) else trigger_row(each, "waiting", "")
        for each in page
    )
    return TriggerList(
        triggers=tuple(_trigger(session, seen, row) for row in rows),
        next=following,
        links=(Link(rel="self", href=f"/v1/triggers?state={state}"), _PAGE),
        ledger_entries=index,
    )


def _trigger(session: Session, seen: Discretion, row: dict[str, str]) -> TriggerEntry:
    plain = seen.is_plain(row["dataset"])
    return TriggerEntry(
        trigger_id=row["trigger_id"],
        dataset=row["dataset"],
        kind=row["kind"],
        operation=row["asks"].partition(" ")[0],
        state=row["state"],
        received_at=row["received_at"],
        actor=row["actor"] if plain else "",
        reason=shown_reason(session, row["reason"]) if plain else "",
        window=row["window"] if plain else "",
        partition=row["partition"] if plain else "",
        run_id=row["run_id"],
        is_withheld=not plain,
    )


def _place(rank: int, trigger: Trigger) -> Place:
    """Return where a trigger or its job is in the list. What comes or ends later moves no other place."""
    return str(rank), trigger.received_at, trigger.trigger_id


def _page(found: list[tuple[Place, T]], after: str, limit: int, *, newest_first: bool) -> tuple[list[T], str]:
    """Return a page of these in their order, and the cursor of the next one: the place at which this page ends."""
    found.sort(key=itemgetter(0), reverse=newest_first)
    if after:
        end = tuple(after.split("~"))
        found = [each for each in found if (each[0] < end if newest_first else each[0] > end)]
    page = found[:limit]
    return [each for _, each in page], "~".join(page[-1][0]) if len(found) > limit else ""


def is_cursor(text: str) -> bool:
    """Return whether a text has the form of a cursor that a page gave."""
    return not text or text.count("~") == 2
