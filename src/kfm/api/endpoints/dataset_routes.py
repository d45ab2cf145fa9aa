"""The routes about a dataset that are no data: freshness, quality, schema, decisions, reproduction; and the labels."""

from __future__ import annotations

from kfm.api.console.decision_page import decision_page
from kfm.api.endpoints.data_routes import AFTER, LIMIT, shown
from kfm.api.endpoints.run_routes import around, seen_by
from kfm.api.problems import not_found
from kfm.api.routes import HTML, STAFF, Answer, ApiRoute, Call, Parameter, View
from kfm.app.serving.dataset_answers import content_of
from kfm.app.serving.decision_answers import DecisionAnswer, LabelList, decision_answer, label_list
from kfm.app.serving.discretion import own_mistakes
from kfm.app.serving.freshness_answers import FreshnessAnswer, freshness_answer
from kfm.app.serving.quality_answers import QualityAnswer, SchemaAnswer, quality_answer, schema_answer
from kfm.app.serving.reproduction_answers import ReproduceAnswer, reproduce_answer

VERSION = Parameter("version", "the digest of a version; default: the processed one")


def freshness(view: View, call: Call) -> Answer:
    at = shown(view, call)
    with own_mistakes():
        found = freshness_answer(view.session, seen_by(view), at.dataset, view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


def quality(view: View, call: Call) -> Answer:
    found = quality_answer(view.session, seen_by(view), shown(view, call), call.path["version"], view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


def schema(view: View, call: Call) -> Answer:
    at = shown(view, call)
    return Answer(schema_answer(view.session, seen_by(view), content_of(view.session, at), at, view.entries))


def _decisions(view: View, call: Call) -> DecisionAnswer:
    with own_mistakes():
        wanted = call.query["version"]
        found = decision_answer(view.session, seen_by(view), call.path["name"], wanted, view.entries)
    if found is None:
        raise not_found()
    return found


def decisions(view: View, call: Call) -> Answer:
    return Answer(_decisions(view, call))


def decisions_html(view: View, call: Call) -> Answer:
    return Answer(decision_page(_decisions(view, call), around(view)), HTML)


def reproduce(view: View, call: Call) -> Answer:
    with own_mistakes():
        found = reproduce_answer(view.session, seen_by(view), call.path["thing"], view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


def labels(view: View, call: Call) -> Answer:
    with own_mistakes():
        return Answer(label_list(view.session, seen_by(view), call.query["after"], call.query["limit"], view.entries))


ROUTES = (
    ApiRoute(
        "GET", "/v1/datasets/{name}/freshness", "datasetFreshness",
        "How old it is, how old it may be, and which source makes it late", freshness, FreshnessAnswer,
    ),
    ApiRoute(
        "GET", "/v1/datasets/{name}/schema", "schema", "The columns of its current version, with types and units",
        schema, SchemaAnswer,
    ),
    ApiRoute(
        "GET", "/v1/datasets/{name}/versions/{version}/quality", "quality",
        "How the sources of a version passed their data contracts", quality, QualityAnswer,
    ),
    ApiRoute(
        "GET", "/v1/datasets/{name}/decisions", "decisions", "What the policies decided about a version, and why",
        decisions, DecisionAnswer, (VERSION,), tag="staff", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/labels", "labels", "The labels in force, by dataset and source", labels, LabelList, (AFTER, LIMIT),
        tag="staff", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/v1/reproduce/{thing}", "reproduce", "What repeating a run needs, and what of it is here", reproduce,
        ReproduceAnswer, tag="staff", audiences=STAFF,
    ),
    ApiRoute(
        "GET", "/decisions/{name}", "decisionsPage", "The page of what the policies decided", decisions_html,
        parameters=(VERSION,), media=HTML, tag="pages", audiences=STAFF,
    ),
)  # fmt: skip
