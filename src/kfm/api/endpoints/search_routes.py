"""The search over HTTP, and its page."""

from __future__ import annotations

from kfm.api.console.search_page import search_page
from kfm.api.endpoints.run_routes import around
from kfm.api.routes import HTML, Answer, ApiRoute, Call, Parameter, View
from kfm.app.serving.search_answers import TextSearch, text_search

QUERY = Parameter("q", "the words to look for; the first 1000 characters count")
LIMIT = Parameter("limit", "the most hits of a kind", "whole", 20, 1, 200)


def _search(view: View, call: Call) -> TextSearch:
    return text_search(view.session, view.shelf, call.query["q"], call.query["limit"], view.entries)


def search(view: View, call: Call) -> Answer:
    return Answer(_search(view, call))


def search_html(view: View, call: Call) -> Answer:
    return Answer(search_page(_search(view, call), around(view)), HTML)


ROUTES = (
    ApiRoute(
        "GET", "/v1/search", "search", "Datasets and published text with these words", search, TextSearch,
        (QUERY, LIMIT),
    ),
    ApiRoute(
        "GET", "/search", "searchPage", "The page of a search", search_html, parameters=(QUERY, LIMIT), media=HTML,
        tag="pages",
    ),
)  # fmt: skip
