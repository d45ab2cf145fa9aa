"""The routes about versions, lineage and refs, and their pages."""

from __future__ import annotations

from kfm.api.console.version_pages import lineage_page, version_page
from kfm.api.endpoints.data_routes import shown
from kfm.api.endpoints.run_routes import AFTER, LIMIT, around, seen_by
from kfm.api.problems import not_found
from kfm.api.routes import HTML, Answer, ApiRoute, Call, Parameter, View
from kfm.app.serving.lineage_answers import MOST, LineageAnswer, lineage_answer
from kfm.app.serving.version_answers import (
    RefList,
    VersionAnswer,
    VersionDifference,
    VersionList,
    ref_list,
    version_answer,
    version_difference,
    version_list,
)

DEPTH = Parameter("depth", "how many runs away", "whole", 1, 1, 20)
NODES = Parameter("limit", "the most datasets and sources, the nearest first", "whole", 60, 2, MOST)


def versions(view: View, call: Call) -> Answer:
    return Answer(version_list(view.session, shown(view, call), view.entries))


def _version(view: View, call: Call, limit: int) -> VersionAnswer:
    at = shown(view, call)
    found = version_answer(view.session, at, call.path["version"], call.query["after"], limit, view.entries)
    if found is None:
        raise not_found()
    return found


def version(view: View, call: Call) -> Answer:
    return Answer(_version(view, call, call.query["limit"]))


def version_html(view: View, call: Call) -> Answer:
    told = _version(view, call, 100)
    differs = version_difference(view.session, shown(view, call), "", told.version, 50, view.entries)
    return Answer(version_page(told, differs, around(view)), HTML)


def difference(view: View, call: Call) -> Answer:
    query = call.query
    found = version_difference(
        view.session, shown(view, call), query["from"], query["to"], query["limit"], view.entries
    )
    if found is None:
        raise not_found()
    return Answer(found)


def _lineage(view: View, call: Call) -> LineageAnswer:
    at = shown(view, call)
    depth, limit = call.query["depth"], call.query["limit"]
    return lineage_answer(view.session, seen_by(view), at.dataset, at.version, depth, limit, view.entries)


def lineage(view: View, call: Call) -> Answer:
    return Answer(_lineage(view, call))


def lineage_html(view: View, call: Call) -> Answer:
    return Answer(lineage_page(_lineage(view, call), around(view)), HTML)


def refs(view: View, _call: Call) -> Answer:
    return Answer(ref_list(view.session, seen_by(view), view.entries))


ROUTES = (
    ApiRoute("GET", "/v1/datasets/{name}/versions", "versions", "Versions that may be shown", versions, VersionList),
    ApiRoute(
        "GET", "/v1/datasets/{name}/versions/{version}", "version", "One version with its files", version,
        VersionAnswer, (AFTER, LIMIT),
    ),
    ApiRoute(
        "GET", "/v1/datasets/{name}/diff", "diff", "How two versions differ", difference, VersionDifference,
        (
            Parameter("from", "the older version; default: the one before the other"),
            Parameter("to", "the newer version; default: the current one"),
            LIMIT,
        ),
    ),
    ApiRoute(
        "GET", "/v1/datasets/{name}/lineage", "lineage", "What it was made of, and what was made of it", lineage,
        LineageAnswer, (DEPTH, NODES),
    ),
    ApiRoute("GET", "/v1/refs", "refs", "Where refs lead", refs, RefList),
    ApiRoute(
        "GET", "/versions/{name}/{version}", "versionPage", "The page of a version", version_html, parameters=(AFTER,),
        media=HTML, tag="pages",
    ),
    ApiRoute(
        "GET", "/lineage/{name}", "lineagePage", "The page of a dataset's lineage", lineage_html,
        parameters=(DEPTH, NODES), media=HTML, tag="pages",
    ),
)  # fmt: skip
