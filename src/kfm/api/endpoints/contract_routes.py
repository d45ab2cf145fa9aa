"""The routes that describe the API itself: its OpenAPI document, and a page of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from kfm.api.console.contract_page import contract_page
from kfm.api.openapi import OPENAPI, document
from kfm.api.routes import HTML, Answer, ApiRoute, Call, View
from kfm.app.metadata.archive_places import places_of_public


def with_contract(table: Sequence[ApiRoute]) -> tuple[ApiRoute, ...]:
    """Return these routes and those that describe all of them. The document is made when it is first asked for."""

    @cache
    def described() -> dict[str, Any]:
        return document(routes)

    routes = (
        ApiRoute(
            "GET", "/v1/openapi.json", "openapi", "This description, as OpenAPI 3.1", _as_document(described),
            media=OPENAPI, tag="contract",
        ),
        ApiRoute(
            "GET", "/v1/docs", "docs", "This description, as a page", _as_page(described), media=HTML, tag="contract"
        ),
        *table,
    )  # fmt: skip
    return routes


def _as_document(described: Callable[[], dict[str, Any]]) -> Callable[[View, Call], Answer]:
    def work(_view: View, _call: Call) -> Answer:
        return Answer(msgspec.json.encode(described()), OPENAPI)

    return work


def _as_page(described: Callable[[], dict[str, Any]]) -> Callable[[View, Call], Answer]:
    def work(view: View, _call: Call) -> Answer:
        return Answer(contract_page(described(), places_of_public(view.session).title), HTML)

    return work
