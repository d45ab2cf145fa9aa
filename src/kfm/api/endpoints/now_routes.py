"""The routes about the present: /v1/now, its page, and /v1/events."""

from __future__ import annotations

from kfm.api.console.now_page import now_page
from kfm.api.endpoints.run_routes import around, seen_by
from kfm.api.routes import HTML, STAFF, Answer, ApiRoute, Call, Events, Parameter, View
from kfm.app.serving.discretion import own_mistakes
from kfm.app.serving.event_stream import EventFeed
from kfm.app.serving.now_answers import NowAnswer, now_answer

EVENT_STREAM = "text/event-stream"


def _now(view: View) -> NowAnswer:
    with own_mistakes():
        return now_answer(view.session, seen_by(view), view.entries)


def now(view: View, _call: Call) -> Answer:
    return Answer(_now(view))


def now_html(view: View, _call: Call) -> Answer:
    return Answer(now_page(_now(view), around(view)), HTML)


def events(view: View, call: Call) -> Answer:
    """Answer with events from now on, or after the entry that the caller says it knows."""
    last = call.headers.get("last-event-id", "")
    known = int(last) if last.isascii() and last.isdigit() and len(last) <= 12 else call.query["after"]
    feed = EventFeed(min(known, view.entries) if known else view.entries)

    def news(later: View) -> list[tuple[int, str, object]]:
        found = feed.news(later.session, seen_by(later), later.entries)
        return [(each.index, each.event, each) for each in found]

    first = news(view)  # what the caller missed; what is running and frozen now is no news

    def all_news(later: View) -> list[tuple[int, str, object]]:
        missed, first[:] = list(first), []
        return [*missed, *news(later)]

    return Answer(Events(all_news), EVENT_STREAM)


ROUTES = (
    ApiRoute(
        "GET", "/v1/now", "now", "What runs, waits, is late, quarantined or frozen", now, NowAnswer, tag="runs",
        audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/events", "events", "Events as they happen: runs that begin and end, freeze flags", events,
        parameters=(Parameter("after", "the last ledger entry that the caller knows", "whole", 0, 0, 999_999_999),),
        media=EVENT_STREAM, tag="runs", problems=(400, 404, 503),
    ),
    ApiRoute("GET", "/now", "nowPage", "The page of the present", now_html, media=HTML, tag="pages", audiences=STAFF),
)  # fmt: skip
