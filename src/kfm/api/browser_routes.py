"""The routes of the pages on which people act in a browser: their key, and operations."""

from __future__ import annotations

from kfm.api.console.key_page import key_page
from kfm.api.console.operations_page import EVERYTHING, LEVELS, OPERATIONS, Choice, operations_page
from kfm.api.problems import not_found
from kfm.api.routes import HTML, STAFF, Answer, ApiRoute, Call, Parameter, View
from kfm.api.run_routes import around, seen_by
from kfm.app.serving.discretion import own_mistakes
from kfm.app.serving.now_answers import now_answer


def own_key(view: View, _call: Call) -> Answer:
    return Answer(key_page(view.person, around(view)), HTML)


def operations(view: View, call: Call) -> Answer:
    seen, chosen = seen_by(view), Choice(**call.query)
    if chosen.dataset not in ("", EVERYTHING) and not seen.may_name(chosen.dataset):
        raise not_found()
    with own_mistakes():
        told = now_answer(view.session, seen, view.entries)
    return Answer(operations_page(told, chosen, around(view)), HTML)


ROUTES = (
    ApiRoute(
        "GET", "/my-key", "keyPage", "The page of the key of this browser", own_key, media=HTML, tag="sign-in",
        for_strangers=True,
    ),
    ApiRoute(
        "GET", "/operations", "operationsPage", "The page on which people act", operations, media=HTML, tag="pages",
        audiences=STAFF,
        parameters=(
            Parameter("operation", "what is to be done", "choice", "", choices=("", *OPERATIONS)),
            Parameter("dataset", "of which dataset"),
            Parameter("to", "to which version"),
            Parameter("level", "the level of a freeze or thaw", "choice", "", choices=tuple(LEVELS)),
        ),
    ),
)  # fmt: skip
