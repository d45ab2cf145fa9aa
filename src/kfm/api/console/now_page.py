"""The page of the present: what runs, waits, is late, quarantined or frozen, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import json_link, run_link, section, state, table
from kfm.projections.pages.page_style import many, time_tag

if TYPE_CHECKING:
    from kfm.app.maintenance.status import DatasetStatus
    from kfm.app.serving.now_answers import NowAnswer


def now_page(told: NowAnswer, around: Around) -> bytes:
    def inside() -> Iterator[str]:
        yield '<div id="live" data-events="/v1/events">'
        yield from section("What to do next", _next(told))
        rows = (
            (time_tag(r.started_at, clock=True), escape(r.dataset), escape(r.op), run_link(r.run_id))
            for r in told.running
        )
        yield from section(
            "Running", table("Running", ("Started", "Dataset", "Operation", "Run"), rows, "Nothing is running.")
        )
        yield from section("Waiting", _waiting(told))
        yield from section("Datasets", _datasets(told))
        yield from section("Schedules", _schedules(told))
        sinks = (
            (escape(s.sink), many(s.runs, "run"), time_tag(s.since, clock=True), escape(s.waits_for))
            for s in told.sinks
        )
        yield from section(
            "Sinks", table("Sinks", ("Sink", "Behind", "Since", "Waits for"), sinks, "All sinks have followed.")
        )
        yield "</div>"
        yield json_link("/v1/now")

    lead = f'<p class="lead">As of {time_tag(told.at, clock=True)}.'
    lead += ' <strong class="state bad">Everything is frozen.</strong></p>' if told.is_frozen else "</p>"
    lead += '<p class="note" id="news" role="status"></p>'
    return console_page("Now", around, list(inside()), "/now", ("live.js",), lead)


def _next(told: NowAnswer) -> Iterator[str]:
    rows = ((f"<code>{escape(step.command)}</code>", escape(step.why), escape(step.dataset)) for step in told.next)
    yield from table("What to do next", ("Command", "Why", "Dataset"), rows, "Nothing has to be done.")
    if not told.ok:
        yield '<p class="check bad">A check found something wrong: <code>kfm doctor</code> names it.</p>'


def _waiting(told: NowAnswer) -> Iterator[str]:
    rows = ((time_tag(t.received_at, clock=True), escape(t.dataset), escape(t.kind)) for t in told.waiting)
    yield from table("Waiting", ("Received", "Dataset", "Trigger"), rows, "Nothing waits.")
    if told.more_waiting:
        yield f"<p>… and {told.more_waiting:,} more</p>"


def _datasets(told: NowAnswer) -> Iterator[str]:
    rows = (
        (escape(each.dataset), escape(each.level), time_tag(each.as_of, clock=True),
         " ".join(map(state, words_of(each))), run_link(each.last_run))
        for each in told.datasets
    )  # fmt: skip
    yield from table("Datasets", ("Dataset", "Level", "As of", "State", "Last run"), rows, "There is no dataset.")


def words_of(each: DatasetStatus) -> list[str]:
    """Return the words for what needs attention about a dataset."""
    said = {
        each.last_outcome: each.is_failing,
        "public": each.is_public,
        "withdrawn": each.is_withdrawn,
        "newer built": each.is_public and each.is_behind,
        "late": each.freshness == "late",
        "frozen": each.is_frozen,
        "amber": each.is_amber and not each.is_frozen,
        "quarantined rows": each.is_held,
        "interrupted": bool(each.unfinished),
        "at work": bool(each.at_work),
        f"{each.waiting} waiting": bool(each.waiting),
        f"{each.dead} dead": bool(each.dead),
        "undelivered": each.is_undelivered,
        "never made": not each.is_made,
    }
    return [word for word, holds in said.items() if holds and word]


def _schedules(told: NowAnswer) -> Iterator[str]:
    rows = (
        (escape(s.schedule), escape(s.dataset), time_tag(s.due_at, clock=True),
         state("paused" if s.is_paused else "late" if s.is_overdue else ""))
        for s in told.schedules
    )  # fmt: skip
    yield from table("Schedules", ("Schedule", "Dataset", "Due", "State"), rows, "There is no schedule.")
