"""The page of what runs when: what is late and why, schedules, backfills, pools, jobs and triggers."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import dataset_link, json_link, run_link, section, state, table
from kfm.projections.pages.page_style import many, time_tag

if TYPE_CHECKING:
    from kfm.app.runs.late_causes import LateCause
    from kfm.app.serving.freshness_answers import FreshnessList, FreshnessRow
    from kfm.app.serving.job_answers import JobEntry, JobList, TriggerEntry, TriggerList
    from kfm.app.serving.schedule_answers import (
        BackfillList,
        BackfillRow,
        PoolList,
        PoolUse,
        ScheduleEntry,
        ScheduleList,
    )

_DAY, _HOUR = 1440, 60


class SchedulePage(NamedTuple):
    """The records that the page shows."""

    freshness: FreshnessList
    schedules: ScheduleList
    backfills: BackfillList
    pools: PoolList
    jobs: JobList
    triggers: TriggerList


def schedule_page(told: SchedulePage, around: Around) -> bytes:
    def inside() -> Iterator[str]:
        yield from section("What is late, and why", _freshness(told.freshness), "late")
        yield from section("Schedules", _schedules(told.schedules), "schedules")
        yield from section("Backfills", _backfills(told.backfills), "backfills")
        yield from section("Pools", _pools(told.pools), "pools")
        yield from section("Jobs", _jobs(told.jobs), "jobs")
        yield from section("Triggers that wait", _triggers(told.triggers), "triggers")

    late = told.freshness.late
    words = many(late, "dataset is late", "datasets are late") if late else "No dataset is late"
    lead = f'<p class="lead">{words} as of {time_tag(told.freshness.at, clock=True)}.</p>'
    return console_page("Schedules", around, list(inside()), "/schedules", lead=lead)


def span_of(minutes: int) -> str:
    """Return a number of minutes as people say it: 3 d 4 h, 2 h 5 min."""
    if minutes >= _DAY:
        return f"{minutes // _DAY} d {minutes % _DAY // _HOUR} h"
    if minutes >= _HOUR:
        return f"{minutes // _HOUR} h {minutes % _HOUR} min"
    return f"{minutes} min"


def words_of_cause(each: LateCause) -> str:
    """Return, as HTML, what a dataset waits for."""
    name = f"<strong>{escape(each.name)}</strong>"
    if each.kind == "source":
        asked = f", last asked {time_tag(each.checked_at, clock=True)}" if each.checked_at else ""
        return f"source {name}: no new bytes since {time_tag(each.since, clock=True)}{asked}"
    if each.why == "never made":
        return f"dataset {name}: it was never made"
    why = "it is late itself, its version is of" if each.why == "late" else "no new version since"
    return f"dataset {name}: {why} {time_tag(each.since, clock=True)}"


def _freshness(told: FreshnessList) -> Iterator[str]:
    headers = ("Dataset", "State", "As of", "Age", "At most", "Late by", "Because of", "Waits for")
    yield from table("Freshness of datasets", headers, map(_fresh, told.datasets), "There is no dataset.")
    yield json_link("/v1/freshness")


def _fresh(row: FreshnessRow) -> tuple[str, ...]:
    blame = "<br>".join(f"{escape(each.cause)}: {span_of(each.minutes)}" for each in row.blame)
    return (
        escape(row.dataset),
        state(row.verdict),
        time_tag(row.as_of, clock=True),
        "" if row.age_min is None else span_of(row.age_min),
        escape(row.target),
        span_of(row.late_min) if row.late_min else "",
        "not shown" if row.is_withheld else blame,
        "<br>".join(map(words_of_cause, row.waits_for)),
    )


def _schedules(told: ScheduleList) -> Iterator[str]:
    headers = ("Schedule", "Dataset", "When", "Zone", "Last", "Next", "State")
    yield from table("Schedules", headers, map(_schedule, told.schedules), "There is no schedule.")
    yield from _rest(told.next, "/v1/schedules")


def _schedule(row: ScheduleEntry) -> tuple[str, ...]:
    word = "paused" if row.is_paused else "late" if row.is_overdue else "ok"
    last = time_tag(row.last_at, clock=True) + (f" ({escape(row.last_why)})" if row.last_at else "")
    return (
        escape(row.schedule),
        escape(row.dataset),
        when_of(row),
        escape(row.timezone) if row.cron else "",
        last or "never",
        time_tag(row.due_at, clock=True),
        state(word),
    )


def when_of(row: ScheduleEntry) -> str:
    """Return, as HTML, when a schedule requests a run."""
    if row.cron:
        return f"<code>{escape(row.cron)}</code>"
    if row.on:
        return escape(f"on: {row.on}" + (f" of {', '.join(row.of)}" if row.of else ""))
    return escape(f"after {', '.join(row.after)}") if row.after else "when its code or settings change"


def _backfills(told: BackfillList) -> Iterator[str]:
    headers = ("Backfill", "Dataset", "State", "Started", "Partitions", "Left", "Results")
    yield from table("Backfills", headers, map(_backfill, told.backfills), "There is no backfill.")
    yield from _rest(told.next, "/v1/backfills")


def _backfill(row: BackfillRow) -> tuple[str, ...]:
    counts = ", ".join(f"{count:,} {word}" for word, count in sorted(row.counts.items()))
    return (
        escape(row.backfill),
        escape(row.dataset),
        state(row.state),
        time_tag(row.started_at, clock=True),
        "not shown" if row.is_withheld else "" if row.total is None else f"{row.total:,}",
        "" if row.left is None else f"{row.left:,}",
        escape(counts),
    )


def _pools(told: PoolList) -> Iterator[str]:
    if not told.pools:
        yield '<p class="none">There is no pool.</p>'
    for each in told.pools:
        yield f"<h3>{escape(each.pool)}: {len(each.held)} of {many(each.slots, 'slot')} taken</h3>"
        rows = map(_use, (*each.held, *each.waiting))
        yield from table(f"Runs of pool {each.pool}", ("Dataset", "Slot", "Since", "Waited"), rows, "No run uses it.")
    yield json_link("/v1/pools")


def _use(use: PoolUse) -> tuple[str, ...]:
    name = f"{use.dataset}/{use.partition}" if use.partition else use.dataset
    slot = "waits" if use.slot is None else str(use.slot + 1)
    return escape(name), slot, time_tag(use.since, clock=True), f"{use.waited_ms / 1000:,.0f} s"


def _jobs(told: JobList) -> Iterator[str]:
    headers = ("Job", "Type", "Dataset", "State", "Attempts", "Requested", "Last failure", "What to type")
    yield from table("Jobs", headers, map(_job, told.jobs), "No job waits.")
    yield from _rest(told.next, "/v1/jobs")


def _job(row: JobEntry) -> tuple[str, ...]:
    failure = row.failures[-1] if row.failures else None
    return (
        f"<code>{escape(row.job_id[:8])}</code>",
        escape(row.job_type),
        escape(f"{row.dataset}/{row.partition}" if row.partition else row.dataset),
        state(row.state),
        str(row.attempts),
        time_tag(row.requested_at, clock=True),
        "" if failure is None else f"{escape(failure.code)} {run_link(failure.run_id)}",
        f"<code>{escape(row.next)}</code>" if row.next else "",
    )


def _triggers(told: TriggerList) -> Iterator[str]:
    headers = ("Received", "Dataset", "Kind", "Who", "Trigger")
    yield from table("Triggers that wait", headers, map(_trigger, told.triggers), "No trigger waits.")
    yield from _rest(told.next, "/v1/triggers")


def _trigger(row: TriggerEntry) -> tuple[str, ...]:
    return (
        time_tag(row.received_at, clock=True),
        dataset_link(row.dataset, is_shown=False),
        escape(row.operation or row.kind),
        escape(row.actor),
        f"<code>{escape(row.trigger_id[:40])}</code>",
    )


def _rest(following: str, address: str) -> Iterator[str]:
    if following:
        yield '<p class="note">There are more; the address below lists all.</p>'
    yield json_link(address)
