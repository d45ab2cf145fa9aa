"""The routes about what runs when: schedules, backfills, pools, jobs, triggers and freshness, and their page."""

from __future__ import annotations

from kfm.api.console.schedule_page import SchedulePage, schedule_page
from kfm.api.endpoints.run_routes import LIMIT, around, seen_by
from kfm.api.problems import HttpProblem, not_found
from kfm.api.routes import HTML, STAFF, Answer, ApiRoute, Call, Parameter, View
from kfm.app.serving.discretion import own_mistakes
from kfm.app.serving.freshness_answers import FreshnessList, freshness_list
from kfm.app.serving.job_answers import JobList, TriggerList, is_cursor, job_list, trigger_list
from kfm.app.serving.schedule_answers import (
    BackfillAnswer,
    BackfillList,
    PoolList,
    ScheduleAnswer,
    ScheduleList,
    backfill_answer,
    backfill_list,
    pool_list,
    schedule_answer,
    schedule_list,
)

AFTER = Parameter("after", "the cursor that the page before gives as `next`")
JOBS = Parameter("state", "open: they wait, run or are dead letters", "choice", "open", choices=("open", "ended"))
TRIGGERS = Parameter("state", "which triggers", "choice", "waiting", choices=("waiting", "ended"))
SHOWN = 100  # schedules, backfills, jobs and triggers of the page


def schedules(view: View, call: Call) -> Answer:
    with own_mistakes():
        return Answer(
            schedule_list(view.session, seen_by(view), call.query["after"], call.query["limit"], view.entries)
        )


def schedule(view: View, call: Call) -> Answer:
    with own_mistakes():
        found = schedule_answer(view.session, seen_by(view), call.path["schedule"], view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


def backfills(view: View, call: Call) -> Answer:
    with own_mistakes():
        return Answer(
            backfill_list(view.session, seen_by(view), call.query["after"], call.query["limit"], view.entries)
        )


def backfill(view: View, call: Call) -> Answer:
    with own_mistakes():
        found = backfill_answer(view.session, seen_by(view), call.path["backfill"], view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


def pools(view: View, _call: Call) -> Answer:
    with own_mistakes():
        return Answer(pool_list(view.session, seen_by(view), view.entries))


def freshness(view: View, _call: Call) -> Answer:
    with own_mistakes():
        return Answer(freshness_list(view.session, seen_by(view), view.entries))


def jobs(view: View, call: Call) -> Answer:
    query, after = call.query, _cursor(call)
    with own_mistakes():
        return Answer(job_list(view.session, seen_by(view), query["state"], after, query["limit"], view.entries))


def triggers(view: View, call: Call) -> Answer:
    query, after = call.query, _cursor(call)
    with own_mistakes():
        return Answer(trigger_list(view.session, seen_by(view), query["state"], after, query["limit"], view.entries))


def _cursor(call: Call) -> str:
    after: str = call.query["after"]
    if not is_cursor(after):
        raise HttpProblem(400, "after is no cursor of this list; take it from `next` of a page", "input.bad")
    return after


def schedules_html(view: View, _call: Call) -> Answer:
    session, seen, index = view.session, seen_by(view), view.entries
    with own_mistakes():
        told = SchedulePage(
            freshness=freshness_list(session, seen, index),
            schedules=schedule_list(session, seen, "", SHOWN, index),
            backfills=backfill_list(session, seen, "", SHOWN, index),
            pools=pool_list(session, seen, index),
            jobs=job_list(session, seen, "open", "", SHOWN, index),
            triggers=trigger_list(session, seen, "waiting", "", SHOWN, index),
        )
    return Answer(schedule_page(told, around(view)), HTML)


ROUTES = (
    ApiRoute(
        "GET", "/v1/schedules", "schedules", "Schedules: when each ran last, and when it runs next", schedules,
        ScheduleList, (AFTER, LIMIT), tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/schedules/{schedule}", "schedule", "One schedule with its last and next instants", schedule,
        ScheduleAnswer, tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/backfills", "backfills", "Backfills and how far they have come", backfills, BackfillList,
        (AFTER, LIMIT), tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/backfills/{backfill}", "backfill", "One backfill with the partitions that it could not build",
        backfill, BackfillAnswer, tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/pools", "pools", "Pools: which runs have a slot, and which wait for one", pools, PoolList,
        tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/jobs", "jobs", "Jobs: what workers have to do, and what they could not do", jobs, JobList,
        (JOBS, AFTER, LIMIT), tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/triggers", "triggers", "Requests for runs", triggers, TriggerList, (TRIGGERS, AFTER, LIMIT),
        tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/freshness", "freshness", "How old each dataset is, how old it may be, and why it is late",
        freshness, FreshnessList, tag="schedules", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/schedules", "schedulesPage", "The page of what runs when, and of what is late", schedules_html,
        media=HTML, tag="pages", audiences=STAFF,
    ),
)  # fmt: skip
