"""The routes for the staff: objectives, review, governance and why not, with their pages, and that of operations."""

from __future__ import annotations

from kfm.api.console.operations_page import EVERYTHING, LEVELS, OPERATIONS, Choice, operations_page
from kfm.api.console.steward_pages import governance_page, objectives_page, review_page, why_not_page
from kfm.api.endpoints.run_routes import around, seen_by
from kfm.api.problems import not_found
from kfm.api.routes import HTML, STAFF, Answer, ApiRoute, Call, Parameter, View
from kfm.app.serving.discretion import own_mistakes
from kfm.app.serving.now_answers import now_answer
from kfm.app.serving.steward_answers import (
    GovernanceAnswer,
    ObjectiveList,
    ReviewList,
    WhyNotAnswer,
    governance_answer,
    objective_list,
    review_list,
    why_not_answer,
)


def _objective_list(view: View) -> ObjectiveList:
    with own_mistakes():
        return objective_list(view.session, seen_by(view), view.entries)


def _review_list(view: View) -> ReviewList:
    with own_mistakes():
        return review_list(view.session, seen_by(view), view.entries)


def _governance_answer(view: View) -> GovernanceAnswer:
    with own_mistakes():
        return governance_answer(view.session, seen_by(view), view.entries)


def objectives(view: View, _call: Call) -> Answer:
    return Answer(_objective_list(view))


def objectives_html(view: View, _call: Call) -> Answer:
    return Answer(objectives_page(_objective_list(view), around(view)), HTML)


def review(view: View, _call: Call) -> Answer:
    return Answer(_review_list(view))


def review_html(view: View, _call: Call) -> Answer:
    return Answer(review_page(_review_list(view), around(view)), HTML)


def governance(view: View, _call: Call) -> Answer:
    return Answer(_governance_answer(view))


def governance_html(view: View, _call: Call) -> Answer:
    return Answer(governance_page(_governance_answer(view), around(view)), HTML)


def _why_not(view: View, call: Call) -> WhyNotAnswer:
    found = why_not_answer(view.session, seen_by(view), call.path["name"], view.entries)
    if found is None:
        raise not_found()
    return found


def why_not(view: View, call: Call) -> Answer:
    return Answer(_why_not(view, call))


def why_not_html(view: View, call: Call) -> Answer:
    return Answer(why_not_page(_why_not(view, call), around(view)), HTML)


def operations_html(view: View, call: Call) -> Answer:
    seen, chosen = seen_by(view), Choice(**call.query)
    if chosen.dataset not in ("", EVERYTHING) and not seen.may_name(chosen.dataset):
        raise not_found()
    with own_mistakes():
        told = now_answer(view.session, seen, view.entries)
    return Answer(operations_page(told, chosen, around(view)), HTML)


ROUTES = (
    ApiRoute(
        "GET", "/v1/objectives", "objectives", "Objectives and what is left of their budgets", objectives,
        ObjectiveList, tag="staff", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/review", "review", "What waits for a person to decide", review, ReviewList, tag="staff",
        audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/governance", "governance", "Labels by dataset, consents and policies in force", governance,
        GovernanceAnswer, tag="staff", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/why-not/{name}", "whyNot", "Why a dataset is not run, shown or published", why_not, WhyNotAnswer,
        tag="staff", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/objectives", "objectivesPage", "The page of objectives", objectives_html, media=HTML, tag="pages",
        audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/operations", "operationsPage", "The page on which people act", operations_html, media=HTML,
        tag="pages", audiences=STAFF,
        parameters=(
            Parameter("operation", "what is to be done", "choice", "", choices=("", *OPERATIONS)),
            Parameter("dataset", "of which dataset"),
            Parameter("to", "to which version"),
            Parameter("level", "the level of a freeze or thaw", "choice", "", choices=tuple(LEVELS)),
        ),
    ),
    ApiRoute(
        "GET", "/review", "reviewPage", "The page of what waits for a decision", review_html, media=HTML, tag="pages",
        audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/governance", "governancePage", "The page of labels and policies", governance_html, media=HTML,
        tag="pages", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/why-not/{name}", "whyNotPage", "The page of why not", why_not_html, media=HTML, tag="pages",
        audiences=STAFF,
    ),
)  # fmt: skip
